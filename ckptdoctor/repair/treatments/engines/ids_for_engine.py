"""The ids of the captured layers in the numbers that the named release turns into the trained layers.

SGLang counts the layer whose output is meant, vLLM the boundary after it; some SGLang targets changed in 0.5.13.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ckptdoctor.repair.edits import SetConfig
from ckptdoctor.repair.plan.case import Case, Proposed, RefusedError
from ckptdoctor.serving import LoadPlan
from ckptdoctor.serving.compat import id_places
from ckptdoctor.serving.layers.provenance import Provenance
from ckptdoctor.serving.layers.training import default_shape, trained_boundaries
from ckptdoctor.unknown import Unknown

__all__ = ["propose"]

_SUBJECT = "the captured layers"
"""The same for all engines: numbers that were translated once are not read in the trainer's way a second time."""


def propose(case: Case) -> Proposed:
    """`plan.fitting` in every place that names the layers.

    Only where a single reading of the trained layers is left, and the plans of all named releases bear the change out.
    """
    found = next((i for i, p in enumerate(case.plans) if f"{p.engine}=={p.version}" in case.finding_engines), None)
    if found is None:
        raise RefusedError("unnamed")
    plan = case.plans[found]
    if not plan.capture_causes or (plan.errors and plan.errors[0].about != "layers"):
        raise RefusedError("not_ids", engine=plan.label)
    if not plan.trained_certain or plan.trained is None:
        raise RefusedError("open", engine=plan.label, because=plan.wiring.get("trained_because", ""))
    if plan.fitting is None:
        raise RefusedError("unreachable", engine=plan.label, trained=plan.trained)
    if case.facts.draft.block and len(case.facts.draft.aux.sources) > 1:
        raise RefusedError("several", places=[s.key for s in case.facts.draft.aux.sources])
    there = tuple(dict.fromkeys(s.key for s in case.facts.draft.aux.sources))
    for places in (there, (*there, *(p for p in id_places(case.facts) or () if p not in there))):
        edits = tuple(SetConfig(place, list(plan.fitting)) for place in places)
        # What was said of the training is said of the numbers as they were; the new ones are the named release's.
        contract, release = case.engines[found]
        after = replace(case, provenance=Provenance(None, (contract.engine, release), written_for=True)).plans_after(
            edits
        )
        if not edits or not _right(after[found], plan):
            continue
        _check_others(after, case.plans, plan)
        _check_copy(case, edits, plan)
        return Proposed(edits, subject=_SUBJECT)
    raise RefusedError("unreachable", engine=plan.label, trained=plan.trained)


def _right(after: LoadPlan, before: LoadPlan) -> bool:
    """Whether every phase captures the layers that were trained, by the reading of the ids as they were."""
    seen = [b for b in after.captured.values() if b is not None]
    return after.outcome != "refused" and bool(seen) and all(b == before.trained for b in seen)


def _check_others(plans: Sequence[LoadPlan], as_they_were: Sequence[LoadPlan], plan: LoadPlan) -> None:
    """Refuse what is right for one named release and wrong for another."""
    for after, before in zip(plans, as_they_were, strict=True):
        captures = any(b is not None for b in before.captured.values()) and before.outcome != "refused"
        if (captures and not _right(after, before)) or after.outcome.worth < before.outcome.worth:
            raise RefusedError("split", first=plan.label, second=before.label)


def _check_copy(case: Case, edits: tuple[SetConfig, ...], plan: LoadPlan) -> None:
    """Refuse numbers which, once written, could only be read as other layers, or look like the default of others."""
    facts = case.after(edits)
    alone, depth = trained_boundaries(facts), facts.draft.aux.depth
    looks_default = not isinstance(depth, Unknown) and alone.boundaries == default_shape(depth)
    if (alone.certain or looks_default) and alone.boundaries not in (None, plan.trained):
        raise RefusedError("misread", engine=plan.label)
