"""One draft over all known releases: releases with the same answer folded into ranges, and ids that would fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ckptdoctor.checkpoint import JsonDocument
from ckptdoctor.facts import Facts
from ckptdoctor.facts.config import Config, with_value
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.launch.line import Launch
from ckptdoctor.serving.contract.contracts import Contract, contracts
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance
from ckptdoctor.serving.plan import LoadPlan
from ckptdoctor.serving.simulate import load_plan

__all__ = ["Range", "compatibility", "fitting_ids", "id_places"]

IDS_KEY = "eagle_aux_hidden_state_layer_ids"


@dataclass(frozen=True)
class Range:
    """Consecutive known releases of one engine with the same answer. `plan` is that of the newest of them."""

    engine: str
    name: str
    first: str
    last: str
    is_newest: bool
    plan: LoadPlan

    @property
    def span(self) -> str:
        """`0.5.12 and later`, `0.4.9 to 0.5.11` or `0.5.9`."""
        if self.first == self.last:
            return self.first
        return f"{self.first} and later" if self.is_newest else f"{self.first} to {self.last}"


def compatibility(
    facts: Facts,
    engines: Iterable[str] | None = None,
    launch: Launch | None = None,
    provenance: Provenance = NOTHING_SAID,
) -> tuple[Range, ...]:
    """The answers of all known releases (of the named engines), oldest first, folded into ranges."""
    known = contracts()
    found: list[Range] = []
    for engine in engines if engines is not None else known:
        contract = known[engine]
        plans = [load_plan(facts, contract, version, launch, provenance) for version in contract.releases]
        found += _fold(contract, plans)
    return tuple(found)


def _fold(contract: Contract, plans: Sequence[LoadPlan]) -> list[Range]:
    ranges: list[Range] = []
    for plan in plans:
        newest = plan.version == contract.newest
        if ranges and _answer(ranges[-1].plan) == _answer(plan):
            ranges[-1] = replace(ranges[-1], last=plan.version, plan=plan, is_newest=newest)
        else:
            ranges.append(Range(contract.engine, contract.name, plan.version, plan.version, newest, plan))
    return ranges


def _answer(plan: LoadPlan) -> tuple[object, ...]:
    """What makes two releases the same for a person: outcome, reasons, and what is captured.

    No reason names its release: it would be another one in the next. Where the start is refused, nothing is captured,
    whatever would be.
    """
    captured = () if plan.outcome == "refused" else tuple(sorted(plan.captured.items(), key=lambda item: item[0]))
    return plan.outcome, plan.reasons, captured, () if plan.outcome == "refused" else plan.unproven


def fitting_ids(
    facts: Facts, contract: Contract, version: str, boundaries: Sequence[int], launch: Launch | None = None
) -> tuple[int, ...] | None:
    """The ids that make this release capture `boundaries` in every phase, checked by planning them; None if none do.

    Candidates are the boundaries themselves and the layers before them.
    """
    for candidate in (tuple(boundaries), tuple(b - 1 for b in boundaries)):
        changed = _with_ids(facts, candidate)
        if changed is None:
            return None
        plan = load_plan(changed, contract, version, launch)
        captured = {p: b for p, b in plan.captured.items() if b is not None}
        if captured and plan.outcome != "refused" and all(b == tuple(boundaries) for b in captured.values()):
            return candidate
    return None


def _with_ids(facts: Facts, ids: Sequence[int]) -> Facts | None:
    """The same draft with these ids in the places that engines read; None for a block drafter that has no place.

    For block drafters that is the place that has the ids now, for all others the nested and the outer one.
    """
    places = id_places(facts)
    if places is None:
        return None
    document = facts.config.document
    value = dict(document.object) if document is not None else {}
    for place in places:
        value = with_value(value, place.split("."), list(ids))
    return replace(facts, config=Config(JsonDocument("config.json", value, True), knowledge()))


def id_places(facts: Facts) -> tuple[str, ...] | None:
    """The places where engines read ids: of a block drafter the one that has them (None without one), else both."""
    if facts.draft.block:
        return None if facts.draft.aux.key is None else (facts.draft.aux.key,)
    return IDS_KEY, f"eagle_config.{IDS_KEY}"
