"""Figures of chains: accuracy of each step, expected accepted length, and how sure both are.

The positions of a text depend on each other, so intervals come from drawing whole stretches of texts again (a bootstrap
over blocks), never from single positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ckptdoctor.probe.network.chains import Chains

__all__ = ["Interval", "Length", "Step", "accepted_length", "difference", "step_figures", "wilson"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

DRAWS = 2000
_STRETCH = 16
_SEED = 20250801
_Z = 1.959964


@dataclass(frozen=True)
class Interval:
    """An interval that holds the true value in 95 of 100 cases."""

    low: float
    high: float


@dataclass(frozen=True)
class Step:
    """One step of the chain: `hits` of `of` positions where all steps before it were right."""

    number: int
    hits: int
    of: int
    interval: Interval

    @property
    def accuracy(self) -> float | None:
        """The share of hits; None where the step was never reached."""
        return self.hits / self.of if self.of else None


@dataclass(frozen=True)
class Length:
    """The expected accepted length of a chain, between 1 (nothing is accepted) and steps + 1."""

    value: float
    interval: Interval


def step_figures(chains: Chains) -> tuple[Step, ...]:
    """Each step with its counts and Wilson's interval of its accuracy."""
    at_risk, hits = _counts(chains)
    return tuple(
        Step(number + 1, int(h), int(n), wilson(int(h), int(n)))
        for number, (h, n) in enumerate(zip(hits.sum(0), at_risk.sum(0), strict=True))
    )


def accepted_length(chains: Chains) -> Length:
    """The accepted length to expect: 1 + Σ over the steps of the chance that all steps up to it are right.

    Chains that a text's end cuts short count up to there, as in Kaplan and Meier's estimate.
    """
    at_risk, hits = _counts(chains)
    value = float(_lengths(at_risk.sum(0)[None], hits.sum(0)[None])[0])
    drawn = _drawn(len(at_risk))
    lengths = _lengths(drawn @ at_risk, drawn @ hits)
    low, high = (float(q) for q in np.quantile(lengths, (0.025, 0.975)))
    if low == high:  # every stretch says the same: the counts alone bound it
        steps = step_figures(chains)
        low = 1 + sum(math.prod(s.interval.low for s in steps[: n + 1]) for n in range(len(steps)))
        high = 1 + sum(math.prod(s.interval.high for s in steps[: n + 1]) for n in range(len(steps)))
    return Length(value, Interval(min(low, value), max(high, value)))


def difference(one: Chains, other: Chains) -> tuple[float, float]:
    """How much longer `one` is accepted than `other` on the same texts, and in which share of draws it is longer.

    Draws without a difference count by half, so that two readings that never differ give 0.5.
    """
    known = np.union1d(_stretches(one), _stretches(other))
    a, b = _counts(one, known), _counts(other, known)
    gained = float(
        _lengths(a[0].sum(0)[None], a[1].sum(0)[None])[0] - _lengths(b[0].sum(0)[None], b[1].sum(0)[None])[0]
    )
    drawn = _drawn(len(a[0]))
    apart = _lengths(drawn @ a[0], drawn @ a[1]) - _lengths(drawn @ b[0], drawn @ b[1])
    return gained, float(((apart > 1e-9).sum() + 0.5 * (np.abs(apart) <= 1e-9).sum()) / len(apart))


def wilson(hits: int, of: int) -> Interval:
    """Wilson's interval of a share; 0 to 1 where nothing was counted."""
    if of == 0:
        return Interval(0.0, 1.0)
    share = hits / of
    spread = _Z * math.sqrt(share * (1 - share) / of + _Z**2 / (4 * of**2))
    middle = share + _Z**2 / (2 * of)
    scale = 1 + _Z**2 / of
    return Interval(max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale))


def _lengths(at_risk: Floats, hits: Floats) -> Floats:
    """[draws]: accepted lengths from summed counts [draws, steps]. A step that was never reached adds nothing."""
    rate = np.divide(hits, at_risk, out=np.zeros_like(hits, dtype=np.float64), where=at_risk > 0)
    lengths: Floats = 1 + np.cumprod(rate, axis=1).sum(1)
    return lengths


def _counts(chains: Chains, stretches: Integers | None = None) -> tuple[Floats, Floats]:
    """[stretches, steps] twice: positions at risk and hits, summed over each stretch of a text."""
    known = np.unique(_stretches(chains)) if stretches is None else stretches
    at_risk = chains.at_risk.numpy().astype(np.float64)
    hits = at_risk * chains.hit.numpy()
    sums = np.zeros((2, max(len(known), 1), chains.steps))
    if len(known):
        number = np.searchsorted(known, _stretches(chains))
        np.add.at(sums[0], number, at_risk)
        np.add.at(sums[1], number, hits)
    return sums[0], sums[1]


def _stretches(chains: Chains) -> Integers:
    """int64 [n]: the stretch of each position; by text and place alone, so that it is the same for all readings."""
    stretch: Integers = chains.text.numpy() * 2**32 + chains.place.numpy() // _STRETCH
    return stretch


@lru_cache(maxsize=8)
def _drawn(blocks: int) -> Floats:
    """[draws, blocks]: how often each stretch is drawn; always the same draws, so that a report can be made again."""
    generator = np.random.default_rng(_SEED)
    count = max(blocks, 1)
    drawn: Floats = generator.multinomial(count, np.full(count, 1 / count), size=DRAWS).astype(np.float64)
    return drawn
