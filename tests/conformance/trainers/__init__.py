"""The reference forward against the classes of trainers: cases, models and the comparison."""
