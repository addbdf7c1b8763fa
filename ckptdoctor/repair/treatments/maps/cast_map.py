"""A map stored as floats or narrow integers becomes I64, a mask BOOL, as trainers register them: the same values.

SpecForge, speculators and the EAGLE reference make d2t as int64 and t2d as bool; converters test for these two
(mobilint/mblt-model-zoo#110). A cast of the whole state dict takes both along.
"""

from __future__ import annotations

from ckptdoctor.repair.edits import CastTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.whole_numbers import whole_numbers
from ckptdoctor.unknown import known_or

__all__ = ["propose"]

_CODES = {"I64": "<i8", "BOOL": "u1"}


def propose(case: Case, name: str, to: str) -> Proposed:
    """The stored tensor `name` as `to` (`I64` or `BOOL`), with its shape and the order of its values.

    It says nothing of what the values mean. Refused where a value may have been rounded, for a map that became flags,
    and where a mask holds other values than 0 and 1.
    """
    info = case.checkpoint.tensors[name]
    if to == "I64" and info.dtype == "BOOL":
        raise RefusedError("flags", name=name)
    proven = to == "BOOL" or known_or(case.facts.vocab.confirmed, None) is not None
    values = whole_numbers(case.checkpoint, info, proven=proven)
    if to == "BOOL" and not bool(((values == 0) | (values == 1)).all()):
        raise RefusedError("no_mask", name=name)
    edit = CastTensor(name, to, values.astype(_CODES[to]).tobytes())
    return Proposed((edit,), subject="d2t" if to == "I64" else "t2d")
