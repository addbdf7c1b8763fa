"""Texts with the hidden states of a target, from whatever recorded them."""
