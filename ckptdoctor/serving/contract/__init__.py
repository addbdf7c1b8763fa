"""The contract of one engine: its releases, timelines and lists of classes."""
