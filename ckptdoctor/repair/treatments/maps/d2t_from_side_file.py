"""An absent d2t is made from the list of target ids that a trainer left beside the weights: unsafe, since nothing in
the files proves that the list and the head are of the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.vocabulary.side_maps import read_side_map
from ckptdoctor.repair.edits import AddTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.text import listing, show
from ckptdoctor.unknown import Unknown, known_or

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]

__all__ = ["propose"]


def propose(case: Case, files: tuple[str, ...]) -> Proposed:
    """d2t as I64 offsets, shape [D], and t2d as BOOL, shape [V], where it is not stored; D are the rows of the head.

    Refused unless exactly one list in `files` (names beside the weights) has D different ids of the vocabulary, which
    a stored t2d marks too.
    """
    import numpy as np

    draft, vocab, named = case.facts.draft, case.facts.vocab, listing(files)
    if vocab.d2t is not None:
        raise RefusedError("stored", files=named)
    head, size = known_or(draft.head, None), vocab.size
    if head is None:
        raise RefusedError("no_head", files=named)
    if isinstance(size, Unknown):
        raise RefusedError("sizes", name=named)
    if not case.reads:  # asked again when the copy is made
        return Proposed((AddTensor("d2t", "I64", (head.rows,)),), subject="d2t")
    lists = [(name, _targets(name, meaning, row, size)) for name in files for meaning, row in _rows(case, name).items()]
    if not lists:
        raise RefusedError("no_map", files=named)
    name, targets = lists[0]
    if any(not np.array_equal(targets, other) for _, other in lists[1:]):
        raise RefusedError("several", files=named)
    if len(targets) != head.rows or not vocab.lengths_agree:
        raise RefusedError("counts", name=show(name), count=len(targets), rows=head.rows)
    mask = np.zeros(size, dtype=bool)
    mask[targets] = True
    offsets = targets - np.arange(len(targets), dtype=np.int64)
    edits = [AddTensor("d2t", "I64", offsets.shape, offsets.astype("<i8").tobytes())]
    if vocab.t2d is None:
        edits.append(AddTensor("t2d", "BOOL", mask.shape, mask.tobytes()))
    elif not _marks(case, mask):
        raise RefusedError("not_in_mask", name=show(name))
    return Proposed(tuple(edits), subject="d2t")


def _rows(case: Case, name: str) -> dict[str, IntArray]:
    place = case.checkpoint.real_path(name)
    if place is None:
        return {}
    try:
        return read_side_map(place, name)
    except CannotExamineError as error:
        raise RefusedError("unreadable", problem=str(error)) from None


def _targets(name: str, meaning: str, row: IntArray, size: int) -> IntArray:
    """The target ids that `row` means. A row that says nothing about itself is taken only where one reading fits."""
    import numpy as np

    added = row + np.arange(len(row), dtype=np.int64)
    fitting = [
        ids for kind, ids in (("ids", row), ("offsets", added)) if meaning in (kind, "unsaid") and _are_ids(ids, size)
    ]
    if not fitting:
        raise RefusedError("damaged", name=show(name), size=size)
    if len(fitting) > 1 and not np.array_equal(fitting[0], fitting[1]):
        raise RefusedError("readings", name=show(name))
    return fitting[0]


def _are_ids(ids: IntArray, size: int) -> bool:
    import numpy as np

    return bool(len(ids)) and int(ids.min()) >= 0 and int(ids.max()) < size and len(np.unique(ids)) == len(ids)


def _marks(case: Case, mask: npt.NDArray[np.bool_]) -> bool:
    """Whether the stored t2d marks the same ids as `mask`, as far as it reaches."""
    t2d = known_or(case.facts.vocab.t2d, None)
    if t2d is None:
        return False
    stored = case.checkpoint.integers(t2d.name)
    if isinstance(stored, Unknown):
        return False
    reach = min(len(stored), len(mask))
    return bool((stored[:reach].astype(bool) == mask[:reach]).all()) and not mask[reach:].any()
