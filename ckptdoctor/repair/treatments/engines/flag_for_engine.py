"""A flag of the config stands also where the named release looks for it.

Trainers write flags at the top or in eagle_config; each class reads its own place (`reads` of the contracts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.repair.plan.choosing import score
from ckptdoctor.serving import LoadPlan
from ckptdoctor.serving.contract.contracts import Contract, Release

__all__ = ["propose"]


def propose(case: Case, kind: str, text: str) -> Proposed:
    """The same value at the first place that the release reads, where the plan is then without this complaint.

    `kind` and `text` are those of the cause in the plan. Refused for a flag that no place makes this release honour,
    and where a second named release would be worse off.
    """
    found = next(
        (i for i, p in enumerate(case.plans) if f"{p.engine}=={p.version}" in case.finding_engines and p.causes), None
    )
    if kind != "flag_elsewhere" or found is None:
        raise RefusedError("not_known", engine=", ".join(case.finding_engines))
    plan = case.plans[found]
    flag = next(str(c.values["flag"]) for c in plan.causes if c.kind == kind and c.text == text)
    value = case.facts.config.flag(flag)
    if value is None:
        raise RefusedError("not_known", engine=plan.label)
    before = [score(p, case.facts) for p in case.plans]
    for place in _places(case.engines[found], plan, flag):
        edits = (SetConfig(place, value.value),)
        after, facts = case.plans_after(edits), case.after(edits)
        if any(c.kind == kind and c.values["flag"] == flag for c in after[found].causes):
            continue
        if any(score(p, facts) > old for p, old in zip(after, before, strict=True)):
            continue
        return Proposed(edits, subject=f"{flag} at {place}")
    raise RefusedError("no_place", engine=plan.label, flag=flag)


def _places(engine: tuple[Contract, str], plan: LoadPlan, flag: str) -> Sequence[str]:
    """Where the class of this release looks for `flag`."""
    contract, version = engine
    entry: Mapping[str, Any] = next(c for c in contract.raw["classes"].values() if c["name"] == plan.model_class)
    reads: Mapping[str, Sequence[str]] = Release(contract, version).peek(entry["behaviours"].get("reads"), {})
    return reads.get(flag, ())
