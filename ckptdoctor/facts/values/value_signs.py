"""Signs that a part of the draft is as it was made and never trained: norms at their start, and matrices that are
still the random numbers of an initialiser."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.values.roles import TRUNK, Weight
from ckptdoctor.facts.values.statistics import Statistics

__all__ = ["Part", "Untouched", "parts_of"]

_MATRICES = ("fc", "matrix", "head", "embedding")


@dataclass(frozen=True)
class Untouched:
    """A matrix that is still what an initialiser made.

    `spread` is its standard deviation, `expected` that of the initialiser `called`; `kurtosis` (3 normal, 1.8
    uniform) and `scatter` (of rows or columns, the larger one; 1 for independent values) are the other measures of its
    `count` values.
    """

    name: str
    file: str
    role: str
    called: str
    spread: float
    expected: float
    kurtosis: float
    scatter: float
    count: int

    @property
    def text(self) -> str:
        """The figures for a person, without the name."""
        return (
            f"spread {self.spread:.4g} against {self.expected:.4g} of {self.called}, kurtosis {self.kurtosis:.3g},"
            f" scatter {self.scatter:.3g}, {self.count} values"
        )


@dataclass(frozen=True)
class Part:
    """One part of the draft (`layers.0`; `draft` is what stands outside of layers) and the signs in it.

    `norms` are those at their start, all exactly `start`, of `norm_count`; `matrices` those that are still random, of
    `matrix_count`. `stored` is how the part is called in the file.
    """

    name: str
    stored: str
    norms: tuple[str, ...]
    norm_count: int
    start: float
    matrices: tuple[Untouched, ...]
    matrix_count: int
    file: str

    @property
    def signs(self) -> int:
        """How many independent signs there are: 0, 1 or 2."""
        return bool(self.norms) + bool(self.matrices)

    @property
    def called(self) -> str:
        """The part in words."""
        return "fc, norms and head" if self.name == TRUNK else self.stored


def parts_of(
    weights: Iterable[Weight],
    measured: Mapping[str, Statistics],
    config: Mapping[str, Any],
    words: Mapping[str, Any],
    *,
    zero_centred: bool,
) -> tuple[Part, ...]:
    """The parts of the draft that have a sign. `measured` is by canonical name."""
    by_part: dict[str, list[Weight]] = {}
    for weight in weights:
        by_part.setdefault(weight.part, []).append(weight)
    found = [_part(n, ws, measured, config, words, zero_centred=zero_centred) for n, ws in by_part.items()]
    return tuple(part for part in found if part.signs)


def _part(
    name: str,
    weights: list[Weight],
    measured: Mapping[str, Statistics],
    config: Mapping[str, Any],
    words: Mapping[str, Any],
    *,
    zero_centred: bool,
) -> Part:
    norms = [w for w in weights if w.role == "norm" and w.canonical in measured]
    norms = [w for w in norms if w.info.elements >= words["untrained"]["norm_size"]]
    starts = (1.0, 0.0) if zero_centred else (1.0,)
    at_start = [w for w in norms if measured[w.canonical].constant and measured[w.canonical].low in starts]
    # The embedding is judged by itself: it is frozen as a rule, and belongs to no layer.
    matrices = [w for w in weights if w.role in ("fc", "matrix", "head") and w.canonical in measured]
    random = [u for w in matrices if (u := untouched(w, measured[w.canonical], config, words)) is not None]
    first = weights[0].info
    end = weights[0].canonical.removeprefix(name) if name != TRUNK else ""
    return Part(
        name=name,
        stored=first.name.removesuffix(end) if end and first.name.endswith(end) else name,
        norms=tuple(w.info.name for w in at_start),
        norm_count=len(norms),
        start=measured[at_start[0].canonical].low if at_start else 1.0,
        matrices=tuple(random),
        matrix_count=len(matrices),
        file=first.file,
    )


def untouched(
    weight: Weight, seen: Statistics, config: Mapping[str, Any], words: Mapping[str, Any]
) -> Untouched | None:
    """The matrix as what an initialiser made of it; None where its values are not those of one, or are scaled."""
    bounds = words["untrained"]
    rows, width = seen.rows, seen.width
    if weight.role not in _MATRICES or seen.nan or seen.infinite or min(rows, width) < bounds["narrowest"]:
        return None
    if weight.info.dtype.startswith("F8") or seen.spread <= 0:
        return None
    filled = sum(b - a for a, b in seen.zero_rows)  # the row of a padding token
    if filled > max(1, rows // 100):
        return None
    count = (rows - filled) * width
    if count < bounds["fewest"] or seen.row_scatter is None or seen.column_scatter is None:
        return None
    square = (seen.spread**2 + seen.mean**2) * seen.count / count
    spread, kurtosis = math.sqrt(square), seen.kurtosis * count / seen.count
    if abs(seen.mean) > bounds["errors"] * spread / math.sqrt(count):
        return None
    for row in words["initialisers"]:
        expected = _fit(row, spread, kurtosis, seen, count, config, bounds)
        if expected is not None:
            scatter = max(seen.row_scatter, seen.column_scatter)
            return Untouched(
                weight.info.name, weight.info.file, weight.role, row["called"], spread, expected, kurtosis, scatter,
                count,
            )  # fmt: skip
    return None


def _fit(
    row: Mapping[str, Any],
    spread: float,
    kurtosis: float,
    seen: Statistics,
    count: int,
    config: Mapping[str, Any],
    bounds: Mapping[str, Any],
) -> float | None:
    """The expected spread, where every measure is that of the initialiser."""
    normal = row["shape"] == "normal"
    usual = 3.0 if normal else 1.8
    # Standard errors: of a standard deviation, of a fourth moment over the squared second one, of a scatter of n sums.
    error = math.sqrt((usual - 1) / count) / 2
    if abs(kurtosis - usual) > bounds["errors"] * math.sqrt((24 if normal else 2) / count) + 0.01:
        return None
    for scatter, number in ((seen.row_scatter, seen.rows), (seen.column_scatter, seen.width)):
        if scatter is None or abs(scatter - 1) > bounds["errors"] * math.sqrt(2 / number) + 0.02:
            return None
    expected = _expected(row, seen, config)
    if expected is None:
        return None
    if not normal and seen.largest > expected * math.sqrt(3) * 1.005:
        return None
    close = bounds["errors"] * error + bounds["slack"]
    return expected if abs(spread / expected - 1) <= close else None


def _expected(row: Mapping[str, Any], seen: Statistics, config: Mapping[str, Any]) -> float | None:
    """The standard deviation that the initialiser gives to a matrix of this shape."""
    if row["shape"] == "uniform":
        fan = seen.width if row["bound"] == "fan_in" else (seen.rows + seen.width) / 6
        return 1 / math.sqrt(3 * fan)
    kind = row["spread"]
    if kind == "fan_in":
        return 1 / math.sqrt(seen.width)
    if kind == "xavier":
        return math.sqrt(2 / (seen.rows + seen.width))
    if kind in ("config", "depth"):
        value = config.get("initializer_range", 0.02)
        if type(value) not in (int, float) or not 1e-6 < value < 100:
            return None
        layers = config.get("num_hidden_layers")
        if kind == "depth":
            return value / math.sqrt(2 * layers) if type(layers) is int and 0 < layers < 1000 else None
        return float(value)
    return float(kind)
