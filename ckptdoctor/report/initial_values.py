"""What is said of a parameter that keeps the value which its engine made it with."""

from __future__ import annotations

__all__ = ["LEFT", "is_defined"]

LEFT = {
    "ones": "left at ones",
    "zeros": "left at zeros",
    "identity": "left at values that change nothing",
    "random": "left random",
    "empty": "left uninitialised",
}


def is_defined(initial: str) -> bool:
    """Whether the value is the same at every start: neither drawn nor whatever the memory held."""
    return initial not in ("random", "empty")
