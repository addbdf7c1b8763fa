"""What the tests of registries share, by registry."""
