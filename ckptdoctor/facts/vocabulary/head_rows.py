"""Rows of a draft's head or embedding and of the target's, read a few hundred at a time and brought to length 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.checkpoint.rows import read_rows
from ckptdoctor.facts.target_weights import TargetWeights
from ckptdoctor.facts.vocabulary.alignment import CLEAR, Chance, mean_row, units
from ckptdoctor.facts.vocabulary.vocab import VocabMap
from ckptdoctor.unknown import Known, Unknown, UnknownFactError, known

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Ints = npt.NDArray[np.int64]

__all__ = ["FEWEST", "SAMPLE", "HeadPair", "compare_embeddings", "paired"]

SAMPLE = 256
"""Rows that are compared under each reading."""
FEWEST = 32
NARROWEST = 16
"""Rows and columns below which cosines show nothing."""
_CACHE = 24 * 1024 * 1024
"""Bytes that sampled rows take up as float32 at most, unless a handful of them is larger."""


class HeadPair:
    """Rows of both heads. `count` draft ids have a row and an entry of d2t."""

    def __init__(self, checkpoint: Checkpoint, head: TensorInfo, weights: TargetWeights, vocab: VocabMap) -> None:
        import numpy as np

        assert weights.head is not None
        self._draft, self._head = checkpoint, head
        self._target, self._target_head = weights.checkpoint, weights.head
        d2t = known(vocab.d2t)
        offsets = np.zeros(head.shape[0], dtype=np.int64) if d2t is None else known(checkpoint.integers(d2t.name))
        self.count = min(len(offsets), head.shape[0])
        self._offsets = np.clip(offsets[: self.count], -(2**40), 2**40)
        self.height, self.width = weights.head.shape
        if self.width < NARROWEST or self.count < FEWEST:
            raise UnknownFactError(Unknown(f"a head of at least {FEWEST} rows and {NARROWEST} columns"))
        self._draft_mean: Floats | None = None
        self._target_mean: Floats | None = None

    def sample(self, most: int) -> Ints:
        """At most `most` draft ids over the whole map, ascending, always the same ones; fewer where rows are wide."""
        import numpy as np

        size = min(most, self.count, max(FEWEST, _CACHE // (self.width * 4)))
        edges = np.linspace(0, self.count, size + 1).astype(np.int64)
        jitter = np.random.default_rng(5).random(size)
        return np.unique(edges[:-1] + (jitter * np.diff(edges)).astype(np.int64))

    def ids(self, draft_ids: Ints, reading: int) -> Ints:
        """The target ids of `draft_ids` under `reading`."""
        return self._offsets[draft_ids] + reading * draft_ids

    def reaches(self, reading: int) -> bool:
        """Whether all targets of a reading, but for one in a hundred, have a row in the target's head."""
        import numpy as np

        ids = self.ids(np.arange(self.count, dtype=np.int64), reading)
        return float(((ids >= 0) & (ids < self.height)).mean()) >= 0.99

    def draft(self, draft_ids: Ints) -> Floats:
        """Unit rows of the draft's head, float32, shape [n, width]."""
        rows = known(read_rows(self._draft, self._head, draft_ids))
        if self._draft_mean is None:
            self._draft_mean = mean_row(rows)
        return units(rows, self._draft_mean)

    def target(self, ids: Ints) -> Floats:
        """Unit rows of the target's head; zeros for ids outside of it."""
        import numpy as np

        inside = (ids >= 0) & (ids < self.height)
        rows = known(read_rows(self._target, self._target_head, np.where(inside, ids, 0)))
        rows[~inside] = 0
        if self._target_mean is None:
            self._target_mean = mean_row(rows)
        return units(rows, self._target_mean)

    def integers(self, name: str) -> Known[Ints]:
        """The values of a small tensor of the draft, int64."""
        return self._draft.integers(name)

    def cosines(self, draft_ids: Ints, reading: int) -> Floats:
        """The cosine of each of the draft's rows with the row of its target."""
        return paired(self.draft(draft_ids), self.target(self.ids(draft_ids, reading)))


def paired(left: Floats, right: Floats) -> Floats:
    import numpy as np

    return np.asarray(np.einsum("ij,ij->i", left, right), dtype=np.float32)


def compare_embeddings(
    checkpoint: Checkpoint, embedding: TensorInfo | None, weights: TargetWeights
) -> tuple[float | None, bool | None]:
    """The mean cosine of the two embeddings at the same ids, and whether they are alike; (None, None) without both."""
    import numpy as np

    other = weights.embedding
    if embedding is None or other is None or len(embedding.shape) != 2 or embedding.shape[1] != other.shape[1]:
        return None, None
    count, width = min(embedding.shape[0], other.shape[0]), other.shape[1]
    size = min(SAMPLE, count, _CACHE // max(1, width * 4))
    if size < FEWEST or width < NARROWEST:
        return None, None
    ids = np.unique(np.linspace(0, count - 1, size).astype(np.int64))
    left, right = read_rows(checkpoint, embedding, ids), read_rows(weights.checkpoint, other, ids)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return None, None
    usable = (left != 0).any(axis=1) & (right != 0).any(axis=1)
    if int(usable.sum()) < FEWEST:
        return None, None
    cross = units(left[usable]) @ units(right[usable]).T
    chance, same = Chance.of(cross), np.asarray(np.diagonal(cross), dtype=np.float32)
    fits = True if chance.score(same) >= CLEAR else False if chance.is_faint(same) else None
    return round(float(same.mean()), 3), fits
