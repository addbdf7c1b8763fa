"""From findings to a proven plan of edits. Pure."""
