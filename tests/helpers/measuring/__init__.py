"""What the tests of measurements share, by what is measured."""
