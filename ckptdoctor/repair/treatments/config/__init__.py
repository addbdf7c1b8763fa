"""Treatments of `rules/repair/config.yaml`."""
