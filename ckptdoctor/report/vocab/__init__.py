"""Pages and pictures of a draft vocabulary."""
