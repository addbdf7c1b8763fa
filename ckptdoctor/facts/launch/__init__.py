"""The launch line held against the draft."""
