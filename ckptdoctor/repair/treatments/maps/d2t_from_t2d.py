"""An absent d2t is made from t2d, in ascending order of target ids: unsafe, since t2d does not tell the order.

SpecForge, speculators and the EAGLE reference number the draft ids in ascending order of the target ids that their
mask marks. Nothing in the files proves that a head was trained so, and a head in another order would be permuted.
"""

from __future__ import annotations

from ckptdoctor.repair.edits import AddTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """d2t as I64 offsets, shape [D], under the prefix of t2d; D are the rows of the head.

    Refused unless t2d marks exactly D ids, and for a writer that orders its map otherwise. A d2t that is stored, even
    one of zeros, is left alone.
    """
    import numpy as np

    draft, vocab = case.facts.draft, case.facts.vocab
    t2d, head = vocab.t2d, draft.head
    if vocab.d2t is not None:
        raise RefusedError("stored")
    if vocab.elsewhere and (other := next((m for m in vocab.elsewhere if m.meaning != "t2d"), None)) is not None:
        raise RefusedError("elsewhere", name=other.name, length=other.length)
    if isinstance(t2d, Unknown) or t2d is None:
        raise RefusedError("no_t2d")
    mask = case.checkpoint.integers(t2d.name)
    if isinstance(mask, Unknown) or not bool(((mask == 0) | (mask == 1)).all()):
        raise RefusedError("no_mask", name=t2d.name)
    if draft.writer.map_order not in ("ascending", "unknown"):
        raise RefusedError("other_order", writer=draft.writer.name)
    targets = np.flatnonzero(mask).astype(np.int64)
    if len(targets) == len(mask):
        raise RefusedError("all_true", name=t2d.name)
    if isinstance(head, Unknown) or head is None:
        raise RefusedError("no_head", name=t2d.name)
    if len(targets) != head.rows or not vocab.lengths_agree:
        raise RefusedError("counts", name=t2d.name, count=len(targets), rows=head.rows)
    if vocab.claimed_size is not None and int(targets[-1]) >= vocab.claimed_size:
        raise RefusedError("outside", name=t2d.name, size=vocab.claimed_size)
    offsets = targets - np.arange(len(targets), dtype=np.int64)
    name = f"{t2d.name.removesuffix('t2d')}d2t"
    return Proposed((AddTensor(name, "I64", offsets.shape, offsets.astype("<i8").tobytes()),), subject="d2t")
