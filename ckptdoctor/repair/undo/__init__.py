"""The receipt, and the way back."""
