"""Load plans."""
