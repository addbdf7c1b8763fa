"""The draft vocabulary: maps, masks, heads."""
