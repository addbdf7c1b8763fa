"""The draft's config as a release understands it: translated, of which class, with which values."""
