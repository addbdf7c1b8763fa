"""The words that the page and the picture of a vocabulary share."""

from __future__ import annotations

__all__ = ["READING", "VERDICT", "count", "percent"]

READING = {
    0: "absolute ids (target id = d2t[i])",
    1: "offsets (target id = i + d2t[i])",
    2: "offset twice (target id = 2i + d2t[i])",
}
"""The readings of a map, `i` being the draft id."""

VERDICT = {
    "right": ("right: offsets, which is what engines read", "fix"),
    "identity": ("right: all zeros, since draft ids and target ids are the same", "fix"),
    "stale_t2d": ("right as offsets; t2d does not belong to it (engines ignore t2d)", "warning"),
    "absolute": ("wrong: it holds target ids where engines read offsets", "error"),
    "offset_twice": ("wrong: the draft id was subtracted twice", "error"),
    "damaged": ("damaged: some entries are wrong as offsets", "error"),
    "open": ("open: several readings fit, none of them as offsets", "warning"),
    "zeros_never_loaded": ("all zeros: it was never loaded (t2d is all true)", "error"),
    "zeros_first": ("all zeros: the draft proposes from the first target ids (t2d marks exactly these)", "warning"),
    "zeros_lost": ("all zeros: the map is lost (t2d marks other ids)", "error"),
    "zeros_undecided": ("all zeros: made so or never loaded; only a t2d would decide", "warning"),
    "empty": ("empty", "error"),
}
"""What a map is, and the style that says how bad that is. `scan` judges; this only names."""


def count(value: float) -> str:
    """A number for people: `32,000`."""
    return f"{round(value):,}"


def percent(share: float) -> str:
    """A share in [0, 1] for people: `96.3 %`. What is not all is never `100.0 %`, what is something never `0.0 %`."""
    if 0.9995 <= share < 1:
        return "over 99.9 %"
    return "under 0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"
