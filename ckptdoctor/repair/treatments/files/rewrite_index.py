"""The index of the shards is written from their headers, when nothing that the old one names can be lost by it.

An index only says which file holds which tensor; the headers say the same of what is really stored.
"""

from __future__ import annotations

import re
from typing import Any

from ckptdoctor.facts.draft.tables import ParameterTable
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.naming.canonical import canonical_names
from ckptdoctor.publish.shards import INDEX_NAME, lost_member
from ckptdoctor.repair.edits import RewriteIndex
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]

_MISSING = ("index_missing_shard", "shard_missing")


def propose(case: Case) -> Proposed:
    """The index of the weights as their headers give it, under the name that it has or model.safetensors.index.json.

    Refused for PyTorch files, when a file is missing or damaged, when a name stands in two files, and when the old
    index names a tensor that is stored nowhere and may have been part of the draft.
    """
    checkpoint = case.checkpoint
    if checkpoint.kind != "safetensors":
        raise RefusedError("pickle")
    missing = next((f.other or f.file for f in checkpoint.faults if f.kind in _MISSING), lost_member(checkpoint.files))
    if missing is not None:
        raise RefusedError("missing", name=missing)
    twice = next((f for f in checkpoint.faults if f.kind in ("tensor_in_two_files", "tensor_of_two_shapes")), None)
    if twice is not None:
        raise RefusedError("twice", name=twice.tensor)
    damaged = next((f.file for f in checkpoint.faults if f.file in checkpoint.files and _is_damage(f.kind)), None)
    if damaged is not None:
        raise RefusedError("damaged", name=damaged)
    _refuse_loss(case)
    name = checkpoint.index_file or INDEX_NAME
    return Proposed((RewriteIndex(name),), subject=name)


def _is_damage(kind: str) -> bool:
    return kind not in ("shards_without_index", "file_not_in_index")


def _refuse_loss(case: Case) -> None:
    """Refuse when the index names a tensor that no file holds, unless it is one of these under an older name."""
    checkpoint = case.checkpoint
    document = checkpoint.json(checkpoint.index_file) if checkpoint.index_file else None
    named: Any = document.object.get("weight_map") if document else None
    gone = [name for name in named if name not in checkpoint.tensors] if isinstance(named, dict) else []
    naming = knowledge().naming
    gone = [name for name in gone if not any(re.search(p, name) for p in naming["buffers"])]
    stored = {n.canonical for n in canonical_names(checkpoint.tensors, naming, strip_model=True).values()}
    names = canonical_names(gone, naming, strip_model=True).values()
    gone = [n.stored for n in names if n.canonical not in stored and _is_parameter(case, n.canonical)]
    if gone:
        raise RefusedError("lost", names=tuple(gone[:4]))
    lacking = case.facts.draft.names
    if named is None or isinstance(lacking, Unknown):
        return
    absent = [name for part in lacking.missing for name in part.names]
    absent += [name for part in lacking.incomplete for name in part.absent]
    if absent:
        raise RefusedError("lacking", names=tuple(absent[:4]))


def _is_parameter(case: Case, canonical: str) -> bool:
    """Whether a draft of this kind has a parameter of this name, needed or not; True where that is not known."""
    known, draft = knowledge(), case.facts.draft
    if not draft.tabled:
        return True
    algorithm = known.algorithms[draft.algorithm]
    attention = [p for kind in known.attention.values() for p in kind]
    table = ParameterTable(
        algorithm.parameters, (*algorithm.layer, *attention, *known.feed_forward, *known.experts), known
    )
    return table.find(canonical) is not None
