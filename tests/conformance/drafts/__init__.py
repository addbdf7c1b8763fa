"""Drafts for the loaders: which are alike to them, and odd ones of every kind."""
