"""PyTorch files in a process of their own: what asks it, what it does, and tensors as places in their file."""
