"""Treatments of `rules/repair/names.yaml`."""
