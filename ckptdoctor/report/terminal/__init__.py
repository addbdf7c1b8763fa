"""Styled lines on a terminal or in a file."""
