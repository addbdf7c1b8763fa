"""The report of a scan in each of its formats."""
