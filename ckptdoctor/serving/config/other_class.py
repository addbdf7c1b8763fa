"""A class that an engine builds for a draft and that is none for drafts of this kind.

Engines choose a class by its name alone: an EAGLE draft whose config names the class of its target is built as that
ordinary model. What then becomes of single parameters is a consequence and no diagnosis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.facts.draft.classes import is_ordinary
from ckptdoctor.serving.outcomes import Outcome
from ckptdoctor.serving.plan import LoadPlan
from ckptdoctor.serving.words import Reason
from ckptdoctor.text import show

__all__ = ["builds_other", "no_class", "of_another_class"]


def builds_other(facts: Facts, entry: Mapping[str, Any], mtp: Mapping[str, Any] | None = None) -> bool:
    """Whether the class of `entry` is known to be none for drafts of this kind.

    A class whose parameters the contract does not know counts where its name is that of an ordinary model, and where it
    is one of MTP layers (`mtp`: its row) that passes over every name but theirs.
    """
    if not facts.draft.tabled:
        return False
    if mtp is not None and mtp.get("unknown_name") == "drop":
        return True
    if "parameters" not in entry:
        return is_ordinary(str(entry["name"]))
    kinds = entry.get("algorithms")
    # P-EAGLE is EAGLE-3 with a learned state for masked positions: what has no place of it is told by its name.
    kin = {facts.draft.algorithm, *facts.draft.kind.serves_as}
    return kinds is not None and not kin & set(kinds)


def no_class(facts: Facts, name: str) -> Reason:
    """The one reason of such a plan."""
    return Reason("broken", "other_class", {"name": show(name), "kind": facts.draft.algorithm_name})


def of_another_class(plan: LoadPlan, facts: Facts) -> LoadPlan:
    """`plan` with the class as its one cause: every loud error names it, and no other cause is told."""
    reason = no_class(facts, plan.model_class or "")
    errors = tuple(
        e if e.about == "layers" else replace(e, reason=f"{reason.text}: {e.reason}", about="class")
        for e in plan.errors
    )
    outcome = Outcome.REFUSED if errors else Outcome.BROKEN
    return replace(plan, causes=(reason,), errors=errors, outcome=outcome, trained=None, fitting=None)
