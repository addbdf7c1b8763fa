"""Drafts and texts at the edges of what there can be, and how much work they are."""
