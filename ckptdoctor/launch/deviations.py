"""What in a launch line does not go with the draft, or is not taken as it stands: a small class for each family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Deviation", "Deviations", "LayersDeviation", "LengthDeviation", "MethodDeviation", "NumberDeviation",
    "PathDeviation", "StoredDeviation", "StrayDeviation",
]  # fmt: skip


@dataclass(frozen=True)
class Deviation:
    """One deviation.

    `kind` says what. `option` is the name that gives it, `given` its value. `changes` are the fields of the line that
    put it right (None leaves one out), `corrected` is the line with them, on one line; None where nothing can be said.
    """

    kind: str
    option: str | None = None
    given: str | int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    corrected: str | None = None


@dataclass(frozen=True)
class MethodDeviation(Deviation):
    """The algorithm. `wanted` is the engine's word for that of the draft, `runs` what it runs as the line stands.

    `part` is what in the path of the draft decides it. `releases` are those that have an algorithm, `until` the first
    one that no longer minds the case.
    """

    wanted: str | None = None
    runs: str | None = None
    part: str | None = None
    releases: str | None = None
    until: str | None = None


@dataclass(frozen=True)
class PathDeviation(Deviation):
    """Where the draft is looked for. `wanted` is where it lies, `place` where the engine looks without a path."""

    wanted: str | None = None
    place: str | None = None


@dataclass(frozen=True)
class NumberDeviation(Deviation):
    """Steps, top k, tokens and blocks. `wanted` is the number that would do.

    `drafted` are the tokens that the whole tree has, `block_size` are those of a block, `heads` the prediction heads,
    `missing` the options that lack; `chains_alone` is the engine or backend that has no trees.
    """

    wanted: int | None = None
    drafted: int | None = None
    block_size: int | None = None
    heads: int | None = None
    missing: str | None = None
    chains_alone: str | None = None


@dataclass(frozen=True)
class LengthDeviation(Deviation):
    """A text longer than the `positions` of the draft."""

    positions: int | None = None


@dataclass(frozen=True)
class StoredDeviation(Deviation):
    """A type or quantisation that the weights do not have. `stored` is the type that they have."""

    stored: str | None = None


@dataclass(frozen=True)
class LayersDeviation(Deviation):
    """Captured layers. `wanted` are those of the draft in the engine's count, `in_config` as its config has them.

    `takes` is how many the fc takes.
    """

    wanted: str | None = None
    in_config: str | None = None
    takes: int | None = None


@dataclass(frozen=True)
class StrayDeviation(Deviation):
    """An option or member that the engine does not know. `wanted` is its name there, `engine` whose option it is."""

    wanted: str | None = None
    engine: str | None = None


@dataclass(frozen=True)
class Deviations:
    """All deviations of a line, by family; `others` are those with nothing of their own."""

    methods: tuple[MethodDeviation, ...] = ()
    paths: tuple[PathDeviation, ...] = ()
    numbers: tuple[NumberDeviation, ...] = ()
    lengths: tuple[LengthDeviation, ...] = ()
    stored: tuple[StoredDeviation, ...] = ()
    layers: tuple[LayersDeviation, ...] = ()
    strays: tuple[StrayDeviation, ...] = ()
    others: tuple[Deviation, ...] = ()

    @classmethod
    def of(cls, found: Iterable[Deviation]) -> Deviations:
        """Those `found`, each in its family."""
        by_kind: dict[type, list[Any]] = {}
        for deviation in found:
            by_kind.setdefault(type(deviation), []).append(deviation)
        return cls(*(tuple(by_kind.get(kind, ())) for kind in _FAMILIES))


_FAMILIES = (
    MethodDeviation, PathDeviation, NumberDeviation, LengthDeviation, StoredDeviation, LayersDeviation,
    StrayDeviation, Deviation,
)  # fmt: skip
