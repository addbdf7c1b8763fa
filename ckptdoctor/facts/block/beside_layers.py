"""The parts that block drafters store beside their decoder layers: which are there, whole, and as large as declared.

The parts, their shapes and their sizes stand in rules/facts/block.yaml. A size is what the config says, or what the
stored shapes say; where the two differ the tensors decide, since they were trained.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.block.fields import read_values
from ckptdoctor.facts.config import Config

__all__ = ["Part", "PartShape", "PartSize", "Parts", "read_parts"]

_FLOATS = frozenset({"BF16", "F16", "F32", "F64"})
_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,4})\.(.+)$")


@dataclass(frozen=True)
class Part:
    """A part that is stored: `lacking` are the names of its other tensors, of layers that lack some among them."""

    name: str
    lacking: tuple[str, ...]


@dataclass(frozen=True)
class PartSize:
    """A size of a part: `stored` as its tensors have it, `claimed` (its text in the config, None: nowhere) at `key`."""

    name: str
    part: str
    stored: int
    tensor: str
    claimed: str | None
    key: str
    line: int | None


@dataclass(frozen=True)
class PartShape:
    """A tensor of a part whose shape is not what the sizes of the draft make it."""

    tensor: str
    file: str
    found: tuple[int, ...]
    expected: tuple[str, ...]
    because: str


@dataclass(frozen=True)
class Parts:
    """What is stored of the parts. `sizes` holds those that differ from the config or are not in it.

    `incomplete` are the parts of which something lacks; those that the table of the algorithm tells are left out.
    """

    stored: Mapping[str, Part]
    sizes: tuple[PartSize, ...]
    shapes: tuple[PartShape, ...]
    incomplete: tuple[Part, ...]

    @property
    def wrong_sizes(self) -> tuple[PartSize, ...]:
        """The sizes that the config gives otherwise."""
        return tuple(size for size in self.sizes if size.claimed is not None)

    @property
    def missing_sizes(self) -> tuple[PartSize, ...]:
        """The sizes that the config does not give."""
        return tuple(size for size in self.sizes if size.claimed is None)


@dataclass(frozen=True)
class _Found:
    part: str
    name: str
    tensor: TensorInfo
    shape: tuple[str, ...]


def read_parts(
    tensors: Mapping[str, TensorInfo],
    config: Config,
    table: Mapping[str, Any],
    known: Mapping[str, int],
    layers: int,
) -> Parts:
    """Look for the parts of `table` (rules/facts/block.yaml) in `tensors`, by the names that these mean.

    `known` are the sizes that are certain, by symbol (H, V, D); `layers` is the number of stored decoder layers.
    """
    found = list(_find(tensors, table["parts"]))
    stored = {part: Part(part, _lacking(part, found, table["parts"][part], layers)) for part in _unique(found)}
    sizes: list[PartSize] = []
    values = dict(known)
    # Sizes are solved one after the other: conv_group_size needs conv_kernel_size, and emb_dim nothing.
    for name, row in table["sizes"].items():
        votes = Counter(
            (value, f.part, f.tensor.name) for f in found for value in _solved(f, name, values) if value is not None
        )
        numbers = Counter(value for value, _, _ in votes)
        if not numbers:
            continue
        value = max(numbers, key=lambda number: (numbers[number], -number))
        values[name] = value
        claims = read_values(config, row["at"])
        _, part, tensor = next(vote for vote in votes if vote[0] == value)
        if len(numbers) > 1:
            continue  # the tensors disagree among themselves, which their shapes tell
        wrong = [c for c in (*claims.bad, *claims.all) if c.value != value]
        sizes += [PartSize(name, part, value, tensor, c.text, c.key, c.line) for c in wrong]
        if claims.absent and value != row.get("default"):
            home = name if config.at("speculators_model_type") is not None else str(row["home"])
            sizes.append(PartSize(name, part, value, tensor, None, home, None))
    untold = (part for part in stored.values() if not table["parts"][part.name].get("told"))
    lacking = tuple(part for part in untold if part.lacking)
    return Parts(stored, tuple(sizes), tuple(_misshapen(found, values)), lacking)


def _unique(found: Sequence[_Found]) -> list[str]:
    return list(dict.fromkeys(f.part for f in found))


def _find(tensors: Mapping[str, TensorInfo], parts: Mapping[str, Any]) -> Iterator[_Found]:
    """Every stored tensor of a part, with the shape that the table gives it."""
    top = {row["name"]: (part, row) for part, spec in parts.items() if not spec.get("layer") for row in spec["tensors"]}
    inner = {row["name"]: (part, row) for part, spec in parts.items() if spec.get("layer") for row in spec["tensors"]}
    for name, info in tensors.items():
        plain = name.removeprefix("model.")
        match = _LAYER.search(name)
        entry = inner.get(match.group(2)) if match else top.get(plain)
        if entry is not None:
            part, row = entry
            yield _Found(part, name, info, tuple(str(size) for size in row["shape"]))


def _lacking(part: str, found: Sequence[_Found], spec: Mapping[str, Any], layers: int) -> tuple[str, ...]:
    have = {f.name.removeprefix("model.") for f in found if f.part == part}
    wanted = [row["name"] for row in spec["tensors"] if not row.get("optional")]
    if spec.get("layer"):
        wanted = [f"layers.{layer}.{name}" for layer in range(min(layers, 512)) for name in wanted]
    return tuple(name for name in wanted if not any(h == name or h.endswith(f".{name}") for h in have))


def _solved(found: _Found, name: str, values: Mapping[str, int]) -> Iterator[int | None]:
    """What `found` makes of the size `name`, for each of its dimensions that can tell."""
    if found.tensor.dtype not in _FLOATS or len(found.tensor.shape) != len(found.shape):
        return
    for text, number in zip(found.shape, found.tensor.shape, strict=True):
        if re.search(rf"\b{name}\b", text):
            yield _solve(text, name, number, values)


def _solve(text: str, name: str, number: int, values: Mapping[str, int]) -> int | None:
    """The value of `name` with which the sum `text` is `number`; None where no whole one does."""
    rest, factor = Fraction(number), Fraction(0)
    for term in text.split("+"):
        product, power = _term(term, {**values, name: 1}, name)
        if product is None:
            return None
        if power == 0:
            rest -= product
        elif power == 1:
            factor += product
        else:  # the only term: product / name = number
            value = product / number if number else Fraction(0)
            return int(value) if value.denominator == 1 and value > 0 else None
    value = rest / factor if factor else Fraction(0)
    return int(value) if value.denominator == 1 and value > 0 else None


def _term(term: str, values: Mapping[str, int], name: str) -> tuple[Fraction | None, int]:
    """The product `term` without `name`, and the power that `name` has in it (-1 below the line)."""
    above, _, below = term.partition("/")
    product, power = Fraction(1), 0
    for text, sign in ((above, 1), (below, -1)):
        for word in (w.strip() for w in text.split("*")):
            if not word:
                continue
            number = int(word) if word.isdigit() else values.get(word)
            if number is None or number <= 0:
                return None, 0
            power += sign * (word == name)
            product = product * number if sign == 1 else product / number
    return product, power


def _value(text: str, values: Mapping[str, int]) -> Fraction | None:
    total = Fraction(0)
    for term in text.split("+"):
        product, _ = _term(term, values, "")
        if product is None:
            return None
        total += product
    return total


def _misshapen(found: Sequence[_Found], values: Mapping[str, int]) -> Iterator[PartShape]:
    for f in found:
        if f.tensor.dtype not in _FLOATS:
            continue
        expected = [_value(text, values) for text in f.shape]
        shape = f.tensor.shape
        right = len(shape) == len(expected) and all(e is None or e == n for e, n in zip(expected, shape, strict=True))
        if right:
            continue
        words = tuple(t if e is None else _number(e) for e, t in zip(expected, f.shape, strict=True))
        yield PartShape(f.tensor.name, f.tensor.file, shape, words, ", ".join(f.shape))


def _number(value: Fraction) -> str:
    return str(value.numerator) if value.denominator == 1 else f"{value.numerator}/{value.denominator}"
