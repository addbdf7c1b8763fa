"""Target ids, or offsets from which the row number was subtracted twice, become offsets: arithmetic on each entry.

Engines compute target id = draft id + d2t[draft id] (SGLang 0.4.9 and later, vLLM, EAGLE cnets.py). The rows of
the head stand in the order of the map, so no entry changes its place and nothing is sorted or rebuilt.
"""

from __future__ import annotations

from ckptdoctor.facts.vocabulary.heads import HeadComparison
from ckptdoctor.facts.vocabulary.map_readings import MapReading
from ckptdoctor.repair.edits import ReplaceTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.whole_numbers import whole_numbers
from ckptdoctor.unknown import Known, Unknown, known_or

__all__ = ["propose"]

_FACTORS = {"absolute": 0, "offset_twice": 2}


def propose(case: Case) -> Proposed:
    """d2t as I64 offsets of the same length, in the same order.

    Only a map of which one reading alone is left is touched: t2d confirms it to the last id, or it is the only one that
    fits, or (`fix --deep`) it is the only one that fits under which the rows of the head are like the target's. Refused
    for every other map, and for floats that may have been rounded.
    """
    import numpy as np

    vocab = case.facts.vocab
    stored, reading = known_or(vocab.d2t, None), vocab.map
    if stored is None or reading is None:
        raise RefusedError("unread")
    decided = _by_heads(case.facts.heads, reading)
    factor = _factor(reading, stored.name) if decided is None else decided
    info = case.checkpoint.tensors[stored.name]
    values = whole_numbers(case.checkpoint, info, proven=reading.confirmed == factor)
    offsets = values + (factor - 1) * np.arange(len(values), dtype=np.int64)
    edit = ReplaceTensor(stored.name, "I64", stored.shape, offsets.astype("<i8").tobytes())
    return Proposed((edit,), subject="d2t", assumption=None if decided is None else "heads")


def _by_heads(heads: Known[HeadComparison], reading: MapReading) -> int | None:
    """k where several readings fit the numbers and the rows of the heads are alike under one of them; else None."""
    if isinstance(heads, Unknown) or isinstance(heads.best, Unknown) or heads.wrong_from is not None:
        return None
    open_map = reading.confirmed is None and len(reading.readings) > 1 and reading.verdict in ("open", "right")
    return heads.best if open_map and heads.best in reading.readings and heads.best in _FACTORS.values() else None


def _factor(reading: MapReading, name: str) -> int:
    """k of `target = d2t[i] + k * i`, where no other one is possible."""
    match reading.verdict:
        case "open":
            raise RefusedError("open", name=name, readings=reading.readings)
        case "damaged":
            raise RefusedError("damaged", name=name)
        case "zeros_never_loaded" | "zeros_undecided" | "zeros_lost":
            raise RefusedError("zeros", name=name)
        case "right" if reading.confirmed is None and len(reading.readings) > 1:
            raise RefusedError("two_readings", name=name, readings=reading.readings)
    factor = _FACTORS.get(reading.verdict)
    if factor is None:
        raise RefusedError("right", name=name)
    if reading.confirmed not in (None, factor):
        raise RefusedError("other", name=name)
    if reading.confirmed is None and reading.readings != (factor,):
        raise RefusedError("undecided", name=name)
    return factor
