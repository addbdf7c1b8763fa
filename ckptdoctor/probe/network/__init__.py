"""The draft's own forward, from its stored parts."""
