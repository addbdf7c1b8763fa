"""Treatments of `rules/repair/mtp.yaml`."""
