"""Choosing a gate: signals, a held-out choice with a promise, and what it is worth."""
