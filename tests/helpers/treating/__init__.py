"""What the tests of treatments share, by family."""
