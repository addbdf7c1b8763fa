"""The five outcomes of a plan, and which of two is better.

`unknown` is neither good nor bad: nobody knows whether it is better than `degraded`.
"""

from __future__ import annotations

__all__ = ["OUTCOMES", "is_better", "is_worse"]

OUTCOMES = ("served", "degraded", "broken", "refused", "unknown")
"""From the best to the worst, and the one that is none of them."""

_RANK = {"refused": 0, "broken": 0, "degraded": 1, "served": 2}


def is_better(after: str, before: str) -> bool:
    """Whether `after` is known to be better than `before`; a stop and a silent failure are equally useless."""
    if after == "unknown":
        return False
    if before == "unknown":
        return after == "served"
    return _RANK[after] > _RANK[before]


def is_worse(after: str, before: str) -> bool:
    """Whether `after` is known to be worse than `before`, or no longer known to be as good."""
    if after == "unknown":
        return before in ("served", "degraded")
    if before == "unknown":
        return after in ("broken", "refused")
    return _RANK[after] < _RANK[before]
