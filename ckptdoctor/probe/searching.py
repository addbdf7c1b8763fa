"""The wiring search: the same samples under every reading that fits, and which of them the draft works under."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.probe.chains import Chains, run_chains
from ckptdoctor.probe.figures import Length, accepted_length, difference
from ckptdoctor.probe.network import Network
from ckptdoctor.probe.readings import PARTS, Readings, differing
from ckptdoctor.probe.samples import Sample, Samples
from ckptdoctor.probe.wiring import Wiring

__all__ = ["Alternative", "Found", "part_of", "search"]

Told = Callable[[str, int, int], None]
"""Called with what is being done, the readings tried, and about how many there will be."""

SURE = 0.99
"""In this share of draws one reading must do better than another to count as better."""

WORTH = 0.03
"""Another reading counts as better only where it gains this share of the accepted tokens, and as many tokens a step."""

_SCREEN = 320
_FURTHER_STEPS = 3
_LATE_PARTS = ("norm_output",)
"""Parts that the first step of a chain does not depend on."""
_LARGE = 20_000_000
_NEAR = 480
"""Counted tokens on which the readings next to the result are run, for a draft of more than `_LARGE` weights."""
_DEEPENED = 4
_SWEEPS = 4
_WEIGHT_OF_LIKELIHOOD = 0.5


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
    tries = _Tries(network, readings, tell)
    screen = part_of(samples, _SCREEN)
    best = _climb(tries.on(screen, 1), tries.on(screen, min(steps, _FURTHER_STEPS)), readings)
    whole = tries.on(samples, steps)
    is_large = sum(weight.numel() for weight in network.weights.values()) > _LARGE
    near_by = tries.on(part_of(samples, _NEAR), steps) if is_large else whole
    best = _kept(near_by, readings, best)
    found, stated = whole(best), whole(readings.stated)
    others = [_alternative(near_by, best, part, near) for part, near in _next_to(readings, best)]
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


def part_of(samples: Samples, counted: int) -> Samples:
    """The first texts with about `counted` tokens of the target; the last one is cut where that is reached."""
    taken: list[Sample] = []
    left = counted
    for sample in samples.items:
        if left <= 0:
            break
        reached = int((sample.counted.cumsum(0) <= left).sum())
        taken.append(sample if reached == len(sample.tokens) else _cut(sample, reached))
        left -= int(sample.counted[:reached].sum())
    return replace(samples, items=tuple(taken))


def _cut(sample: Sample, length: int) -> Sample:
    """The first `length` tokens of a text."""
    return Sample(
        sample.name,
        sample.tokens[:length],
        sample.counted[:length],
        sample.states[:length],
        None if sample.answers is None else sample.answers[:length],
    )


class _Tries:
    """Runs readings and remembers them. The map costs nothing: all its readings come from the same run."""

    def __init__(self, network: Network, readings: Readings, tell: Told | None) -> None:
        self._network = network
        self._maps = readings.values["map"]
        self._tell = tell or (lambda *_: None)
        self.count = 0

    def on(self, samples: Samples, steps: int) -> _Runs:
        return _Runs(self, samples, steps)

    def run(self, samples: Samples, wiring: Wiring, steps: int) -> dict[int, Chains]:
        import torch

        self.count += 1
        self._tell("trying readings", self.count, 0)
        with torch.inference_mode():
            return run_chains(self._network, samples, wiring, steps=steps, maps=self._maps)

    @property
    def maps(self) -> Sequence[int]:
        return tuple(self._maps)


class _Runs:
    """The readings on one set of samples."""

    def __init__(self, tries: _Tries, samples: Samples, steps: int) -> None:
        self._tries, self._samples, self._steps = tries, samples, steps
        self._known: dict[Wiring, dict[int, Chains]] = {}

    def __call__(self, wiring: Wiring) -> Chains:
        return self._all(wiring)[wiring.map]

    def best_map(self, wiring: Wiring) -> Wiring:
        """The same reading with the map that does best; the stated one where several do."""
        return max((replace(wiring, map=k) for k in self._tries.maps), key=self.score)

    def score(self, wiring: Wiring) -> float:
        """How good a reading is: the accepted length, and a little for how likely the right tokens seemed."""
        chains = self(wiring)
        if not len(chains.text):
            return 0.0
        first = chains.likelihood[:, 0][chains.open[:, 0]]
        likely = float(first.exp().mean()) if len(first) else 0.0
        return accepted_length_alone(chains) + _WEIGHT_OF_LIKELIHOOD * likely

    def _all(self, wiring: Wiring) -> dict[int, Chains]:
        key = replace(wiring, map=1)
        if key not in self._known:
            self._known[key] = self._tries.run(self._samples, wiring, self._steps)
        return self._known[key]


def accepted_length_alone(chains: Chains) -> float:
    """The accepted length without its interval."""
    at_risk = chains.at_risk
    hits, of = (at_risk & chains.hit).sum(0).double(), at_risk.sum(0).double()
    return 1 + float((hits / of.clamp(min=1)).cumprod(0).sum())


def _climb(runs: _Runs, further: _Runs, readings: Readings) -> Wiring:
    """From the best starting points one part after the other, until no part gets better.

    `runs` have one step, which is enough for most parts; `further` have more.
    """
    stated = runs.best_map(readings.stated)
    # With the wrong token beside them all states look alike: every choice of states begins with each token.
    starts = [
        runs.best_map(replace(readings.stated, states=states, fc=True, token=token))
        for states in readings.starts
        for token in readings.values["token"]
    ]
    starts += [runs.best_map(near) for near in readings.neighbours(readings.stated, "fc")]
    starts = [stated, *sorted((s for s in starts if s != stated), key=runs.score, reverse=True)]
    tops = []
    for start in starts[:_DEEPENED]:
        at = start
        for _ in range(_SWEEPS):
            before = at
            for part in PARTS:
                judged = further if part in _LATE_PARTS else runs
                near = [runs.best_map(w) for w in readings.neighbours(at, part)]
                at = max([at, *near], key=judged.score)
            if at == before:
                break
        tops.append(at)
    return max(tops, key=further.score) if tops else readings.stated


def _kept(runs: _Runs, readings: Readings, best: Wiring) -> Wiring:
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
    return share >= SURE and gained >= WORTH * max(1.0, accepted_length_alone(one) - 1)


def _next_to(readings: Readings, best: Wiring) -> Iterator[tuple[str, Wiring]]:
    for part in PARTS:
        for near in readings.neighbours(best, part):
            yield part, near


def _alternative(runs: _Runs, best: Wiring, part: str, near: Wiring) -> Alternative:
    chains: Any = runs(near)
    return Alternative(part, near, accepted_length_alone(chains), difference(runs(best), chains)[1])
