"""Layers for multi-token prediction."""
