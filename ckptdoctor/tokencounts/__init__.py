"""Counts of tokens, from tables, token ids or text of any common kind of file."""
