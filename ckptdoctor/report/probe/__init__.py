"""The outcome of `probe`."""
