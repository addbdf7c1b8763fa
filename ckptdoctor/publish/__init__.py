"""Writes a folder whole or not at all: prepared beside its place, verified, moved there in one step."""
