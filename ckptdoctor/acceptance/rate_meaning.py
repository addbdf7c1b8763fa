"""Which rate an engine prints beside the length, and for how many draft tokens: measured on the printed pairs."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

__all__ = ["RatePairs"]

_HALF = 0.005
"""Both are printed with two decimals."""

_ANY = (0.0, 128.0)
"""No server drafts more tokens a step than this."""


@dataclass(frozen=True)
class RatePairs:
    """The ranges of the divisor that all pairs of length and rate allow, by formula, as far as rounding tells.

    `verified`: rate = length / N, the divisor being N. `proposed`: rate = (length - 1) / k, the divisor being k.
    """

    count: int = 0
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=lambda: {"verified": _ANY, "proposed": _ANY})

    def with_pair(self, length: float, rate: float) -> RatePairs:
        """These pairs and one more."""
        narrowed = {}
        for formula, (low, high) in self.ranges.items():
            tokens = length - (1 if formula == "proposed" else 0)
            least = max(tokens - _HALF, 0) / (rate + _HALF)
            most = (tokens + _HALF) / (rate - _HALF) if rate > _HALF else math.inf
            narrowed[formula] = (max(low, least - 1e-9), min(high, most + 1e-9))
        return RatePairs(self.count + 1, narrowed)

    def fits(self, formula: str, divisor: int) -> bool:
        """Whether every pair allows this divisor."""
        low, high = self.ranges[formula]
        return low <= divisor <= high

    def divisor(self, formula: str) -> int | None:
        """The one whole number that every pair allows; None when there is none, or more than one."""
        low, high = self.ranges[formula]
        first = max(math.ceil(low), 1)
        return first if self.count and math.floor(min(high, first + 1)) == first else None

    def possible(self, formula: str) -> bool:
        """Whether any whole number is left."""
        low, high = self.ranges[formula]
        return max(math.ceil(low), 1) <= high

    def decided(self, verified_of: int, tokens: int | None, meant: Collection[str]) -> tuple[str, int | None] | None:
        """The formula, and the number of draft tokens as the engine counts it; None when the pairs do not tell.

        `verified_of` is how many of the engine's number are no proposals, `tokens` that number where it is stated,
        `meant` are the formulas that this engine uses.
        """
        if not self.count:
            return None
        if tokens is not None:
            divisors = {"verified": tokens, "proposed": tokens - verified_of}
            fitting = [
                formula for formula, divisor in divisors.items() if formula in meant and self.fits(formula, divisor)
            ]
            return (fitting[0], tokens) if len(fitting) == 1 else None
        left = [formula for formula in self.ranges if formula in meant and self.possible(formula)]
        if len(left) != 1:
            return None
        divisor = self.divisor(left[0])
        if divisor is None:
            return left[0], None
        return left[0], divisor + (verified_of if left[0] == "proposed" else 0)
