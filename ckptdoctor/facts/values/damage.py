"""Values that no training leaves: no numbers, numbers that the declared dtype cannot hold, zeros, constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.values.roles import Weight
from ckptdoctor.facts.values.statistics import Statistics

__all__ = ["Damage", "Idle", "NotNumbers", "Overflow", "Repeated", "Still", "ZeroRows", "damage_of"]

_TAIL = 0.05
"""Rows at the end of a head that may be zeros: those that fill a vocabulary up to a round size."""


@dataclass(frozen=True)
class NotNumbers:
    """A weight with values that are no numbers: `nan` and `infinite` of its `count`. `rows_only`: an embedding, where
    they concern the tokens of their rows alone."""

    name: str
    file: str
    nan: int
    infinite: int
    count: int
    rows_only: bool


@dataclass(frozen=True)
class Overflow:
    """A weight of which `count` values are beyond what float16 holds (65504), `largest` the largest of them."""

    name: str
    file: str
    largest: float
    count: int


@dataclass(frozen=True)
class Still:
    """Weights of one part that are all `value`: `names` of the `of` matrices (or norms) of that part.

    `kind`: `matrix`, `norm`, `fc`, `head`, `embedding`, or `layer` when all matrices of a layer are.
    """

    part: str
    kind: str
    names: tuple[str, ...]
    of: int
    value: float
    file: str


@dataclass(frozen=True)
class ZeroRows:
    """Rows of the head that are zeros: `rows` of `of`, the longest stretch from row `first` up to, not including,
    `last`."""

    name: str
    file: str
    rows: int
    of: int
    first: int
    last: int


@dataclass(frozen=True)
class Idle:
    """Inputs of a projection that it never uses: columns `first` to `last` (exclusive), input `state` (from 0) of
    `states`."""

    name: str
    file: str
    state: int
    states: int
    first: int
    last: int


@dataclass(frozen=True)
class Repeated:
    """Rows of a head or embedding that are the same as an earlier row: `rows` of `of`."""

    name: str
    file: str
    rows: int
    of: int


@dataclass(frozen=True)
class Damage:
    """All of it. `placeholder`: every weight of the file is zero."""

    not_numbers: tuple[NotNumbers, ...]
    overflows: tuple[Overflow, ...]
    zeros: tuple[Still, ...]
    constants: tuple[Still, ...]
    zero_starts: tuple[str, ...]
    zero_rows: tuple[ZeroRows, ...]
    idle: tuple[Idle, ...]
    repeated: tuple[Repeated, ...]
    placeholder: bool


def damage_of(
    weights: Iterable[Weight],
    measured: Mapping[str, Statistics],
    config: Mapping[str, Any],
    *,
    states: int | None,
    reduced: bool,
    zero_centred: bool,
    repeated_share: float,
) -> Damage:
    """What is wrong with the values of `weights`. `states` is how many states fc joins, where that is known;
    `reduced`: the head has rows for a part of the vocabulary alone."""
    pairs = [(w, measured[w.canonical]) for w in weights if w.canonical in measured]
    learned = [(w, s) for w, s in pairs if w.role not in ("bias", "state")]
    placeholder = len(learned) > 1 and all(s.all_zero for _, s in learned)
    return Damage(
        not_numbers=tuple(
            NotNumbers(w.info.name, w.info.file, s.nan, s.infinite, s.count, w.role == "embedding")
            for w, s in pairs
            if s.nan or s.infinite
        ),
        overflows=tuple(
            Overflow(w.info.name, w.info.file, s.largest, s.limit_passed)
            for w, s in pairs
            if s.limit_passed and w.info.dtype != "F16" and _declared(config) == "float16"
        ),
        zeros=() if placeholder else _zeros(learned, zero_centred),
        constants=_constants(learned),
        zero_starts=tuple(w.info.name for w, s in learned if w.role == "zero_start" and s.all_zero),
        zero_rows=tuple(z for w, s in learned if w.role == "head" and (z := _zero_rows(w, s, reduced)) is not None),
        idle=tuple(i for w, s in learned if w.role == "fc" and not s.all_zero for i in _idle(w, s, states)),
        repeated=tuple(
            Repeated(w.info.name, w.info.file, s.repeated, s.rows)
            for w, s in learned
            if s.repeated and not s.constant and s.repeated > repeated_share * s.rows
        ),
        placeholder=placeholder,
    )


def _declared(config: Mapping[str, Any]) -> str | None:
    """The dtype that the config says the weights are loaded in."""
    value = config.get("dtype", config.get("torch_dtype"))
    return value.removeprefix("torch.") if isinstance(value, str) else None


def _zeros(learned: list[tuple[Weight, Statistics]], zero_centred: bool) -> tuple[Still, ...]:
    found: list[Still] = []
    for part in dict.fromkeys(w.part for w, _ in learned):
        here = [(w, s) for w, s in learned if w.part == part]
        for kind in ("fc", "head", "embedding"):
            found += [
                Still(part, kind, (w.info.name,), 1, 0.0, w.info.file) for w, s in here if w.role == kind and s.all_zero
            ]
        for kind in ("matrix", "norm"):
            of_kind = [(w, s) for w, s in here if w.role == kind]
            empty = [w for w, s in of_kind if s.all_zero]
            if empty and not (kind == "norm" and zero_centred):
                whole = kind == "matrix" and len(empty) == len(of_kind) > 1
                names = tuple(w.info.name for w in empty)
                found.append(Still(part, "layer" if whole else kind, names, len(of_kind), 0.0, empty[0].info.file))
    return tuple(found)


def _constants(learned: list[tuple[Weight, Statistics]]) -> tuple[Still, ...]:
    """Matrices of one and the same number, not zero."""
    return tuple(
        Still(w.part, w.role, (w.info.name,), 1, s.low, w.info.file)
        for w, s in learned
        if w.role != "norm" and s.constant and s.low != 0 and s.count > 1
    )


def _zero_rows(weight: Weight, seen: Statistics, reduced: bool) -> ZeroRows | None:
    """Rows of zeros that stand for tokens; those that fill a whole vocabulary up at its end do not."""
    if seen.all_zero or not seen.zero_rows:
        return None
    stretches = list(seen.zero_rows)
    if not reduced and stretches[-1][1] == seen.rows and stretches[-1][1] - stretches[-1][0] <= _TAIL * seen.rows:
        stretches.pop()
    if not stretches:
        return None
    first, last = max(stretches, key=lambda s: s[1] - s[0])
    rows = sum(b - a for a, b in stretches)
    return ZeroRows(weight.info.name, weight.info.file, rows, seen.rows, first, last)


def _idle(weight: Weight, seen: Statistics, states: int | None) -> list[Idle]:
    number = states if states and seen.width % states == 0 else None
    if number is None and seen.rows and seen.width % seen.rows == 0:
        number = seen.width // seen.rows
    if number is None or number < 2:
        return []
    width = seen.width // number
    return [
        Idle(weight.info.name, weight.info.file, k, number, k * width, (k + 1) * width)
        for k in range(number)
        if any(a <= k * width and (k + 1) * width <= b for a, b in seen.zero_columns)
    ]
