"""Block drafters (DFlash, DSpark and their kin)."""
