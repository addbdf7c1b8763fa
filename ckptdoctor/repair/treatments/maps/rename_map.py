"""A vocabulary map under another name becomes d2t (or t2d), with its values as they are."""

from __future__ import annotations

from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """The maps of `vocab.elsewhere` whose names say what they are, called d2t and t2d.

    Refused where two would get one name, or where the values are no right map of offsets then.
    """
    edits: list[RenameTensor] = []
    taken = set(case.facts.tensors)
    for found in case.facts.vocab.elsewhere:
        if found.meaning == "unknown":
            continue
        if found.meaning in taken:
            raise RefusedError("taken", name=found.name, other=found.meaning)
        taken.add(found.meaning)
        edits.append(RenameTensor(found.name, found.meaning))
    if not any(edit.to == "d2t" for edit in edits):
        raise RefusedError("none")
    after = case.after(tuple(edits)).vocab
    if after.verdict not in ("right", "identity"):
        raise RefusedError("not_right", name=edits[0].name)
    return Proposed(tuple(edits), subject="d2t")
