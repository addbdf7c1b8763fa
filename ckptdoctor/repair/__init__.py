"""Repair: findings become typed edits, and edits become a verified copy. The source is never written to."""
