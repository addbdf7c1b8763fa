"""Medusa heads get names with nothing before them: those of their authors (medusa_model.py), or vLLM's where they have
vLLM's (model_executor/models/medusa.py)."""

from __future__ import annotations

from ckptdoctor.facts.medusa.head_names import layout_of, written
from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """Every part of a head under the authors' name for it, or vLLM's where the heads are in vLLM's layout.

    Refused where such a name is there already, and where the target's weights are in the same file, whose names say
    what belongs to it.
    """
    read = layout_of(case.facts.tensors)
    if read is None or case.facts.medusa is None:
        raise RefusedError("unread")
    if case.facts.medusa.with_target:
        raise RefusedError("with_target")
    layout, names = read
    kept = layout if layout == "vllm" else "original"
    layers = case.facts.medusa.layers
    renames = [RenameTensor(n.name, to) for n in names if (to := written(n, kept, "", layers)) != n.name]
    taken = next((r for r in renames if r.to in case.facts.tensors), None)
    if taken is not None:
        raise RefusedError("collision", name=taken.name, other=taken.to)
    return Proposed(tuple(renames), subject="the names of Medusa heads")
