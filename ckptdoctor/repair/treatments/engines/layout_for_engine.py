"""Names that a release does not look for become those that it does: a rename between the layouts that are known.

Every layout of rules/facts/naming.yaml is tried by planning the draft under it; bytes stay as they are.
"""

from __future__ import annotations

from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.plan.choosing import helps, lost, suits_all
from ckptdoctor.repair.support.layouts import layouts
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]


def propose(case: Case) -> Proposed:
    """The layout that is best for every named engine, with the fewest renames.

    Refused where a release builds an ordinary model, whose names would be the wrong ones; where a parameter is there
    under two names; where every tensor has its
    place already (what is left is not in the file); where no layout is better for the engine of the finding; and where
    two engines want different ones.
    """
    if not case.engines:
        raise RefusedError("unnamed")
    ours = [p for p in case.plans if f"{p.engine}=={p.version}" in case.finding_engines] or list(case.plans)
    other = next((p for p in case.plans if p.other_class), None)
    if other is not None:
        raise RefusedError("class", engine=other.label, name=other.model_class)
    names = case.facts.draft.names
    if not isinstance(names, Unknown) and names.collisions:
        raise RefusedError("twice", name=names.collisions[0])
    if not any(lost(p, case.facts) for p in ours):
        raise RefusedError("placed", engine=ours[0].label)
    chosen, scores = suits_all(case, layouts(case.facts))
    if not chosen.edits or not helps(case, scores):
        raise RefusedError("none", engine=ours[0].label)
    return Proposed(chosen.edits, subject=f"the layout {chosen.label}")
