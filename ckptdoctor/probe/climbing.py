"""From the readings that files and engines suggest to one that nothing next to it betters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ckptdoctor.probe.readings import PARTS, Readings
from ckptdoctor.probe.tries import Runs
from ckptdoctor.probe.wiring import Wiring

__all__ = ["climb"]

_DEEPENED = 4
_SWEEPS = 4
_LATE_PARTS = ("norm_output",)
"""Parts that the first step of a chain does not depend on."""
_STEP = 0.05
"""A change must gain this much, or it may be the noise of a few hundred tokens."""
_FAR_FROM_WORKING = 1.2
"""Below this score a reading is hardly better than chance."""
_WIDE_PARTS = ("token", "norm_before_fc", "fc_norm", "head_norm", "residual_after_norm")
"""Parts of which a single wrong one leaves nothing of the draft, whatever the others are."""


def climb(runs: Runs, further: Runs, readings: Readings) -> Wiring:
    """The best reading that can be reached from the stated one and from the likeliest choices of states.

    `runs` have one step, which is enough for most parts; `further` have more. Where nothing that is reached guesses
    better than chance, two parts may be wrong that hide each other: then all their values are tried together.
    """
    # With the wrong token beside them all states look alike: every choice of states begins with each token.
    stated = runs.best_map(readings.stated)
    starts = [runs.best_map(start) for start in _starts(readings, ("token",))]
    starts += [runs.best_map(near) for near in readings.neighbours(readings.stated, "fc")]
    best = _best_of(runs, further, readings, [stated, *_first(runs, starts)])
    if further.score(best) < _FAR_FROM_WORKING:
        wide = [runs.best_map(start) for start in _starts(readings, _WIDE_PARTS)]
        best = _best_of(runs, further, readings, [best, *_first(runs, wide)])
    return best


def _starts(readings: Readings, parts: tuple[str, ...]) -> Iterator[Wiring]:
    """Every choice of states to begin with, with all values of `parts`."""
    for states in readings.starts:
        for values in product(*(readings.values[part] for part in parts)):
            yield replace(readings.stated, states=states, fc=True, **dict(zip(parts, values, strict=True)))


def _first(runs: Runs, starts: list[Wiring]) -> list[Wiring]:
    return sorted(dict.fromkeys(starts), key=runs.score, reverse=True)[:_DEEPENED]


def _best_of(runs: Runs, further: Runs, readings: Readings, starts: list[Wiring]) -> Wiring:
    tops = [_up(runs, further, readings, start) for start in dict.fromkeys(starts)]
    return max(tops, key=further.score)


def _up(runs: Runs, further: Runs, readings: Readings, at: Wiring) -> Wiring:
    """From `at` one part after the other, until none gains anything."""
    for _ in range(_SWEEPS):
        before = at
        for part in PARTS:
            judged = further if part in _LATE_PARTS else runs
            near = [runs.best_map(w) for w in readings.neighbours(at, part)]
            top = max([at, *near], key=judged.score)
            if judged.score(top) >= judged.score(at) + _STEP:
                at = top
        if at == before:
            break
    return at
