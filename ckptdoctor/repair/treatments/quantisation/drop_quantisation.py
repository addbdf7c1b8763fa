"""The scheme is taken out of the configs of a draft whose weights are all plain."""

from __future__ import annotations

from ckptdoctor.repair.edits import Edit, OmitFile, RemoveConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.support.fields import writable

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """Every scheme left out: the key of config.json, or the file that is nothing else.

    Refused where a tensor of a quantised module is stored, or where a cache is quantised as well.
    """
    facts = case.facts.quantisation
    if facts is None or not facts.schemes:
        raise RefusedError("none")
    if facts.packed_in_file:
        raise RefusedError("stored", tensor=facts.packed_example or "a tensor of another type")
    if facts.orphans:
        raise RefusedError("stored", tensor=facts.orphans[0].names[0])
    edits: list[Edit] = []
    for scheme in facts.schemes:
        if not scheme.place:
            edits.append(OmitFile(scheme.file))
            continue
        writable(case, scheme.file)
        edits.append(RemoveConfig(scheme.place, scheme.file))
    return Proposed(tuple(edits), subject="quantisation")
