"""The outcome of `fix`."""
