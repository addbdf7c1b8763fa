"""The answer of `acceptance`."""
