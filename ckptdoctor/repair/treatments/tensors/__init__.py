"""Treatments of `rules/repair/tensors.yaml`."""
