"""The command line: one thin module for each command, wired together in `main`."""
