"""Chains: from every position of a text the draft guesses the next tokens, step by step, as it does in serving.

Position i stands for the state of token i. Beside it stands the embedding of token i + `token` of the wiring (1 as
trainers have it), and the first step guesses the token after that one; step j is given the text's own next tokens and
the state that the draft itself handed on. Up to the first miss that is exactly what a server does: a draft that was
right so far has guessed the very tokens of the text. What comes after a miss is never counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ckptdoctor.probe.network.network import Memory, Network
from ckptdoctor.probe.samples.samples import Sample, Samples
from ckptdoctor.probe.wiring import EMBEDDING, Wiring

__all__ = ["Chains", "chosen_states", "follow", "own_words", "right_tokens", "run_chains", "target_ids"]

_MISS = -1


@dataclass(frozen=True)
class Chains:
    """What became of every chain.

    `hit` and `open`: bool [n, steps] over n positions of all texts. `open` says that the step can be judged: the target
    itself wrote the tokens that are guessed up to there, and the text went on as the target answers. `likelihood`:
    float32 [n, steps], the log-probability of the right token, no lower than that of a blind guess. `text` int64 [n] is
    the number of the sample, `place` int64 [n] the position in it.
    """

    hit: Tensor
    open: Tensor
    likelihood: Tensor
    text: Tensor
    place: Tensor

    @property
    def steps(self) -> int:
        """The number of tokens that each chain guesses."""
        return int(self.hit.shape[1])

    @property
    def at_risk(self) -> Tensor:
        """bool [n, steps]: the step can be judged, and all steps before it were judged and right."""
        right = torch.cat([torch.ones_like(self.hit[:, :1]), self.hit[:, :-1]], 1).cumprod(1).bool()
        return right & self.open


def run_chains(
    network: Network, samples: Samples, wiring: Wiring, *, steps: int, maps: Iterable[int] | None = None
) -> dict[int, Chains]:
    """The chains of all samples under `wiring`, for each reading of the map in `maps` (by default the wiring's own)."""
    wanted = tuple(maps) if maps is not None else (wiring.map,)
    ids = {k: target_ids(network, k) for k in wanted}
    found: dict[int, list[Chains]] = {k: [] for k in wanted}
    for number, sample in enumerate(samples.items):
        if len(sample.tokens) <= wiring.token + 1:
            continue
        for k, chains in follow(network, sample, number, wiring, ids, steps, samples.embedding).items():
            found[k].append(chains)
    return {k: _joined(parts, steps) for k, parts in found.items()}


def target_ids(network: Network, k: int) -> Tensor:
    """int64 [D]: the target id of each draft id when d2t is read as d2t[i] + k·i; the draft id itself without a d2t.

    What lies outside of the target's vocabulary is -1, which no token is.
    """
    rows = network.anatomy.draft_vocab_size
    own = torch.arange(rows)
    stored = network.weights.get("d2t")
    if stored is None:
        return own
    ids = stored[:rows] + k * own[: len(stored)]
    ids = torch.where((ids >= 0) & (ids < network.anatomy.vocab_size), ids, _MISS)
    return torch.cat([ids, torch.full((rows - len(ids),), _MISS)])


def follow(
    network: Network,
    sample: Sample,
    number: int,
    wiring: Wiring,
    ids: Mapping[int, Tensor],
    steps: int,
    embedding: Tensor | None = None,
) -> dict[int, Chains]:
    """The chains of one text; `ids` gives the target ids of the draft vocabulary for each reading of the map.

    `embedding` is the target's embedding, which `EMBEDDING` among the states of the wiring is taken from.
    """
    tokens, length = sample.tokens, len(sample.tokens)
    states = chosen_states(network, sample, wiring, embedding)
    # Position i guesses token i + token + 1: the last one for which the text has an answer.
    last = length - wiring.token - 1
    hidden = network.fuse(states[:last], wiring)
    position = torch.arange(last)
    truth, follows = right_tokens(sample)
    memory = Memory()
    rows: dict[int, list[tuple[Tensor, Tensor, Tensor]]] = {k: [] for k in ids}
    ranked = {k: _draft_ids(of, network.anatomy.vocab_size) for k, of in ids.items()}
    fits = torch.ones(last, dtype=torch.bool)
    for step in range(steps):
        given = _at(tokens, position + wiring.token + step)
        if step and network.anatomy.parallel:
            hidden, embedded = network.masked(last, wiring)
        else:
            embedded = network.embed(given)
        hidden = network.step(hidden, embedded, position + step, memory, wiring)
        logits = network.logits(hidden, wiring)
        hidden = network.handed_on(hidden, wiring)
        asked = position + wiring.token + step + 1
        inside = asked < length
        fits = fits & inside
        judged = fits & _at(sample.counted, asked).bool()
        right = torch.where(inside, _at(truth, asked), _MISS)
        best, whole = logits.argmax(-1), logits.logsumexp(-1)
        for k, of in ids.items():
            hit = (of[best] == right) & inside
            rows[k].append((hit, judged, _likelihood(logits, whole, ranked[k], right)))
        # The chain goes on along the text only where the text is what the target answers.
        fits = judged & _at(follows, asked)
    return {k: _stacked(parts, number) for k, parts in rows.items()}


def chosen_states(network: Network, sample: Sample, wiring: Wiring, embedding: Tensor | None = None) -> Tensor:
    """float32 [n, K, T]: the states of the wiring, `EMBEDDING` being that of each position's own token."""
    columns = []
    for column in wiring.states:
        if column == EMBEDDING:
            columns.append(network.embed(sample.tokens) if embedding is None else embedding[sample.tokens].float())
        else:
            columns.append(sample.states[:, column].float())
    return torch.stack(columns, 1)


def right_tokens(sample: Sample) -> tuple[Tensor, Tensor]:
    """int64 [n], what the target answers at each position, and bool [n], whether the text has just that there."""
    if sample.answers is None:
        return sample.tokens, torch.ones_like(sample.tokens, dtype=torch.bool)
    # answers[i] is the token after position i.
    truth = torch.cat([sample.tokens[:1], sample.answers[:-1]])
    return truth, truth == sample.tokens


def own_words(samples: Samples) -> float | None:
    """The share of counted tokens that are what the target itself answers; None where that is not known of any."""
    same = total = 0
    for sample in samples.items:
        if sample.answers is not None:
            counted = sample.counted.bool()[1:]
            same += int(right_tokens(sample)[1][1:][counted].sum())
            total += int(counted.sum())
    return same / total if total else None


def _at(values: Tensor, places: Tensor) -> Tensor:
    """`values` at `places`, where those past the end get the last value (they are never judged)."""
    return values[places.clamp(max=len(values) - 1)]


def _draft_ids(ids: Tensor, vocabulary: int) -> Tensor:
    """int64 [V + 1]: the draft id of each target id, -1 where there is none; the last place is for no token."""
    found = torch.full((vocabulary + 1,), _MISS)
    known = ids >= 0
    found[ids[known]] = torch.arange(len(ids))[known]
    return found


def _likelihood(logits: Tensor, whole: Tensor, draft_ids: Tensor, right: Tensor) -> Tensor:
    """float32 [n]: the log-probability of the right token, at least that of a blind guess; `whole` is logsumexp."""
    blind = -torch.log(torch.tensor(float(logits.shape[1])))
    inside = torch.where((right >= 0) & (right < len(draft_ids) - 1), right, len(draft_ids) - 1)
    row = draft_ids[inside]
    told = logits.gather(1, row.clamp(min=0)[:, None])[:, 0] - whole
    return torch.where(row >= 0, torch.maximum(told, blind), blind)


def _stacked(parts: list[tuple[Tensor, Tensor, Tensor]], number: int) -> Chains:
    hit, judged, likelihood = (torch.stack(column, 1) for column in zip(*parts, strict=True))
    place = torch.arange(hit.shape[0])
    return Chains(hit & judged, judged, likelihood.detach(), torch.full_like(place, number), place)


def _joined(parts: list[Chains], steps: int) -> Chains:
    if not parts:
        nothing = torch.zeros(0, steps, dtype=torch.bool)
        none = torch.zeros(0, dtype=torch.int64)
        return Chains(nothing, nothing, nothing.float(), none, none)
    names = ("hit", "open", "likelihood", "text", "place")
    return Chains(*(torch.cat([getattr(part, name) for part in parts]) for name in names))
