"""Positions: rope of the draft and of its target."""
