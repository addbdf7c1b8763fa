"""Readings that were run: each once on each set of samples, and how good it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ckptdoctor.probe.network.chains import Chains, run_chains
from ckptdoctor.probe.network.network import Network
from ckptdoctor.probe.samples.samples import Sample, Samples
from ckptdoctor.probe.search.readings import Readings
from ckptdoctor.probe.wiring import Wiring

__all__ = ["Runs", "Told", "Tries", "accepted_length_alone", "part_of"]

Told = Callable[[str, int, int], None]
"""Called with what is being done, the readings tried, and about how many there will be (0: not known)."""

_WEIGHT_OF_LIKELIHOOD = 0.5


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


class Tries:
    """Runs readings and remembers them. The map costs nothing: all its readings come from the same run."""

    def __init__(self, network: Network, readings: Readings, tell: Told | None) -> None:
        self._network = network
        self._maps = readings.values["map"]
        self._tell = tell or (lambda *_: None)
        self.count = 0

    def on(self, samples: Samples, steps: int) -> Runs:
        return Runs(self, samples, steps)

    def run(self, samples: Samples, wiring: Wiring, steps: int) -> dict[int, Chains]:
        import torch

        self.count += 1
        self._tell("trying readings", self.count, 0)
        with torch.inference_mode():
            return run_chains(self._network, samples, wiring, steps=steps, maps=self._maps)

    @property
    def maps(self) -> Sequence[int]:
        return tuple(self._maps)


class Runs:
    """The readings on one set of samples."""

    def __init__(self, tries: Tries, samples: Samples, steps: int) -> None:
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
