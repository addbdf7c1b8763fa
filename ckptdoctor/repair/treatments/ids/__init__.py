"""Treatments of `rules/repair/ids.yaml`."""
