"""Lists of classes, read in the sources of every release."""
