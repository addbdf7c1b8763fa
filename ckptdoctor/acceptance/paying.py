"""Whether speculation pays: tokens per second with it and without it, and the length at which both are even."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ckptdoctor.acceptance.rates import length_of, per_token

__all__ = ["Paying", "paying"]


@dataclass(frozen=True)
class Paying:
    """What speculation costs and gives.

    `with_draft` and `baseline` are tokens per second. `cost` is that of a step with drafting and verification, in plain
    decode steps: length · baseline / with_draft. It is also the accepted length at which speculation breaks even.
    `needed` is the per-token acceptance that gives this length (None where even a perfect draft is too short, or where
    the number of draft tokens is not known). `possible` tells that some acceptance of so many tokens would pay.
    `each` is the most that one draft token can cost, in plain steps: all of the step beyond one plain step, shared out.
    `fewer` are lengths and speedups with fewer draft tokens, measured where shares of the places are known.
    """

    with_draft: float
    baseline: float
    cost: float
    needed: float | None = None
    possible: bool | None = None
    each: float | None = None
    fewer: tuple[Fewer, ...] = ()

    @property
    def speedup(self) -> float:
        """Tokens per second with speculation over those without."""
        return self.with_draft / self.baseline


@dataclass(frozen=True)
class Fewer:
    """What so many draft tokens would give, if the cost of a step beyond a plain one falls with them."""

    proposed: int
    length: float
    speedup: float


def paying(
    length: float,
    with_draft: float,
    baseline: float,
    proposed: int | None,
    *,
    chain: bool = True,
    positions: Sequence[float] = (),
) -> Paying:
    """What the two speeds mean for a draft with this accepted length; both speeds are above 0.

    `chain` tells that each draft token takes a forward of its own: neither a tree nor a block.
    """
    cost = length * baseline / with_draft
    if proposed is None or proposed < 1:
        return Paying(with_draft, baseline, cost)
    possible = cost < proposed + 1
    needed = per_token(cost, proposed) if 1 <= cost < proposed + 1 else 0.0 if cost < 1 else None
    if not chain or cost < 1:
        return Paying(with_draft, baseline, cost, needed, possible)
    each = (cost - 1) / proposed
    shares = list(positions[:proposed])
    acceptance = per_token(length, proposed)
    fewer = []
    for count in range(1, proposed):
        # Where the places are known nothing has to be assumed: fewer tokens are accepted just as often.
        shorter = 1 + sum(shares[:count]) if len(shares) >= count else length_of(acceptance, count)
        fewer.append(Fewer(count, shorter, shorter / (1 + count * each)))
    return Paying(with_draft, baseline, cost, needed, possible, each, tuple(fewer))
