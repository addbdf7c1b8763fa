"""Rules of scope serving: judged once per plan, named by engine and release, as sure as the contract behind them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from story_drafts import TRAINERS, draft, facts_of, plan, target

from ckptdoctor.facts import Facts
from ckptdoctor.findings import Confidence, Examination, Finding, Severity, Skip
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.rulebook import Judgement, RuleBook, judge_plans
from ckptdoctor.scanning import scan
from ckptdoctor.serving import LoadPlan
from ckptdoctor.serving.plan import RESTS_ON

SERVING = {rule.id for rule in rulebook() if rule.scope == "serving"}
NOTHING_KNOWN: dict[str, Confidence] = {}


def house(folder: Path, *rules: dict[str, Any]) -> RuleBook:
    """The shipped rules with rules of a house."""
    folder.mkdir()
    texts = {
        "scope": "serving", "severity": "error", "effect": "As the message says.", "advice": "None.",
        "examples": {"bad": ["story"], "good": ["served"]},
    }  # fmt: skip
    named = [{"id": f"HOUSE{i:03}", "name": f"house-rule-{i}", **texts, **rule} for i, rule in enumerate(rules, 1)]
    (folder / "house.yaml").write_text(json.dumps(named), encoding="utf-8")
    return rulebook((folder,))


def judged(facts: Facts, plans: Sequence[LoadPlan], rules: RuleBook) -> Judgement:
    return judge_plans(rules, facts.roots(), [(f"{p.engine}=={p.version}", p, NOTHING_KNOWN) for p in plans])


def serving(examination: Examination) -> list[Finding]:
    return [f for f in examination.findings if f.rule in SERVING]


def examined(name: str, *engines: str, known: bool = True, rules: Sequence[Path] = ()) -> Examination:
    folder = TRAINERS / name
    return scan(folder, target=folder / "target" if known else None, engines=engines, rules=rules)


@pytest.fixture
def story(tmp_path: Path) -> Facts:
    """The flat draft of a 61-layer target."""
    of = target(tmp_path / "target", "DeepseekV3ForCausalLM", 61, "deepseek_v3")
    return facts_of(draft(tmp_path / "draft", [2, 30, 58]), of)


def test_there_are_rules_of_scope_serving() -> None:
    assert {
        "SRV001",
        "SRV002",
        "SRV003",
        "KEY017",
        "KEY018",
        "AUX013",
        "AUX014",
        "AUX015",
        "AUX016",
        "GEO016",
    } <= SERVING


@pytest.mark.parametrize("name", ["mo_eagle3_llama", "spec_eagle3_llama", "sf_peagle_qwen3"])
def test_without_an_engine_no_plan_is_judged(name: str) -> None:
    examination = examined(name)
    assert serving(examination) == []
    assert examination.plans == ()
    assert [s for s in examination.skipped if s.rule in SERVING] == []
    assert {f.engines for f in examination.findings} <= {()}


def test_each_plan_is_judged_and_named_by_engine_and_release() -> None:
    found = serving(examined("mo_eagle3_llama", "sglang==0.5.11", "sglang==0.5.23", "sglang==0.5.4"))
    assert [(f.rule, f.severity, f.engines) for f in found] == [
        ("KEY017", Severity.ERROR, ("sglang==0.5.11",)),
        ("KEY017", Severity.ERROR, ("sglang==0.5.4",)),
    ]
    for finding in found:
        assert finding.engines[0].replace("==", " ") in finding.message


def test_an_engine_without_a_release_is_its_newest() -> None:
    newest = examined("spec_eagle3_llama", "sglang").plans[0]["version"]
    assert [f.engines for f in serving(examined("spec_eagle3_llama", "sglang"))] == [(f"sglang=={newest}",)]


def test_other_findings_name_no_engine() -> None:
    examination = examined("mo_eagle3_llama", "sglang==0.5.11")
    others = [f for f in examination.findings if f.rule not in SERVING]
    assert others
    assert {f.engines for f in others} == {()}


def test_the_findings_of_the_founding_story(story: Facts) -> None:
    plans = [plan(story, release, trained_with="speculators") for release in ("0.5.9", "0.5.12", "0.5.13")]
    found = judged(story, plans, rulebook()).findings
    assert sorted((f.rule, f.engines) for f in found) == [
        ("AUX016", ("sglang==0.5.12",)),
        ("AUX016", ("sglang==0.5.9",)),
        ("KEY017", ("sglang==0.5.9",)),
    ]
    messages = {(f.rule, f.engines[0]): f.message for f in found}
    assert "captures boundaries [3, 31, 59]; trained on [2, 30, 58]" in messages["AUX016", "sglang==0.5.12"]
    assert "in extend and verify" in messages["AUX016", "sglang==0.5.9"]
    assert "leaves 4 parameters of 11 at initial values" in messages["KEY017", "sglang==0.5.9"]


def test_the_algorithm_of_the_launch_line_is_judged(story: Facts) -> None:
    line = "python -m sglang.launch_server --speculative-algorithm EAGLE"
    found = judged(
        story,
        [plan(story, "0.5.13", line, trained_with="speculators"), plan(story, "0.5.13", trained_with="speculators")],
        rulebook(),
    ).findings
    assert [(f.rule, f.severity, f.engines) for f in found] == [("GEO016", Severity.ERROR, ("sglang==0.5.13",))]


def test_a_refused_plan_is_judged_by_its_errors_alone(story: Facts, tmp_path: Path) -> None:
    of = target(tmp_path / "kimi", "KimiK25ForConditionalGeneration", 61, "deepseek_v3", wrapped_as="kimi_k25")
    refused = plan(facts_of(tmp_path / "draft", of), "0.5.9", trained_with="speculators")
    assert {c.kind for c in refused.causes} >= {"parameters_left", "shifted_layers"}
    found = judged(story, [refused], rulebook()).findings
    assert [f.rule for f in found] == ["SRV004"]
    assert found[0].message == (
        "sglang 0.5.9 stops at the start: KimiK25ForConditionalGeneration cannot pass captured states on before SGLang "
        "0.5.10."
    )


def test_the_same_finding_of_several_plans_is_one_that_names_them(story: Facts, tmp_path: Path) -> None:
    rules = house(
        tmp_path / "rules",
        {"when": "plan.outcome in ['broken', 'degraded']", "message": "Not as trained."},
        {"when": "plan.outcome in ['broken', 'degraded']", "message": "Not as trained in {plan.version}."},
    )
    releases = ("0.5.12", "0.5.9", "0.5.13", "0.5.12.post1")
    found = judged(story, [plan(story, r, trained_with="speculators") for r in releases], rules).findings
    assert [f.engines for f in found if f.rule == "HOUSE001"] == [
        ("sglang==0.5.12", "sglang==0.5.9", "sglang==0.5.12.post1")
    ]
    assert {f.engines for f in found if f.rule == "HOUSE002"} == {
        ("sglang==0.5.12",), ("sglang==0.5.9",), ("sglang==0.5.12.post1",)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("confidence", "severity"),
    [(None, "error"), (Confidence.LIKELY, "warning"), (Confidence.POSSIBLE, "note")],
)
def test_what_a_plan_is_not_sure_of_lowers_the_severity(
    story: Facts, confidence: Confidence | None, severity: str
) -> None:
    doubts = {} if confidence is None else {"plan.left_over": confidence}
    found = judge_plans(
        rulebook(), story.roots(), [("sglang==0.5.9", plan(story, "0.5.9", trained_with="speculators"), doubts)]
    ).findings
    by_rule = {f.rule: f for f in found}
    assert by_rule["KEY017"].severity.value == severity
    assert by_rule["KEY017"].confidence is (confidence or Confidence.CERTAIN)
    # A fact that the other finding does not read does not touch it.
    assert by_rule["AUX016"].confidence is Confidence.CERTAIN


def test_doubt_of_one_plan_is_no_doubt_of_another(story: Facts) -> None:
    plans = [
        ("sglang==0.5.9", plan(story, "0.5.9", trained_with="speculators"), {"plan.left_over": Confidence.LIKELY}),
        ("sglang==0.5.11", plan(story, "0.5.11", trained_with="speculators"), NOTHING_KNOWN),
    ]
    found = judge_plans(rulebook(), story.roots(), plans).findings
    assert {f.engines: f.severity.value for f in found if f.rule == "KEY017"} == {
        ("sglang==0.5.9",): "warning",
        ("sglang==0.5.11",): "error",
    }


def test_the_same_words_with_another_confidence_are_two_findings(story: Facts, tmp_path: Path) -> None:
    rules = house(tmp_path / "rules", {"when": "len(plan.left_random) > 0", "message": "Something is left random."})
    plans = [
        ("sglang==0.5.9", plan(story, "0.5.9", trained_with="speculators"), {"plan.left_random": Confidence.LIKELY}),
        ("sglang==0.5.11", plan(story, "0.5.11", trained_with="speculators"), NOTHING_KNOWN),
    ]
    found = [f for f in judge_plans(rules, story.roots(), plans).findings if f.rule == "HOUSE001"]
    assert [(f.severity.value, f.engines) for f in found] == [
        ("error", ("sglang==0.5.11",)),
        ("warning", ("sglang==0.5.9",)),
    ]


def test_an_entry_that_was_only_read_makes_an_error_a_warning() -> None:
    found = serving(examined("spec_eagle3_llama", "sglang==0.5.9", "lmdeploy"))
    assert [(f.rule, f.severity.value, f.confidence.value, f.engines) for f in found] == [
        ("SRV001", "error", "certain", ("sglang==0.5.9",)),
        ("SRV001", "warning", "likely", ("lmdeploy==undated",)),
    ]


def test_a_plan_says_whether_its_loading_was_executed(story: Facts) -> None:
    assert plan(story, "0.5.9", trained_with="speculators").loading_executed
    found = examined("mo_eagle3_llama", "openvino", known=False)
    assert [(f.severity.value, f.confidence.value) for f in serving(found)] == [("warning", "likely")]


def test_a_skipped_rule_is_listed_once_with_what_it_needs(tmp_path: Path) -> None:
    house(
        tmp_path / "rules",
        {"when": "target.num_layers > 3", "message": "Deep."},
        {"when": "plan.outcome == 'no' and target.num_layers > 3", "message": "Deep."},
    )
    engines = ("sglang==0.5.11", "sglang==0.5.23", "vllm")
    without = examined("mo_eagle3_llama", *engines, known=False, rules=[tmp_path / "rules"])
    assert [s for s in without.skipped if s.rule.startswith("HOUSE")] == [
        Skip("HOUSE001", "the target (--target PATH)")
    ]
    assert [f for f in without.findings if f.rule.startswith("HOUSE")] == []
    known = examined("mo_eagle3_llama", *engines, rules=[tmp_path / "rules"])
    assert [s for s in known.skipped if s.rule.startswith("HOUSE")] == []
    assert [len(f.engines) for f in known.findings if f.rule == "HOUSE001"] == [3]


def test_a_rule_skipped_for_one_plan_is_judged_for_another(story: Facts, tmp_path: Path) -> None:
    condition = "plan.outcome == 'broken' or target.num_layers == 0"
    rules = house(tmp_path / "rules", {"when": condition, "message": "Broken."})
    bare = facts_of(tmp_path / "draft", None)
    plans = [plan(story, "0.5.13", trained_with="speculators"), plan(story, "0.5.9", trained_with="speculators")]
    rest = rules.select(["HOUSE001"], [])
    found = judge_plans(rest, bare.roots(), [(p.version, p, NOTHING_KNOWN) for p in plans])
    assert [f.engines for f in found.findings] == [("0.5.9",)]
    assert [s.rule for s in found.skipped] == ["HOUSE001"]


def test_no_plans_no_findings(story: Facts) -> None:
    assert judged(story, [], rulebook()) == Judgement((), ())


def test_every_fact_of_a_plan_says_what_it_rests_on() -> None:
    facts = {f.name for f in fields(LoadPlan)} | {
        n for n, v in vars(LoadPlan).items() if isinstance(v, (property, cached_property))
    }
    told = [name for names in RESTS_ON.values() for name in names]
    assert sorted(told) == sorted(facts)
