"""Model files: downloaded from where they are, or built from weights."""
