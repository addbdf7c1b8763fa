"""Names of tensors: what each would be called in the usual layout."""
