"""Measures whether a memory recalls, and whether it keeps quiet when it should."""

__version__ = "0.2.0"
