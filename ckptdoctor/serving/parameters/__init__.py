"""The parameters that a release builds, and what it loads into each."""
