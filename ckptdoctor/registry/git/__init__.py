"""The gate of git: pushes and commits."""
