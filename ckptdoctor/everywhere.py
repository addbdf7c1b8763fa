"""How all known releases serve a draft, as one fact for rules: is there any that serves it as trained?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ckptdoctor.facts import Facts
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.findings import Finding, ServingRange, Severity
from ckptdoctor.launch.line import Launch
from ckptdoctor.planning import newest_plans, other_ranges
from ckptdoctor.serving import LoadPlan
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance

__all__ = ["Everywhere", "everywhere"]


@dataclass(frozen=True)
class Everywhere:
    """All known releases together, where no engine is named.

    `unserved`: no known release serves the draft, not even degraded, and of none of the main engines that is open.
    `told`: other findings say what is wrong with it. `engines` are the names of the main engines, `newest` is what the
    newest release of each does, with the first reason. `not_known` names the other engines of which nobody knows.
    `by_class`: in no main engine a value of the config, or the target, is in the way, so that the draft itself is what
    nobody serves: its class, or its format. `converted`: its trainer writes this kind of
    draft in a form of its own, which is converted before it is served.
    """

    unserved: bool
    told: bool
    engines: tuple[str, ...]
    newest: tuple[str, ...]
    not_known: tuple[str, ...]
    by_class: bool = False
    converted: bool = False


def everywhere(
    facts: Facts,
    rows: Sequence[ServingRange],
    findings: Sequence[Finding],
    launch: Launch | None,
    provenance: Provenance = NOTHING_SAID,
) -> Everywhere:
    """The fact, from the ranges of the main engines (`rows`; empty where none apply) and what else was found."""
    outcomes = {row.outcome for row in rows}
    unserved = bool(rows) and not outcomes & {"served", "degraded", "unknown"}
    others = other_ranges(facts, launch, provenance) if unserved else ()
    return Everywhere(
        unserved=unserved and all(row.outcome not in ("served", "degraded") for row in others),
        told=any(f.severity in (Severity.ERROR, Severity.WARNING) for f in findings),
        engines=tuple(dict.fromkeys(row.name for row in rows)),
        newest=tuple(f"{row.name} {row.last}: {row.reason or row.outcome}" for row in rows if row.is_newest),
        not_known=tuple(dict.fromkeys(row.name for row in others if row.outcome == "unknown")),
        by_class=unserved and all(_by_class(plan) for plan in newest_plans(facts, launch, provenance)),
        converted=_is_converted(facts),
    )


def _by_class(plan: LoadPlan) -> bool:
    return plan.other_class or any(e.stage == "class" or e.about == "format" for e in plan.errors[:1])


def _is_converted(facts: Facts) -> bool:
    writer = knowledge().writers.get(facts.draft.writer.id)
    kinds = writer.conventions.get("converted", ()) if writer is not None else ()
    return facts.draft.algorithm in kinds or facts.draft.variant in kinds
