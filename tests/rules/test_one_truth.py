"""One report, one truth: no finding says of an engine what the plan of that engine in the same report denies.

What a rule says of engines stands in its `claims`. The plans as they were simulated are compared with them, and so is
what a report shows (ckptdoctor/claims.py makes the two agree where a rule knows more than a plan).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builder import counts_file, other_copy
from recipe_cases import RECIPES, SHARED, Built, need_torch, recipe_params

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.claims import claimed, of_plans, of_ranges
from ckptdoctor.examining import doubts
from ckptdoctor.facts import describe, read_target
from ckptdoctor.findings import Claim, Confidence, Finding, ServingRange, Severity
from ckptdoctor.planning import chosen_engines
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.report.plan.as_json import plan_data
from ckptdoctor.rulebook import judge, judge_plans
from ckptdoctor.scanning import what_is_asked
from ckptdoctor.serving import LoadPlan, contracts, load_plan
from ckptdoctor.serving.contract.contracts import Release

NEWEST = ("sglang", "vllm")
FAMILIES_BEYOND_PLANS = ("VAL", "LCH")
"""Values of weights, and the launch line: no plan looks at them, so a report goes by the finding."""
BEYOND_PLANS = {
    "VOC005", "VOC011", "VOC016", "VOC038", "VOC040", "VOC041", "VOC042", "VOC044", "VOC045",  # maps and heads
    "BLK002", "BLK005", "BLK006", "BLK007", "BLK009", "BLK010", "BLK011", "BLK034", "BLK036",  # masks, blocks
    "ART014", "ART017", "ART043",  # which of two copies is read
    "AUX001", "AUX003", "AUX009", "QNT020",  # which list a release reads, the training, the target
}  # fmt: skip
"""Rules that know worse of an engine than its plan can."""
NOT_PLANNED_YET = {"BLK018", "BLK022", "ROP009", "VOC013"}
"""Rules that know worse of an engine than its plan does, and that a contract could say."""


def judged(folder: Path, target: Path | None, engines: tuple[str, ...], **asks: Any) -> tuple[Any, list[Finding]]:
    """The plans of the named and of the newest releases, as simulated, and all findings."""
    known = read_target(str(target)) if target is not None else None
    asked = what_is_asked(
        [str(folder)], known, asks.get("launch"), asks.get("counts"), asks.get("deep", False), asks.get("against")
    )
    facts = describe(open_checkpoint(str(folder)), known, asked=asked)
    found = judge(rulebook(), facts.roots(), facts.uncertain)
    chosen = chosen_engines(list(dict.fromkeys((*engines, *NEWEST))))
    plans = [load_plan(facts, contract, release, asked.launch) for contract, release, _ in chosen]
    labelled = [(f"{plan.engine}=={plan.version}", plan, doubts(facts, plan)) for plan in plans]
    return plans, [*found.findings, *judge_plans(rulebook(), facts.roots(), labelled).findings]


def denied(plans: list[LoadPlan], findings: list[Finding]) -> list[str]:
    """Each finding that claims worse of an engine than its plan says, as simulated."""
    said = []
    for plan in plans:
        release = Release(contracts()[plan.engine], plan.version)
        for finding in findings:
            beyond = finding.rule.startswith(FAMILIES_BEYOND_PLANS) or finding.rule in BEYOND_PLANS | NOT_PLANNED_YET
            outcome, _ = claimed([finding], release, plan.outcome)
            if outcome != plan.outcome != "unknown" and not beyond:
                said.append(
                    f"{finding.rule} claims {outcome} of {plan.label}, planned {plan.outcome}: {finding.message}"
                )
    return said


def silent(plans: list[LoadPlan], findings: list[Finding]) -> list[str]:
    """Each release that stops or accepts nothing, as simulated, and of which no finding says anything."""
    loud = [f for f in findings if f.severity is not Severity.NOTE]
    return [
        f"{plan.label} is {plan.outcome} ({next(iter(plan.reasons), '')}), and no finding says so"
        for plan in plans
        if plan.outcome in ("refused", "broken")
        and not any(not f.engines or f"{plan.engine}=={plan.version}" in f.engines for f in loud)
    ]


def shown_better(plans: list[LoadPlan], findings: list[Finding]) -> list[str]:
    """Each finding that claims worse of an engine than the report shows of it."""
    shown = of_plans([plan_data(plan) for plan in plans], findings)
    releases = [Release(contracts()[p["engine"]], p["version"]) for p in shown]
    return [
        f"{finding.rule} of {plan['engine']} {plan['version']}: {plan['outcome']}"
        for plan, release in zip(shown, releases, strict=True)
        for finding in findings
        if claimed([finding], release, plan["outcome"])[0] != plan["outcome"]
    ]


def agree(plans: list[LoadPlan], findings: list[Finding]) -> None:
    assert denied(plans, findings) == []
    assert silent(plans, findings) == []
    assert shown_better(plans, findings) == []


@pytest.mark.parametrize("recipe", recipe_params())
def test_a_recipe(recipe: Any, built: Built) -> None:
    folder = built.path(recipe)
    target = folder / "target" if recipe.target is not None else None
    counts = str(counts_file(folder)) if recipe.token_counts is not None else None
    against = str(other_copy(folder)) if recipe.against is not None else None
    agree(
        *judged(folder, target, recipe.engines, launch=recipe.launch, counts=counts, deep=recipe.deep, against=against)
    )


def shared() -> list[object]:
    """The drafts beside the checkout."""
    folders = [p for name in ("cases/inputs", "drafts") if (SHARED / name).is_dir() for p in (SHARED / name).iterdir()]
    found = [pytest.param(p, id=p.name, marks=[pytest.mark.shared]) for p in sorted(folders) if p.is_dir()]
    return found or [pytest.param(SHARED, id="absent", marks=[pytest.mark.skip(reason=f"{SHARED} is not there")])]


@pytest.mark.parametrize("folder", shared())
def test_a_draft_of_others(folder: Path) -> None:
    if list(folder.glob("*.bin")) or list(folder.glob("*.pt")):
        need_torch()
    target = folder / "target"
    agree(*judged(folder, target if target.is_dir() else None, ()))


def finding(*claims: Claim, confidence: Confidence = Confidence.CERTAIN, engines: tuple[str, ...] = ()) -> Finding:
    severity = Severity.ERROR if confidence is Confidence.CERTAIN else Severity.WARNING
    return Finding(
        "ROP009", "a-name", severity, confidence, "It is so.", "Stops.", "Mend it.", engines=engines, claims=claims
    )


@pytest.mark.parametrize(
    ("claim", "confidence", "planned", "shown"),
    [
        (Claim("refused", ("vllm",)), Confidence.CERTAIN, "served", "refused"),
        (Claim("refused", ("vllm",)), Confidence.LIKELY, "served", "unknown"),
        (Claim("refused", ("vllm",), sure=False), Confidence.CERTAIN, "served", "unknown"),
        (Claim("degraded", ("vllm",)), Confidence.CERTAIN, "broken", "broken"),
        (Claim("broken", ("vllm",)), Confidence.CERTAIN, "unknown", "broken"),
        (Claim("broken", ("vllm",)), Confidence.LIKELY, "unknown", "unknown"),
        (Claim("refused", ("sglang",)), Confidence.CERTAIN, "served", "served"),
        (Claim("refused"), Confidence.CERTAIN, "served", "refused"),
        (Claim("refused", ("vllm",), since="0.34.0"), Confidence.CERTAIN, "served", "served"),
        (Claim("refused", ("vllm",), until="0.33.0"), Confidence.CERTAIN, "served", "served"),
        (Claim("refused", ("vllm",), since="0.25.0"), Confidence.CERTAIN, "degraded", "refused"),
    ],
)
def test_what_a_claim_makes_of_a_plan(claim: Claim, confidence: Confidence, planned: str, shown: str) -> None:
    release = Release(contracts()["vllm"], "0.33.0")
    outcome, reason = claimed([finding(claim, confidence=confidence)], release, planned)
    assert outcome == shown
    assert reason == (None if shown == planned else "ROP009: It is so")


def test_a_finding_of_one_release_says_nothing_of_others() -> None:
    said = finding(Claim("refused"), engines=("vllm==0.22.0",))
    assert claimed([said], Release(contracts()["vllm"], "0.33.0"), "served") == ("served", None)
    assert claimed([said], Release(contracts()["vllm"], "0.22.0"), "served")[0] == "refused"


def test_a_range_is_cut_where_a_finding_speaks_of_a_part() -> None:
    rows = (
        ServingRange("vllm", "vLLM", "0.22.0", "0.33.0", True, "served", ""),
        ServingRange("sglang", "SGLang", "0.5.23", "0.5.23", True, "served", ""),
    )
    cut = of_ranges(rows, [finding(Claim("refused", ("vllm",), since="0.25.0", until="0.31.0"))])
    assert [(r.engine, r.first, r.outcome, r.is_newest) for r in cut] == [
        ("vllm", "0.22.0", "served", False),
        ("vllm", "0.25.0", "refused", False),
        ("vllm", "0.31.0", "served", True),
        ("sglang", "0.5.23", "served", True),
    ]
    assert of_ranges(rows, [finding()]) == rows


def test_claims_name_engines_and_releases_that_there_are() -> None:
    for rule in rulebook():
        for plan in rule.claims:
            for engine in plan.claim.engines:
                known = contracts()[engine].releases
                assert {plan.claim.since, plan.claim.until} - {None} <= set(known), rule.id


def test_the_rules_that_are_let_off_are_rules_with_claims() -> None:
    with_claims = {rule.id for rule in rulebook() if rule.claims}
    assert with_claims >= BEYOND_PLANS | NOT_PLANNED_YET
    assert RECIPES
