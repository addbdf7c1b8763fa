"""Treatments of `rules/repair/quantisation.yaml`."""
