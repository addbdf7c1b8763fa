"""The vocabulary of a draft: the map d2t, the mask t2d, and the four lengths that must agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.target import Target
from ckptdoctor.facts.vocabulary.map_elsewhere import MapElsewhere, maps_elsewhere
from ckptdoctor.facts.vocabulary.map_readings import MapReading, Violation, read_map
from ckptdoctor.facts.vocabulary.side_maps import side_maps
from ckptdoctor.unknown import Known, Unknown, known_or

if TYPE_CHECKING:
    from ckptdoctor.facts.vocabulary.map_readings import IntArray

__all__ = ["Length", "MapTensor", "VocabMap", "describe_vocab"]

# How many values of a map are shown as evidence.
SHOWN = 8
PADDED_BY = 1024
"""Ids at most by which a vocabulary is taken to be only padded beyond the draft's own (VOC017, VOC020)."""
INTEGER_DTYPES = frozenset({"I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64"})


@dataclass(frozen=True)
class MapTensor:
    """d2t or t2d as stored. `values` are the first few, for a person to look at."""

    name: str
    file: str
    dtype: str
    shape: tuple[int, ...]
    length: int
    integer: bool
    values: Known[tuple[int, ...]]


@dataclass(frozen=True)
class Length:
    """One source of the draft vocabulary's size."""

    source: str
    value: int

    def __str__(self) -> str:
        return f"{self.source} {self.value}"


class _FactsOfReading:
    """The facts of a `MapReading` as those of the vocabulary; why there is no reading where there is none."""

    _reading: Known[MapReading]
    readings: Known[tuple[int, ...]]
    confirmed: Known[int | None]
    verdict: Known[str]
    violations: Known[int]
    repeated: Known[Violation | None]
    out_of_range: Known[Violation | None]
    ascending: Known[bool]
    order: Known[str]
    padding: Known[int]
    mask_relation: Known[str | None]
    mask_shift: Known[int]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name.startswith("_") or name not in _FactsOfReading.__annotations__:
                raise AttributeError(f"{type(self).__name__} has no attribute {name}", name=name, obj=self)
            return self._reading if isinstance(self._reading, Unknown) else getattr(self._reading, name)


@dataclass(frozen=True)
class VocabMap(_FactsOfReading):
    """The vocabulary of a draft, and what its map can mean.

    `draft_size` is the number of ids the draft proposes from (rows of its head, else the map's
    length, else the config's word); `size` the largest of the draft's vocab_size, the target's and
    t2d's length. `reduced` says that the draft has fewer (fewer than its own vocab_size, where the others only pad
    that). `lengths` are all sources of the draft
    vocabulary's size, `lengths_agree` whether they are one; `head_padding` how many rows more than d2t has entries a
    head of a round size has (0 where they do not look like padding). `mask_count` is how many ids t2d marks, `mask_cut`
    whether it ends with its last mark. `side_maps` are files beside the weights in which trainers keep such a map,
    `elsewhere` tensors that may be one under another name. `map` is None where no d2t is stored or read; its facts are
    those of the vocabulary, too, and are unknown there.
    """

    d2t: Known[MapTensor | None]
    t2d: Known[MapTensor | None]
    claimed_draft_size: int | None
    claimed_line: int | None
    claimed_size: int | None
    draft_size: Known[int]
    size: Known[int]
    reduced: Known[bool]
    lengths: tuple[Length, ...]
    lengths_agree: bool
    head_padding: int
    mask_count: Known[int] | None
    mask_is_first: Known[bool] | None
    mask_cut: Known[bool] | None
    _reading: Known[MapReading]
    side_maps: tuple[str, ...] = ()
    elsewhere: tuple[MapElsewhere, ...] = ()

    @property
    def map(self) -> MapReading | None:
        """What the map d2t can mean."""
        return known_or(self._reading, None)

    @property
    def proposable(self) -> Known[frozenset[int] | None]:
        """The target ids that the draft can propose; None: all of them. Unknown unless the map is right."""
        if not isinstance(self.reduced, Unknown) and not self.reduced and self.map is None:
            return None
        if self.map is None or isinstance(self.verdict, Unknown):
            return Unknown("a right d2t")
        if self.verdict == "identity":
            return None
        if self.verdict not in ("right", "stale_t2d", "zeros_first"):
            return Unknown("a right d2t")
        return frozenset(self.map.targets[: len(self.map.targets) - self.map.padding].tolist())


def describe_vocab(
    checkpoint: Checkpoint,
    config: Config,
    canonical: Mapping[str, TensorInfo],
    head: TensorInfo | None,
    target: Target | None,
    trusted: bool,
) -> VocabMap:
    """Measure the vocabulary. `canonical` maps canonical names to tensors, `head` is the draft's own head.

    With `trusted` False (a damaged header) everything that rests on tensors is unknown.
    """
    claimed, vocab = config.size("draft_vocab_size"), config.size("vocab_size")
    claimed_value = claimed.value if claimed else None
    claimed_size = vocab.value if vocab else None
    if not trusted:
        return _untrusted(claimed_value, claimed.line if claimed else None, claimed_size)
    d2t, t2d = canonical.get("d2t"), canonical.get("t2d")
    d2t_values, mask = _values(checkpoint, d2t), _values(checkpoint, t2d)
    lengths = _lengths(claimed_value, head, d2t)
    target_size = target.vocab_size if target is not None else Unknown("the target (--target PATH)")
    sizes = [claimed_size, known_or(target_size, None), t2d.shape[0] if t2d and t2d.shape else None]
    known_sizes = [s for s in sizes if s is not None]
    size: Known[int] = max(known_sizes) if known_sizes else Unknown("vocab_size in config.json")
    draft_size = _draft_size(head, d2t, claimed_value, size)
    whole = _whole(claimed_size, size, d2t_values)
    reading: Known[MapReading] = Unknown("a d2t")
    if d2t is not None:
        if isinstance(d2t_values, Unknown):
            reading = d2t_values
        elif isinstance(size, Unknown):
            reading = size
        else:
            reading = read_map(d2t_values, size, _usable(mask), known_or(whole, None))
    mask_count: Known[int] | None = None
    mask_is_first: Known[bool] | None = None
    mask_cut: Known[bool] | None = None
    if isinstance(mask, Unknown):
        mask_count = mask_is_first = mask_cut = mask
    elif mask is not None:
        mask_count = int((mask != 0).sum())
        mask_is_first = bool((mask[:mask_count] != 0).all())
        mask_cut = bool(len(mask) and mask[-1] != 0)
    return VocabMap(
        d2t=_tensor(d2t, d2t_values),
        t2d=_tensor(t2d, mask),
        claimed_draft_size=claimed_value,
        claimed_line=claimed.line if claimed else None,
        claimed_size=claimed_size,
        draft_size=draft_size,
        size=size,
        reduced=_reduced(draft_size, whole),
        lengths=lengths,
        lengths_agree=len({length.value for length in lengths}) <= 1,
        head_padding=_head_padding(head, d2t),
        mask_count=mask_count,
        mask_is_first=mask_is_first,
        mask_cut=mask_cut,
        _reading=reading,
        side_maps=side_maps(checkpoint),
        elsewhere=maps_elsewhere(canonical, head.shape[0] if head and head.shape else None, known_or(size, None)),
    )


def _untrusted(claimed: int | None, line: int | None, size: int | None) -> VocabMap:
    why = Unknown("weight files with sound headers")
    return VocabMap(
        d2t=why, t2d=why, claimed_draft_size=claimed, claimed_line=line, claimed_size=size, draft_size=why, size=why,
        reduced=why, lengths=(), lengths_agree=True, head_padding=0, mask_count=why, mask_is_first=why, mask_cut=why,
        _reading=why,
    )  # fmt: skip


def _values(checkpoint: Checkpoint, info: TensorInfo | None):  # type: ignore[no-untyped-def]
    return None if info is None else checkpoint.integers(info.name)


def _usable(mask: Any) -> Any:
    """t2d as booleans (shape [V]); None where it is absent, unread, or holds more than two values and so is no mask."""
    import numpy as np

    if known_or(mask, None) is None:
        return None
    marked = mask != 0
    values = mask[marked]
    return marked if not len(values) or bool(np.all(values == values[0])) else None


def _whole(claimed: int | None, size: Known[int], d2t: Known[IntArray] | None) -> Known[int]:
    """The draft's own vocab_size where the largest size known only pads it, else the largest size.

    A map with anything but zeros chooses among more ids than there are rows, so the draft's size is then no whole.
    """
    if claimed is None or isinstance(size, Unknown) or size - claimed > PADDED_BY:
        return size
    chooses = d2t is not None and not isinstance(d2t, Unknown) and len(d2t) >= claimed and bool(d2t.any())
    return size if chooses else claimed


def _head_padding(head: TensorInfo | None, d2t: TensorInfo | None) -> int:
    """Rows of the head beyond the entries of d2t that only make it a multiple of a power of two from 8 to 512."""
    if head is None or not head.shape or d2t is None or not d2t.elements:
        return 0
    rows, entries = head.shape[0], d2t.elements
    multiples = (m for m in (8, 16, 32, 64, 128, 256, 512) if rows == -(-entries // m) * m)
    return rows - entries if rows > entries and next(multiples, None) else 0


def _tensor(info: TensorInfo | None, values) -> MapTensor | None:  # type: ignore[no-untyped-def]
    if info is None:
        return None
    first: Known[tuple[int, ...]] = values if isinstance(values, Unknown) else tuple(int(v) for v in values[:SHOWN])
    return MapTensor(info.name, info.file, info.dtype, info.shape, info.elements, info.dtype in INTEGER_DTYPES, first)


def _lengths(claimed: int | None, head: TensorInfo | None, d2t: TensorInfo | None) -> tuple[Length, ...]:
    found = []
    if claimed is not None:
        found.append(Length("draft_vocab_size", claimed))
    if head is not None and head.shape:
        found.append(Length(f"rows of {head.name}", head.shape[0]))
    if d2t is not None:
        found.append(Length(f"entries of {d2t.name}", d2t.elements))
    return tuple(found)


def _draft_size(head: TensorInfo | None, d2t: TensorInfo | None, claimed: int | None, size: Known[int]) -> Known[int]:
    if head is not None and head.shape:
        return head.shape[0]
    if d2t is not None:
        return d2t.elements
    # With no head, no map and no word of its own a draft proposes through the target's head: from all ids.
    return claimed if claimed is not None else size


def _reduced(draft_size: Known[int], size: Known[int]) -> Known[bool]:
    if isinstance(draft_size, Unknown):
        return draft_size
    return size if isinstance(size, Unknown) else draft_size < size
