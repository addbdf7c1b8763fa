"""Readings: which values each part of the wiring can have, given the tensors that are stored and the states at hand."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ckptdoctor.probe.network.anatomy import Anatomy
from ckptdoctor.probe.samples.samples import Samples
from ckptdoctor.probe.wiring import EMBEDDING, Wiring

if TYPE_CHECKING:
    from torch import Tensor

    from ckptdoctor.probe.network.network import Network

__all__ = ["PARTS", "Readings", "differing", "distinct_columns", "of_boundaries", "readings_of"]

PARTS = tuple(field.name for field in fields(Wiring))
"""The parts of a wiring by name, in the order in which a report speaks of them."""

_TOKENS = (1, 0, 2)
_MAPS = (1, 0, 2)
_ORDERS_UP_TO = 4
_ROUNDING = 0.01


@dataclass(frozen=True)
class Readings:
    """The readings that fit.

    `values` gives, for every part but the states, the values that it can have, the stated one first. `columns` are the
    states that can stand in one place of `Wiring.states`. `starts` are whole choices of states to begin a search with.
    `skips_fc` says that one state is as wide as the draft, so that it could go in without fc.
    """

    stated: Wiring
    values: dict[str, tuple[Any, ...]]
    columns: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]
    skips_fc: bool

    def neighbours(self, wiring: Wiring, part: str) -> Iterator[Wiring]:
        """All readings that differ from `wiring` in one part; of the states one is exchanged, or two swapped."""
        if part == "states":
            yield from self._other_states(wiring)
        elif part == "fc":
            if self.skips_fc:
                yield from self._other_fc(wiring)
        else:
            for value in self.values.get(part, ()):
                if value != getattr(wiring, part):
                    yield replace(wiring, **{part: value})

    def _other_states(self, wiring: Wiring) -> Iterator[Wiring]:
        seen = {wiring.states}
        states = wiring.states
        for one, two in itertools.combinations(range(len(states)), 2):
            swapped = list(states)
            swapped[one], swapped[two] = swapped[two], swapped[one]
            yield from _new(wiring, swapped, seen)
        for place, column in itertools.product(range(len(states)), self.columns):
            if states[place] not in self.columns or column not in states or len(self.columns) < len(states):
                yield from _new(wiring, [*states[:place], column, *states[place + 1 :]], seen)
        # Every state one column earlier or later: ids that were counted from another number.
        for shift in (-1, 1):
            shifted = [self._beside(column, shift) for column in states]
            if None not in shifted:
                yield from _new(wiring, [c for c in shifted if c is not None], seen)

    def _other_fc(self, wiring: Wiring) -> Iterator[Wiring]:
        if wiring.fc:
            for column in self.columns:
                yield replace(wiring, fc=False, states=(column,), norm_before_fc=False, fc_norm=False)
        else:
            yield self.stated

    def _beside(self, column: int, shift: int) -> int | None:
        place = self.columns.index(column) + shift if column in self.columns else -1
        return self.columns[place] if 0 <= place < len(self.columns) else None


def readings_of(
    anatomy: Anatomy,
    samples: Samples,
    stated: Wiring,
    weights: Iterable[str],
    *,
    bases: Sequence[float],
    boundaries: Iterable[Sequence[int]] = (),
    columns: Sequence[int],
) -> Readings:
    """The readings that fit the draft and the samples.

    `weights` are the canonical names of the stored tensors, `bases` further candidates for the rotary base,
    `boundaries` choices of captured boundaries that a file or an engine suggests, `columns` the states that there are.
    """
    has_map = "d2t" in set(weights)
    values: dict[str, tuple[Any, ...]] = {
        "token": _first(stated.token, _TOKENS),
        "map": _first(stated.map, _MAPS) if has_map else (stated.map,),
        "norm_before_fc": _first(stated.norm_before_fc, (False, True)) if anatomy.input_norm else (False,),
        "fc_norm": _first(stated.fc_norm, (False, True)) if anatomy.fc_norm else (False,),
        "residual_after_norm": _first(stated.residual_after_norm, (False, True)) if anatomy.hidden_norm else (False,),
        "normed_twice": (False, True)[: 1 + (anatomy.hidden_norm and anatomy.input_layernorm)],
        "norm_output": (False,) if anatomy.parallel else _first(stated.norm_output, (False, True)[: 1 + anatomy.norm]),
        "head_norm": _first(stated.head_norm, (True, False)) if anatomy.norm else (False,),
        "rope_base": _first(stated.rope_base, tuple(bases)),
        "rope_scaling": _first(stated.rope_scaling, (True, False))
        if anatomy.turning.scaled
        else (stated.rope_scaling,),
    }
    starts = [stated.states] if stated.fc else []
    for choice in boundaries:
        known = of_boundaries(choice, samples, columns)
        if known is not None and len(known) == anatomy.states:
            starts.append(known)
    if anatomy.states <= len(columns) and not starts:
        starts.append(tuple(columns[: anatomy.states]))
    if 1 < anatomy.states <= _ORDERS_UP_TO:
        starts += [order for first in starts[:2] for order in itertools.permutations(first)]
    return Readings(
        stated=stated,
        values=values,
        columns=tuple(columns),
        starts=tuple(dict.fromkeys(starts)) if anatomy.fc else (),
        skips_fc=samples.width == anatomy.hidden,
    )


def of_boundaries(boundaries: Sequence[int], samples: Samples, columns: Sequence[int]) -> tuple[int, ...] | None:
    """The columns that hold these boundaries, in their order; None where one of them was not recorded."""
    place = {b: column for column, b in enumerate(samples.boundaries) if b is not None}
    if 0 not in place and EMBEDDING in columns:
        place[0] = EMBEDDING
    found = [place.get(b) for b in boundaries]
    return None if None in found else tuple(column for column in found if column is not None)


def differing(one: Wiring, other: Wiring) -> tuple[str, ...]:
    """The parts in which two readings differ."""
    return tuple(part for part in PARTS if getattr(one, part) != getattr(other, part))


def distinct_columns(network: Network, samples: Samples) -> tuple[int, ...]:
    """The columns that are no copies of others, the embedding output before them where it can be computed.

    It is left out where it was recorded itself: two names for one state could never be told apart.
    """
    sample = samples.items[0]
    states = [sample.states[:, column].float() for column in range(samples.columns)]
    kept = [n for n, state in enumerate(states) if not any(_alike(state, other) for other in states[:n])]
    table = samples.embedding if samples.embedding is not None else network.weights.get("embed_tokens.weight")
    if table is None or table.shape[1] != samples.width or int(sample.tokens.max()) >= len(table):
        return tuple(kept)
    output = table[sample.tokens].float()
    return tuple(kept) if any(_alike(states[n], output) for n in kept) else (EMBEDDING, *kept)


def _alike(one: Tensor, other: Tensor) -> bool:
    """Whether two states are the same but for their dtype's rounding (bfloat16 keeps 8 bits)."""
    return bool((one - other).norm() <= _ROUNDING * other.norm())


def _first(stated: Any, values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((stated, *values)))


def _new(wiring: Wiring, states: Sequence[int], seen: set[tuple[int, ...]]) -> Iterator[Wiring]:
    if tuple(states) not in seen:
        seen.add(tuple(states))
        yield replace(wiring, states=tuple(states))
