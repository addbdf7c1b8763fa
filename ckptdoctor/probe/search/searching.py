"""The wiring search: the same samples under every reading that fits, and which of them the draft works under."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ckptdoctor.probe.network.chains import Chains
from ckptdoctor.probe.network.network import Network
from ckptdoctor.probe.samples.samples import Samples
from ckptdoctor.probe.search.climbing import climb, is_hopeless
from ckptdoctor.probe.search.figures import Length, accepted_length, difference
from ckptdoctor.probe.search.readings import PARTS, Readings, differing
from ckptdoctor.probe.search.tries import Runs, Told, Tries, accepted_length_alone, part_of
from ckptdoctor.probe.wiring import Wiring

__all__ = ["SURE", "SURELY_BETTER", "Alternative", "Found", "search"]

SURE = 0.99
"""In this share of draws one reading must do better than another to count as better."""

SURELY_BETTER = 0.999
"""The same where a reading takes the place of the stated one: dozens are tried, and one in a hundred wins by luck."""

WORTH = 0.03
"""Another reading counts as better only where it gains this share of the accepted tokens, and as many tokens a step."""

_FAR_WORSE = 0.5
"""A reading that loses this share of the accepted tokens on a few tokens needs no second look."""

_FURTHER_STEPS = 3
_ROUNDS = 4
_LARGE = 20_000_000
"""Weights of a draft above which a reading takes so long that fewer tokens are run."""


@dataclass(frozen=True)
class _Effort:
    """Counted tokens that readings are run on, and how many parts are changed at once.

    `scout` where many are changed together, `screen` where one part after the other is, `near` for the readings next
    to the result (None: all), and `glance` for those among them that do far worse.
    """

    scout: int
    screen: int
    near: int | None
    glance: int | None
    together: int


_FULL = _Effort(scout=128, screen=320, near=None, glance=None, together=3)
_SPARING = _Effort(scout=80, screen=160, near=480, glance=128, together=2)


@dataclass(frozen=True)
class Alternative:
    """Another reading of one part: its accepted length, and the share of draws in which the found one does better."""

    part: str
    wiring: Wiring
    length: float
    beaten_in: float

    @property
    def is_beaten(self) -> bool:
        """Whether the samples tell it apart from the reading that was found."""
        return self.beaten_in >= SURE


@dataclass(frozen=True)
class Found:
    """What the search came to.

    `wiring` is the reading under which the draft does best; where others do as well, the stated values are kept.
    `changed` are the parts in which it differs from the stated one. `beats_stated_in` is the share of draws in which
    it does better than the stated reading (0.5: they are the same). `alternatives` are the readings next to it, the
    best one of each part first. `tried` counts the readings that were run.
    """

    wiring: Wiring
    chains: Chains
    length: Length
    stated: Wiring
    stated_chains: Chains
    stated_length: Length
    changed: tuple[str, ...]
    beats_stated_in: float
    alternatives: tuple[Alternative, ...]
    tried: int

    @property
    def open_parts(self) -> tuple[str, ...]:
        """Parts of which these samples do not tell the found value from another one."""
        return tuple(dict.fromkeys(a.part for a in self.alternatives if not a.is_beaten))


def search(network: Network, samples: Samples, readings: Readings, *, steps: int, tell: Told | None = None) -> Found:
    """Find the reading of the wiring under which the draft guesses best.

    First on a part of the samples: whole choices of states, then one part after the other until nothing gets better.
    Then on all of them: what is no better than the stated value is taken back, and the readings next to the result are
    run to see how sure it is.
    """
    tries = Tries(network, readings, tell)
    effort = _SPARING if sum(weight.numel() for weight in network.weights.values()) > _LARGE else _FULL
    screen = part_of(samples, effort.screen)
    scout, further = tries.on(part_of(samples, effort.scout), 1), tries.on(screen, min(steps, _FURTHER_STEPS))
    best = climb(scout, tries.on(screen, 1), further, readings, effort.together)
    whole = tries.on(samples, steps)
    # Chains of a draft that hardly guesses end at once: their later steps would be run for nothing.
    reached = 1 if is_hopeless(further, best) else steps
    near_by = whole if (effort.near, reached) == (None, steps) else tries.on(_some(samples, effort.near), reached)
    glance = None if effort.glance is None else tries.on(part_of(samples, effort.glance), reached)
    for _ in range(_ROUNDS):
        best = _kept(near_by, readings, best)
        others = [_alternative(near_by, glance, best, part, near) for part, near in _next_to(readings, best)]
        top = max(others, key=lambda a: a.length, default=None)
        if top is None or not _is_better(near_by(top.wiring), near_by(best)):
            break
        best = top.wiring
    found, stated = whole(best), whole(readings.stated)
    others.sort(key=lambda a: (PARTS.index(a.part), -a.length))
    return Found(
        wiring=best,
        chains=found,
        length=accepted_length(found),
        stated=readings.stated,
        stated_chains=stated,
        stated_length=accepted_length(stated),
        changed=differing(best, readings.stated),
        beats_stated_in=difference(found, stated)[1],
        alternatives=tuple(others),
        tried=tries.count,
    )


def _kept(runs: Runs, readings: Readings, best: Wiring) -> Wiring:
    """`best` with the stated value of every part that the samples do not show to be another."""
    stated = readings.stated
    if not _is_better(runs(best), runs(stated)):
        return stated
    changed = True
    while changed:
        changed = False
        for part in differing(best, stated):
            together = ("states", "fc") if part in ("states", "fc") else (part,)
            back = replace(best, **{name: getattr(stated, name) for name in together})
            if back != best and not _is_better(runs(best), runs(back)):
                best, changed = back, True
                break
    return best


def _is_better(one: Chains, other: Chains) -> bool:
    """Whether `one` is accepted longer by an amount that matters, and surely so."""
    gained, share = difference(one, other)
    return share >= SURELY_BETTER and gained >= WORTH * max(1.0, accepted_length_alone(one) - 1)


def _next_to(readings: Readings, best: Wiring) -> Iterator[tuple[str, Wiring]]:
    for part in PARTS:
        for near in readings.neighbours(best, part):
            yield part, near


def _some(samples: Samples, counted: int | None) -> Samples:
    return samples if counted is None else part_of(samples, counted)


def _alternative(runs: Runs, glance: Runs | None, best: Wiring, part: str, near: Wiring) -> Alternative:
    """`near` beside `best`; by a glance where that shows it to be far worse."""
    if glance is not None:
        apart, share = difference(glance(best), glance(near))
        if share >= SURE and apart >= _FAR_WORSE * (accepted_length_alone(glance(best)) - 1):
            return Alternative(part, near, accepted_length_alone(glance(near)), share)
    chains = runs(near)
    return Alternative(part, near, accepted_length_alone(chains), difference(runs(best), chains)[1])
