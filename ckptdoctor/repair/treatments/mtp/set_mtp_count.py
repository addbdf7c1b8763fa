"""The number of MTP layers in the config becomes the number of those that are stored.

SGLang and vLLM build as many as num_nextn_predict_layers, or its namesake of the model, says.
"""

from __future__ import annotations

from typing import Any

from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import writable

__all__ = ["propose"]

USUAL = "num_nextn_predict_layers"


def propose(case: Case) -> Proposed:
    """Every field that counts MTP layers says how many are stored; without one the usual field is written beside the
    number of the model's own layers.

    It rests on no assumption where the layers are more than declared. Refused where the layers are not whole, and
    where fewer are stored than one module has.
    """
    mtp = case.facts.mtp
    document = writable(case)
    if mtp is None or not mtp.is_mtp or mtp.stored < 1:
        raise RefusedError("nothing")
    gap = next(iter((*mtp.gaps, *mtp.halves)), None)
    if gap is not None:
        raise RefusedError("lacking", where=gap.where, names=", ".join(gap.names[:4]))
    fewer = mtp.declared is not None and mtp.stored < mtp.declared
    if fewer and mtp.kind == "qwen":
        raise RefusedError("module", where=mtp.where)
    home = (mtp.depth_key or "").rpartition(".")[0]
    keys = [claim.key for claim in mtp.claims] or [f"{home}.{USUAL}" if home else USUAL]
    edits = tuple(SetConfig(key, mtp.stored) for key in keys if not _holds(case, key, mtp.stored))
    if not edits:
        raise RefusedError("same", at=keys[0], value=mtp.stored)
    for edit in edits:
        inner: Any = document.object
        for part in edit.key.split(".")[:-1]:
            inner = inner.get(part) if isinstance(inner, dict) else None
            if not isinstance(inner, dict):
                raise RefusedError("blocked", at=edit.key)
    return Proposed(edits, subject="the number of MTP layers", assumption="none_lost" if fewer else None)


def _holds(case: Case, key: str, value: int) -> bool:
    field = case.facts.config.at(key)
    return field is not None and type(field.value) is int and field.value == value
