"""The five outcomes of a plan, and which of two is better.

`unknown` is neither good nor bad: nobody knows whether it is better than `degraded`.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Outcome", "is_better", "is_worse"]


class Outcome(str, Enum):
    """From the best to the worst, and the one that is none of them. Each is its word: `Outcome.SERVED == "served"`."""

    SERVED = "served"
    DEGRADED = "degraded"
    BROKEN = "broken"
    REFUSED = "refused"
    UNKNOWN = "unknown"

    # Shown as the word in every release of Python: some show the member's name.
    def __str__(self) -> str:
        return self.value

    def __format__(self, spec: str) -> str:
        return format(self.value, spec)

    @property
    def worth(self) -> int:
        """What is chosen by, from 3 (the best) to 0; what is not known counts like a silent failure."""
        return {"served": 3, "degraded": 2, "broken": 1, "unknown": 1, "refused": 0}[self.value]

    @property
    def is_useless(self) -> bool:
        """Whether nothing is gained by the draft: a stop and a silent failure are equally useless."""
        return self in (Outcome.BROKEN, Outcome.REFUSED)


def is_better(after: str, before: str) -> bool:
    """Whether `after` is known to be better than `before`."""
    if after == Outcome.UNKNOWN:
        return False
    if before == Outcome.UNKNOWN:
        return after == Outcome.SERVED
    return max(Outcome(after).worth, 1) > max(Outcome(before).worth, 1)


def is_worse(after: str, before: str) -> bool:
    """Whether `after` is known to be worse than `before`, or no longer known to be as good."""
    if after == Outcome.UNKNOWN:
        return before in (Outcome.SERVED, Outcome.DEGRADED)
    if before == Outcome.UNKNOWN:
        return Outcome(after).is_useless
    return is_better(before, after)
