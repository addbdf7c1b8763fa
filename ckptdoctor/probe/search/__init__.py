"""Which wiring makes the draft guess right."""
