"""Exploring runs in a notebook: pure functions first, widgets last."""
