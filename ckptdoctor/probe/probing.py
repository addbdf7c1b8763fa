"""A probe from paths to a result: run the draft on samples, search its wiring, and say who serves it so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ckptdoctor.checkpoint import Checkpoint, open_checkpoint
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts import Facts, describe, read_target
from ckptdoctor.probe.network.anatomy import Anatomy
from ckptdoctor.probe.network.anatomy_reading import anatomy_of
from ckptdoctor.probe.network.chains import Chains, chosen_states, right_tokens, run_chains
from ckptdoctor.probe.network.network import Memory, Network
from ckptdoctor.probe.network.weights import read_weights, target_matrices
from ckptdoctor.probe.samples.files import read_samples
from ckptdoctor.probe.samples.samples import Sample, Samples
from ckptdoctor.probe.search.figures import Interval, Length, Step, accepted_length, difference, step_figures, wilson
from ckptdoctor.probe.search.readings import Readings
from ckptdoctor.probe.search.searching import SURE, Found, search
from ckptdoctor.probe.search.serving_as import Entry, ServedAs, entries_for, served_as
from ckptdoctor.probe.search.suggesting import readings_for
from ckptdoctor.probe.wiring import Wiring
from ckptdoctor.probe.words import boundaries_of
from ckptdoctor.summary import title
from ckptdoctor.text import show

__all__ = ["Chance", "Flow", "ProbeResult", "probe", "probe_samples"]

Told = Callable[[str, int, int], None]

NEEDED = 64
"""Counted tokens below which nothing is said of the wiring."""

_SMALL = 5_000_000
_WEAK = 0.3
"""A draft whose first guess is right less often than this is of little use, whatever the reading."""


@dataclass(frozen=True)
class Flow:
    """One tensor on its way through the draft: what it is, and its shape for a text of n tokens."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Chance:
    """What guessing without the states comes to, on the same positions.

    `commonest`: `hits` of `of` if the draft always guessed the token that is most often right. `shuffled`: the accepted
    length with every state exchanged for one of another position; `beaten_in` is the share of draws in which the best
    reading does better than that.
    """

    hits: int
    of: int
    interval: Interval
    shuffled: float
    beaten_in: float

    @property
    def share(self) -> float:
        """The share of positions that the commonest token is right at."""
        return self.hits / self.of if self.of else 0.0


@dataclass(frozen=True)
class ProbeResult:
    """What running the draft came to.

    `verdict` is a key of `verdicts` in rules/probe/readings.yaml. `steps` and `length` are those of the wiring that the
    files state, `best_steps` those of the reading that was found. `boundaries` are the layers of the found reading,
    None where the samples do not say which they are. `entries` are fields of the config to be set, `served` the
    releases of engines against the found reading. `found` is None without a search.
    """

    path: str
    title: str
    target: str | None
    anatomy: Anatomy
    samples: Samples
    flows: tuple[Flow, ...]
    stated: Wiring
    steps: tuple[Step, ...]
    length: Length
    chance: Chance
    verdict: str
    found: Found | None = None
    best_steps: tuple[Step, ...] = ()
    boundaries: tuple[int, ...] | None = None
    entries: tuple[Entry, ...] = ()
    served: tuple[ServedAs, ...] = ()
    facts: Facts | None = None

    @property
    def best(self) -> Wiring:
        """The reading under which the draft does best; the stated one without a search."""
        return self.stated if self.found is None else self.found.wiring


def probe(
    path: str,
    samples: Sequence[str],
    *,
    target: str | None = None,
    steps: int = 5,
    limit: int | None = 2000,
    generate: int = 64,
    searching: bool = True,
    tell: Told | None = None,
) -> ProbeResult:
    """Run the draft at `path` on `samples` (files or folders) and, unless `searching` is off, search its wiring.

    `target` is the target's folder or config; with weights there it also gives the target's embedding and answers, and
    makes samples from texts. `steps` is the number of tokens that a chain guesses, `limit` the counted tokens that are
    used at most, `generate` the tokens that a target writes on after each prompt. Raises `CannotExamineError` where the
    draft cannot be run or no sample can be read.
    """
    checkpoint = open_checkpoint(path, remote=False)
    facts = describe(checkpoint, read_target(target) if target is not None else None)
    anatomy = anatomy_of(facts)
    read = read_samples(samples, target=target, limit=limit, generate=generate, tell=tell)
    return probe_samples(
        checkpoint, facts, anatomy, read, path=path, target=target, steps=steps, searching=searching, tell=tell
    )


def probe_samples(
    checkpoint: Checkpoint,
    facts: Facts,
    anatomy: Anatomy,
    samples: Samples,
    *,
    path: str,
    target: str | None = None,
    steps: int = 5,
    searching: bool = True,
    tell: Told | None = None,
) -> ProbeResult:
    """The same with samples that have been read. Raises `CannotExamineError` where they do not fit the draft."""
    network = Network(_weights(checkpoint, facts, anatomy, samples), anatomy)
    readings = readings_for(facts, network, samples)
    stated = readings.stated
    _check_widths(anatomy, samples, readings)
    _check_states(samples)
    with torch.inference_mode(), _threads(network):
        if searching:
            found = search(network, samples, readings, steps=steps, tell=tell)
            best, chains, first = found.wiring, found.chains, found.stated_chains
        else:
            found, best = None, stated
            chains = first = run_chains(network, samples, stated, steps=steps)[stated.map]
        chance = _chance(network, samples, best, chains, first)
        flows = _flows(network, samples, best)
    counted = int(chains.open[:, 0].sum()) if len(chains.text) else 0
    result = ProbeResult(
        path=path,
        title=title(facts),
        target=target,
        anatomy=anatomy,
        samples=samples,
        flows=flows,
        stated=stated,
        steps=step_figures(first),
        length=accepted_length(first),
        chance=chance,
        verdict=_verdict(chains, chance, counted, found),
        found=found,
        best_steps=step_figures(chains),
        boundaries=boundaries_of(best.states, samples.boundaries),
        facts=facts,
    )
    if found is None or result.verdict in ("chance", "too_few"):
        return result
    changed = [part for part in found.changed if part != "fc"]
    return replace(
        result,
        entries=entries_for(facts, best, changed),
        served=served_as(checkpoint, facts, best, result.boundaries, changed),
    )


@contextmanager
def _threads(network: Network) -> Iterator[None]:
    """One thread for a small draft, whose operations are shorter than the wait for a second one."""
    before = torch.get_num_threads()
    if sum(weight.numel() for weight in network.weights.values()) < _SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _weights(checkpoint: Checkpoint, facts: Facts, anatomy: Anatomy, samples: Samples) -> dict[str, Tensor]:
    """The draft's weights; what it does not store itself is the target's."""
    weights = dict(read_weights(checkpoint, facts, anatomy))
    root = facts.target.root if facts.target is not None else None
    for name, matrix in (target_matrices(str(root), anatomy) if root is not None else {}).items():
        weights.setdefault(name, matrix)
    if samples.embedding is not None and samples.embedding.shape[1] == anatomy.hidden:
        weights.setdefault("embed_tokens.weight", samples.embedding)
    for name, weight in weights.items():
        if weight.is_floating_point() and not bool(torch.isfinite(weight).all()):
            raise CannotExamineError(
                f"{show(name)} holds values that are not finite (NaN or infinity); a draft guesses nothing with them"
            )
    return weights


def _check_widths(anatomy: Anatomy, samples: Samples, readings: Readings) -> None:
    if samples.width == anatomy.target_width or readings.skips_fc:
        return
    raise CannotExamineError(
        f"the samples' states are {samples.width} wide; fc.weight takes {anatomy.states} states of "
        f"{anatomy.target_width}: they are of another target, or the draft is for another one"
    )


def _check_states(samples: Samples) -> None:
    """States that are the same at each token tell nothing: a dummy pass, or a buffer that was never written."""
    if all(bool((item.states == item.states[:1]).all()) for item in samples.items):
        what = "zero" if not any(bool(item.states.any()) for item in samples.items) else "the same at each token"
        raise CannotExamineError(f"the states of the samples are all {what}: they were not recorded in a real pass")


def _verdict(chains: Chains, chance: Chance, counted: int, found: Found | None) -> str:
    if counted < NEEDED:
        return "too_few"
    if found is None:
        return "measured"
    steps = step_figures(chains)
    first = wilson(steps[0].hits, steps[0].of)
    if first.low <= chance.share or chance.beaten_in < SURE:
        return "chance"
    if found.changed:
        return "otherwise"
    return "weak" if (steps[0].accuracy or 0.0) < _WEAK else "works"


def _chance(network: Network, samples: Samples, best: Wiring, chains: Chains, first: Chains) -> Chance:
    """What the commonest token, and states of other positions, would come to."""
    tokens = torch.cat([right_tokens(sample)[0][sample.counted.bool()] for sample in samples.items])
    hits = int(tokens.bincount().max()) if len(tokens) else 0
    shuffled = replace(samples, items=tuple(_shuffled(sample) for sample in samples.items))
    blind = run_chains(network, shuffled, best, steps=first.steps)[best.map]
    return Chance(
        hits, len(tokens), wilson(hits, len(tokens)), accepted_length(blind).value, difference(chains, blind)[1]
    )


def _shuffled(sample: Sample) -> Sample:
    """The same text with the states of other positions."""
    return replace(sample, states=sample.states.roll(max(1, len(sample.tokens) // 3), 0))


def _flows(network: Network, samples: Samples, wiring: Wiring) -> tuple[Flow, ...]:
    """The shapes of what flows through the draft, taken from the first text."""
    sample = samples.items[0]
    count = len(sample.tokens)
    states = chosen_states(network, sample, wiring, samples.embedding)
    fused, embedded = network.fuse(states, wiring), network.embed(sample.tokens)
    out = network.step(fused, embedded, torch.arange(count), Memory(), wiring)
    logits = network.logits(out, wiring)
    joined = (count, states.shape[1] * states.shape[2])
    tensors = {
        "tokens": tuple(sample.tokens.shape),
        "states": tuple(states.shape),
        "joined for fc" if wiring.fc else "straight in": joined,
        "after fc" if wiring.fc else "without fc": tuple(fused.shape),
        "embedding": tuple(embedded.shape),
        "after the draft's layers": tuple(out.shape),
        "logits": tuple(logits.shape),
    }
    return tuple(Flow(name, tuple(int(n) for n in shape)) for name, shape in tensors.items())
