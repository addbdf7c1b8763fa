"""Target ids, or offsets from which the row number was subtracted twice, become offsets: arithmetic on each entry.

Engines compute target id = draft id + d2t[draft id] (SGLang 0.4.9 and later, vLLM, EAGLE cnets.py). The rows of the head
stand in the order of the map, so no entry changes its place and nothing is sorted or rebuilt.
"""

from __future__ import annotations

from ckptdoctor.repair.edits import ReplaceTensor
from ckptdoctor.repair.proposal import Case, Proposed, RefusedError
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """d2t as I64 offsets of the same length, in the same order.

    Only a map of which one reading alone is left is touched: t2d confirms it to the last id, or it is the only one that
    fits. Refused for every other map.
    """
    import numpy as np

    vocab = case.facts.vocab
    stored, reading = vocab.d2t, vocab.map
    if isinstance(stored, Unknown) or stored is None or reading is None:
        raise RefusedError("unread")
    if reading.verdict == "open":
        raise RefusedError("open", name=stored.name, readings=reading.readings)
    if reading.verdict == "damaged":
        raise RefusedError("damaged", name=stored.name)
    factor = {"absolute": 0, "offset_twice": 2}.get(reading.verdict)
    if factor is None:
        raise RefusedError("right", name=stored.name)
    if reading.confirmed not in (None, factor):
        raise RefusedError("other", name=stored.name)
    if reading.confirmed is None and reading.readings != (factor,):
        raise RefusedError("undecided", name=stored.name)
    values = case.checkpoint.integers(stored.name)
    if isinstance(values, Unknown):
        raise RefusedError("unread")
    offsets = values + (factor - 1) * np.arange(len(values), dtype=np.int64)
    edit = ReplaceTensor(stored.name, "I64", stored.shape, offsets.astype("<i8").tobytes())
    return Proposed((edit,), subject="d2t")
