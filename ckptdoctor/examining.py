"""The examination, from a path to a survey: open, describe, simulate, judge. What may be done about it comes later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ckptdoctor.checkpoint import Checkpoint, open_checkpoint
from ckptdoctor.checkpoint.remote import RemoteError, at_hub, remote_at
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.everywhere import Everywhere, everywhere
from ckptdoctor.facts import FACT_NAMES, Facts, Target, describe
from ckptdoctor.facts.asked import NOTHING_ASKED, Asked
from ckptdoctor.findings import Confidence, Finding, ServingRange
from ckptdoctor.planning import Chosen, better_releases, newest_plans, serving_block
from ckptdoctor.rulebook import Judgement, Rule, RuleBook, judge, judge_plans
from ckptdoctor.serving import LoadPlan, load_plan
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance
from ckptdoctor.serving.plan import RESTS_ON
from ckptdoctor.text import show

__all__ = ["RULE_NAMES", "Survey", "doubts", "examine", "survey"]

RULE_NAMES = {**FACT_NAMES, "plan": LoadPlan, "everywhere": Everywhere}
"""The roots of expressions in rules; `plan` only in rules of scope `serving`, `everywhere` in those of that scope."""


@dataclass(frozen=True)
class Survey:
    """What is known of one checkpoint before anything is reported.

    `plans` are those of the releases that were named. Of a whole examination also: `serving`, how all releases serve
    the draft where none was named; `unserved`, what is found of all of them together; `newest`, the plans of the newest
    ones where pictures were asked for.
    """

    checkpoint: Checkpoint
    facts: Facts
    plans: tuple[LoadPlan, ...]
    judgement: Judgement
    serving: tuple[ServingRange, ...] = ()
    unserved: tuple[Finding, ...] = ()
    newest: tuple[LoadPlan, ...] = ()


def survey(
    checkpoint: Checkpoint,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    engines: Sequence[Chosen] = (),
    asked: Asked = NOTHING_ASKED,
    provenance: Provenance = NOTHING_SAID,
) -> Survey:
    """Describe, simulate and judge `checkpoint` for the releases `engines`. Never raises for any content."""
    facts = describe(checkpoint, target, asked=asked)
    judgement = judge(rules, facts.roots(), facts.uncertain)
    plans = [load_plan(facts, contract, release, asked.launch, provenance) for contract, release, _ in engines]
    plans = [better_releases(facts, plan, asked.launch, provenance) for plan in plans]
    served = judge_plans(rules, facts.roots(), [(f"{p.engine}=={p.version}", p, doubts(facts, p)) for p in plans])
    together = Judgement(
        tuple(sorted((*judgement.findings, *served.findings), key=lambda f: (-f.severity.rank, f.rule))),
        (*judgement.skipped, *served.skipped),
        (*judgement.faults, *served.faults),
    )
    return Survey(checkpoint, facts, tuple(plans), together)


def examine(
    path: str,
    target: Target | None,
    rules: Sequence[Rule] | RuleBook,
    engines: Sequence[Chosen] = (),
    asked: Asked = NOTHING_ASKED,
    illustrated: bool = False,
    provenance: Provenance = NOTHING_SAID,
) -> Survey:
    """Open the checkpoint at `path` and survey it, for these releases or else for all. Raises `CannotExamineError`.

    `illustrated` asks for the whole plans of the newest releases, too, where no engine is named.
    """
    if asked.deep:
        _refuse_values_from_afar(path, target)
    try:
        found = survey(open_checkpoint(path, remote=True), target, rules, engines, asked, provenance)
    except RemoteError as error:
        raise CannotExamineError(str(error)) from None
    facts = found.facts
    serving = () if found.plans else serving_block(facts, asked.launch, provenance)
    overall = everywhere(facts, serving, found.judgement.findings, asked.launch, provenance)
    unserved = judge(rules, {**facts.roots(), "everywhere": overall}, facts.uncertain, "everywhere")
    newest = newest_plans(facts, asked.launch, provenance) if illustrated and not found.plans else ()
    judged = replace(found.judgement, faults=(*found.judgement.faults, *unserved.faults))
    return replace(found, judgement=judged, serving=serving, unserved=unserved.findings, newest=newest)


def _refuse_values_from_afar(path: str, target: Target | None) -> None:
    for place in (path, *([target.path] if target is not None else [])):
        if at_hub(place):
            command = f"hf download {show(place[5:].partition('@')[0])} --local-dir FOLDER"
            why = "values of weights (--deep, --against) are not read over the network"
            raise CannotExamineError(f"{show(place)}: {why}; download it first ({command})")
    there = remote_at(Path(path))
    if there is not None and any(name.endswith((".safetensors", ".bin")) for name in there.names):
        why = "values of weights (deep) are not read over the network"
        raise CannotExamineError(f"{there.told}: {why}; upload the whole draft in one commit")


def doubts(facts: Facts, plan: LoadPlan) -> dict[str, Confidence]:
    """Facts of a plan that rest on contract entries which were read and not executed."""
    found = dict(facts.uncertain)
    executed = {
        "loading": plan.loading_executed,
        "capture": plan.capture_executed,
        "wiring": plan.wiring_executed,
        "everything": plan.executed,
    }
    for part, sure in executed.items():
        if not sure:
            found |= {f"plan.{name}": Confidence.LIKELY for name in RESTS_ON[part]}
    return found
