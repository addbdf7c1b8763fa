"""What several treatments need."""
