"""Values of weights (`--deep`)."""
