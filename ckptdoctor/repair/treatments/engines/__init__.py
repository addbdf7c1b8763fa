"""Treatments of `rules/repair/engines.yaml`."""
