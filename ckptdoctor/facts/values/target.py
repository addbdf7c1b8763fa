"""The draft's embedding and head against those of the target: the same, the draft's own, or lost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.checkpoint.rows import read_rows
from ckptdoctor.facts.target_weights import TargetWeights
from ckptdoctor.facts.values.pairs import Likeness, Watch
from ckptdoctor.facts.values.reading import Reader, place_of, readable
from ckptdoctor.facts.values.roles import Weight
from ckptdoctor.facts.values.statistics import Statistics
from ckptdoctor.facts.values.value_signs import Untouched
from ckptdoctor.unknown import Unknown

__all__ = ["EmbeddingComparison", "OwnEmbedding", "OwnHead", "embedding_comparison", "own_embedding", "own_head"]

_REMEMBERED = 64
_seen: dict[tuple[object, ...], Likeness] = {}
_ROWS = 256
_UNLIKE = 0.05
"""Cosine below which two matrices have nothing in common but, perhaps, a mean row."""


@dataclass(frozen=True)
class OwnEmbedding:
    """The draft's embedding against the target's, over the rows that both have.

    `kind`: `same` (a frozen copy, to the last bit or but for rounding), `lost` (still the random numbers of an
    initialiser, or zeros, and nothing like the target's), `own` (it began as the target's and was trained), `other`
    (nothing like it, and no initialiser's). `untouched` are the figures of a random one. `cosine` is that of all
    values.
    """

    name: str
    file: str
    kind: str
    cosine: float | None
    untouched: Untouched | None
    rows: int
    bytes: int


@dataclass(frozen=True)
class OwnHead:
    """The draft's head against the rows of its tokens in the target's head, in `sampled` rows.

    `same`: all of them are equal to the target's. `cosine` is the mean over the rows.
    """

    name: str
    file: str
    same: bool
    cosine: float
    sampled: int


class EmbeddingComparison:
    """The draft's embedding against the target's, compared while it is read. The same two are compared once only."""

    def __init__(self, checkpoint: Checkpoint, weight: Weight, target: TargetWeights, words: Mapping[str, Any]) -> None:
        other = target.embedding
        assert other is not None
        places = (place_of(checkpoint, weight.info), place_of(target.checkpoint, other))
        self._key = None if None in places else places
        self._known = None if self._key is None else _seen.get(self._key)
        self._watch = Watch(weight.info, other, Reader(target.checkpoint), words["alike"])

    @property
    def watches(self) -> list[Watch]:
        """What has to see the pieces of the embedding; nothing where the answer is known."""
        return [] if self._known is not None else [self._watch]

    def done(self) -> Likeness:
        """How the two relate, once the embedding was read."""
        if self._known is None:
            self._known = self._watch.done()
            if self._key is not None:
                _seen[self._key] = self._known
                while len(_seen) > _REMEMBERED:
                    del _seen[next(iter(_seen))]
        return self._known


def embedding_comparison(
    checkpoint: Checkpoint, weight: Weight | None, target: TargetWeights | None, words: Mapping[str, Any]
) -> EmbeddingComparison | None:
    """A comparison of the draft's embedding with the target's; None where they cannot be compared."""
    other = target.embedding if target is not None else None
    if weight is None or target is None or other is None or not readable(weight.info) or not readable(other):
        return None
    if len(weight.info.shape) != 2 or weight.info.shape[1] != other.shape[1]:
        return None
    return EmbeddingComparison(checkpoint, weight, target, words)


def own_embedding(
    weight: Weight, seen: Statistics, compared: EmbeddingComparison | None, random: Untouched | None
) -> OwnEmbedding | None:
    """What the comparison gave; None where there was none."""
    if compared is None:
        return None
    found = compared.done()
    if found.kind == "unread":
        return None
    unlike = found.cosine is None or abs(found.cosine) < _UNLIKE
    if found.kind in ("same", "rounded"):
        kind = "same"
    elif unlike and (random is not None or seen.constant):
        kind = "lost"
    else:
        kind = "other" if unlike else "own"
    size = (weight.info.end or 0) - (weight.info.start or 0)
    return OwnEmbedding(
        weight.info.name, weight.info.file, kind, found.cosine, random if kind == "lost" else None, seen.rows, size
    )


def own_head(
    checkpoint: Checkpoint, weight: Weight | None, target: TargetWeights | None, d2t: str | None
) -> OwnHead | None:
    """The head against the target's, by d2t where there is one; None where they cannot be compared."""
    import numpy as np

    other = target.head if target is not None else None
    if weight is None or target is None or other is None or len(weight.info.shape) != 2:
        return None
    rows, width = weight.info.shape
    if width != other.shape[1] or rows == 0 or weight.info.dtype.startswith("F8"):
        return None
    size = max(1, min(_ROWS, rows, (24 << 20) // (4 * width)))
    ids = np.unique(np.linspace(0, rows - 1, size).astype(np.int64))
    meant = ids
    if d2t is not None:
        offsets = checkpoint.integers(d2t)
        if isinstance(offsets, Unknown) or len(offsets) < rows:
            return None
        meant = ids + offsets[ids]
    elif rows > other.shape[0]:
        return None
    inside = (meant >= 0) & (meant < other.shape[0])
    if not bool(inside.all()):
        return None
    mine, theirs = read_rows(checkpoint, weight.info, ids), read_rows(target.checkpoint, other, meant)
    if isinstance(mine, Unknown) or isinstance(theirs, Unknown):
        return None
    with np.errstate(all="ignore"):
        lengths = np.linalg.norm(mine, axis=1) * np.linalg.norm(theirs, axis=1)
        cosines = np.where(lengths > 0, np.einsum("ij,ij->i", mine, theirs) / np.maximum(lengths, 1e-30), 0.0)
    mean = float(np.nan_to_num(cosines).mean())
    return OwnHead(weight.info.name, weight.info.file, bool(np.array_equal(mine, theirs)), round(mean, 3), len(ids))
