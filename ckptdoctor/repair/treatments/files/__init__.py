"""Treatments of `rules/repair/files.yaml`."""
