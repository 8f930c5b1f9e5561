"""What earlier nights measured, and what changed since."""
