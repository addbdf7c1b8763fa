"""From the readings that files and engines suggest to one that nothing next to it betters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product
from math import comb
from typing import Any

from ckptdoctor.probe.search.readings import PARTS, Readings
from ckptdoctor.probe.search.tries import Runs
from ckptdoctor.probe.wiring import Wiring

__all__ = ["climb", "is_hopeless"]

_DEEPENED = 4
_SWEEPS = 4
_LATE_PARTS = ("norm_output",)
"""Parts that the first step of a chain does not depend on."""
_STEP = 0.05
"""A change must gain this much, or it may be the noise of a few hundred tokens."""
_FAR_FROM_WORKING = 1.2
"""Below this score a reading is hardly better than chance."""
_HIDING_PARTS = (
    "token", "norm_before_fc", "fc_norm", "residual_after_norm", "normed_twice", "head_norm", "rope_base",
)  # fmt: skip
"""Parts of which a single wrong one can leave nothing of the draft, whatever the others are."""
_BASES_APART = 8.0
"""Bases that are nearer to each other than this factor are not tried apart where parts are changed together."""
_FEW_CHOICES = 64
_CHANGES_WITH_ANY_STATES = 2
"""Where more parts than this are changed together, only the choices of states to begin with are tried."""


def is_hopeless(further: Runs, wiring: Wiring) -> bool:
    """Whether a reading is hardly better than chance."""
    return further.score(wiring) < _FAR_FROM_WORKING


def climb(scout: Runs, runs: Runs, further: Runs, readings: Readings, together: int) -> Wiring:
    """The best reading that can be reached from the stated one and from the likeliest choices of states.

    `scout` and `runs` have one step, which is enough for most parts; `further` have more. Where nothing that is reached
    guesses better than chance, parts may be wrong that hide each other: then up to `together` of them are changed at
    once, on the few tokens of `scout`, which a reading that works stands out on.
    """
    # With the wrong token beside them all states look alike: every choice of states begins with each token.
    stated = runs.best_map(readings.stated)
    starts = [runs.best_map(start) for start in _starts(readings, readings.stated)]
    starts += [runs.best_map(near) for near in readings.neighbours(readings.stated, "fc")]
    best = _best_of(runs, further, readings, [stated, *_first(runs, starts)])
    for changes in range(2, together + 1):
        if not is_hopeless(further, best):
            break
        wide = _first(scout, [scout.best_map(start) for start in _changed_together(readings, changes)])
        promising = [start for start in wide if runs.score(start) >= runs.score(best) + _STEP]
        best = _best_of(runs, further, readings, [best, *promising])
    # A wrong token and wrong states can make up for each other in part, so that neither alone is a step up.
    again = max((runs.best_map(start) for start in _starts(readings, best)), key=runs.score, default=best)
    if runs.score(again) > runs.score(best):
        best = _best_of(runs, further, readings, [best, again])
    return best


def _starts(readings: Readings, wiring: Wiring) -> Iterator[Wiring]:
    """`wiring` with every choice of states to begin with, and with each token beside them."""
    for states, token in product(readings.starts, readings.values["token"]):
        yield replace(wiring, states=states, token=token, fc=True)


def _changed_together(readings: Readings, changes: int) -> Iterator[Wiring]:
    """The stated reading, with fc, with `changes` of the states and the parts that hide each other changed at once."""
    stated = readings.stated
    if not stated.fc:
        if not readings.starts:
            return
        stated = replace(stated, fc=True, states=readings.starts[0])
    choices = _choices(readings, stated) if changes <= _CHANGES_WITH_ANY_STATES else readings.starts
    others: dict[str, list[Any]] = {"states": [states for states in choices if states != stated.states]}
    others |= {part: [v for v in readings.values[part] if v != getattr(stated, part)] for part in _HIDING_PARTS}
    others["rope_base"] = _apart(stated.rope_base, others["rope_base"])
    for parts in combinations(others, changes):
        for values in product(*(others[part] for part in parts)):
            yield replace(stated, **dict(zip(parts, values, strict=True)))


def _choices(readings: Readings, stated: Wiring) -> tuple[tuple[int, ...], ...]:
    """Choices of states: those to begin with, those next to the stated one, and all in ascending order if few."""
    choices = [*readings.starts, *(near.states for near in readings.neighbours(stated, "states"))]
    if comb(len(readings.columns), len(stated.states)) <= _FEW_CHOICES:
        choices += combinations(readings.columns, len(stated.states))
    return tuple(dict.fromkeys(choices))


def _apart(stated: float, bases: list[float]) -> list[float]:
    """Those of `bases` that are far from the stated one and from each other, the first ones before later ones."""
    taken = [stated]
    for base in bases:
        if all(max(base, other) >= _BASES_APART * min(base, other) for other in taken):
            taken.append(base)
    return taken[1:]


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
