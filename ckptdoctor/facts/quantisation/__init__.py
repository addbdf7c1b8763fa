"""Quantised weights: schemes, what they cover, how they are stored."""
