"""Captured layers: which boundaries a release captures, and which the draft was trained on."""
