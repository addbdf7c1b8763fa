"""Treatments of `rules/repair/maps.yaml`."""
