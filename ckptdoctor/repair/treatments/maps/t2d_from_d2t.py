"""The mask t2d is written from d2t: true for each target id that the draft can propose.

SGLang, vLLM, TensorRT-LLM, llama.cpp and the EAGLE reference serve by d2t alone and skip t2d; trainers and converters
read it. So the served draft stays what it is, whatever is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckptdoctor.repair.edits import AddTensor, Edit, ReplaceTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.unknown import Unknown, known_or

if TYPE_CHECKING:
    from ckptdoctor.facts.vocabulary.vocab import VocabMap

__all__ = ["propose"]

_RIGHT = ("right", "stale_t2d", "zeros_first")


def propose(case: Case) -> Proposed:
    """t2d as BOOL, shape [V], under the prefix of d2t; V is the draft's vocab_size.

    Only from a d2t that is right as offsets and is the only reading of itself. A stored t2d that marks as many ids as
    d2t has entries, and others, may be the newer of the two: to write over it is then an assumption. One that marks the
    same ids moved by one number, or those of the negated offsets, is proof of a fault in either: it is left.
    """
    import numpy as np

    vocab = case.facts.vocab
    d2t, t2d, reading = vocab.d2t, vocab.t2d, vocab.map
    if isinstance(d2t, Unknown) or isinstance(t2d, Unknown) or d2t is None or reading is None:
        raise RefusedError("unread")
    if vocab.reduced is not True:
        raise RefusedError("whole", name=d2t.name)
    if reading.verdict not in _RIGHT or not d2t.integer:
        raise RefusedError("not_right", name=d2t.name)
    if not vocab.lengths_agree:
        raise RefusedError("lengths", lengths=[str(length) for length in vocab.lengths])
    if reading.confirmed is None and reading.verdict != "zeros_first" and reading.readings != (1,):
        raise RefusedError("two_readings", name=d2t.name, readings=reading.readings)
    if reading.mask_relation == "moved":
        raise RefusedError("moved", name=d2t.name, by=reading.mask_shift)
    if reading.mask_relation == "negated":
        raise RefusedError("negated", name=d2t.name)
    _refuse_dispute(case)
    size = _size(vocab, int(reading.targets.max()))
    mask = np.zeros(size, dtype=np.uint8)
    mask[reading.targets] = 1
    edit: Edit
    if t2d is None:
        edit = AddTensor(f"{d2t.name.removesuffix('d2t')}t2d", "BOOL", (size,), mask.tobytes())
    else:
        edit = ReplaceTensor(t2d.name, "BOOL", (size,), mask.tobytes())
    newer = reading.verdict == "stale_t2d" and vocab.mask_count == d2t.length
    return Proposed((edit,), subject="t2d", assumption="d2t_is_newer" if newer else None)


def _refuse_dispute(case: Case) -> None:
    """Refuse while the draft's embedding, or the target beside a stored mask, speaks against vocab_size."""
    vocab, embedding, target = case.facts.vocab, known_or(case.facts.draft.embedding, None), case.facts.target
    sizes = {"vocab_size": vocab.claimed_size}
    if embedding is not None:
        sizes[f"rows of {embedding.name}"] = embedding.rows
    wanted = None if target is None else known_or(target.vocab_size, None)
    if not isinstance(vocab.t2d, Unknown) and vocab.t2d is not None and vocab.t2d.length == wanted:
        sizes[f"the target's vocab_size and the entries of {vocab.t2d.name}"] = wanted
    if vocab.claimed_size is not None and len(set(sizes.values())) > 1:
        raise RefusedError("sizes", sizes=[f"{name} {size}" for name, size in sizes.items()])


def _size(vocab: VocabMap, largest: int) -> int:
    """The draft's vocab_size, by which trainers make the mask, unless the map goes further."""
    if vocab.claimed_size is not None and largest < vocab.claimed_size:
        return vocab.claimed_size
    if isinstance(vocab.size, Unknown):
        raise RefusedError("unread")
    return vocab.size
