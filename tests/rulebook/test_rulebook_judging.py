"""Judging: what fires, what is skipped, how sure it is, and in which order it is told."""

from __future__ import annotations

from typing import Any

import pytest
from toyfacts import NEEDS_TARGET, Aux, Layer, Linear, Target, facts, rule

from ckptdoctor.findings import Confidence, Finding, Fix, Location, Severity, Skip
from ckptdoctor.rulebook import RuleEvaluationError, RuleFileError, judge
from ckptdoctor.rulebook.rules import Rule, rule_from_mapping
from ckptdoctor.unknown import Unknown

LIKELY, POSSIBLE, CERTAIN = Confidence.LIKELY, Confidence.POSSIBLE, Confidence.CERTAIN


def fired(changed: Rule, **draft: Any) -> list[str]:
    return [finding.message for finding in judge([changed], facts(Target(), **draft)).findings]


def one(uncertain: dict[str, Confidence], **changes: Any) -> Finding:
    (finding,) = judge([rule(**changes)], facts(Target()), uncertain).findings
    return finding


FC_WIDTH = {
    "id": "GEO002",
    "name": "fc-input-width",
    "when": "draft.algorithm == 'eagle3' and draft.fc is not None",
    "assert": "draft.fc.in_features == draft.aux.claimed * target.hidden_size",
    "message": "fc.weight takes {draft.fc.in_features} inputs; {draft.aux.claimed} captured layers of a "
    "{target.hidden_size}-wide target give {draft.aux.claimed * target.hidden_size}.",
    "effect": "SGLang and vLLM stop with a shape error while loading",
    "advice": "Use ids {draft.aux.ids}.",
    "location": {"tensor": "fc.weight", "file": "{draft.config}", "line": "draft.layers[0].line", "offset": 8},
    "evidence": {"inputs": "draft.fc.in_features", "ids": "draft.aux.ids"},
    "fix": {"treatment": "set-config", "safety": "unsafe", "summary": "sets {draft.aux.claimed} layers"},
    "seen_in": ["sgl-project/sglang#32226"],
}


def test_a_finding_is_exactly_what_the_rule_says() -> None:
    wrong = facts(Target(), fc=Linear(256, 64), config="config.json", layers=(Layer("a", line=7),))
    judgement = judge([rule(**FC_WIDTH)], wrong)
    assert judgement.skipped == ()
    assert judgement.findings == (
        Finding(
            rule="GEO002",
            name="fc-input-width",
            severity=Severity.ERROR,
            confidence=CERTAIN,
            message="fc.weight takes 256 inputs; 3 captured layers of a 64-wide target give 192.",
            effect="SGLang and vLLM stop with a shape error while loading",
            advice="Use ids [2, 30, 58].",
            location=Location(file="config.json", tensor="fc.weight", line=7, offset=8),
            evidence={"inputs": 256, "ids": [2, 30, 58]},
            fix=Fix("set-config", "sets 3 layers", "unsafe"),
            seen_in=("sgl-project/sglang#32226",),
        ),
    )


@pytest.mark.parametrize("draft", [{}, {"fc": None}, {"algorithm": "eagle", "fc": Linear(1, 1)}])
def test_nothing_fires_where_the_claim_holds_or_the_rule_does_not_apply(draft: dict[str, Any]) -> None:
    assert fired(rule(**FC_WIDTH), **draft) == []


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({"when": "True"}, 1),
        ({"when": "False"}, 0),
        ({"when": None, "assert": "True"}, 0),
        ({"when": None, "assert": "False"}, 1),
        ({"when": "False", "assert": "False"}, 0),
        ({"when": "True", "assert": "True"}, 0),
        ({"when": None, "for_each": "draft.layers"}, 3),
        ({"when": "it.width > 20", "for_each": "draft.layers"}, 2),
        ({"when": None, "assert": "it.width > 20", "for_each": "draft.layers"}, 1),
        ({"when": "it.width > 20", "assert": "it.width > 40", "for_each": "draft.layers"}, 1),
        ({"when": None, "for_each": "draft.norms"}, 0),
        ({"when": None, "for_each": "[]"}, 0),
    ],
)
def test_when_claim_and_list_work_together(changes: dict[str, Any], count: int) -> None:
    text = "{it.name}" if "for_each" in changes else "x"
    assert len(fired(rule(message=text, **changes))) == count


def test_an_unknown_fact_skips_the_rule_and_names_its_need() -> None:
    judgement = judge([rule(**FC_WIDTH), rule()], facts())
    assert judgement.skipped == (Skip("GEO002", "the target (--target)"),)
    assert [finding.rule for finding in judgement.findings] == ["TST001"]


def test_a_rule_for_another_kind_of_draft_is_not_skipped() -> None:
    assert judge([rule(**FC_WIDTH)], facts(algorithm="eagle")).skipped == ()


def test_an_unknown_item_does_not_stop_the_others() -> None:
    first, second = Unknown("the first"), Unknown("the second")
    layers = (Layer("a"), first, Layer("b", second), Layer("c"))
    judgement = judge([rule(for_each="draft.layers", when="it.width > 1", message="{it.name}")], facts(layers=layers))
    assert [finding.message for finding in judgement.findings] == ["a", "c"]
    assert judgement.skipped == (Skip("TST001", "the first"),)


def test_an_unknown_list_skips_the_rule_unless_it_would_not_apply() -> None:
    unknown = {"draft": Unknown("the draft"), "target": Target()}
    each = {"for_each": "draft.layers"}
    assert judge([rule(**each, when="it.width and True")], unknown).skipped == (Skip("TST001", "the draft"),)
    assert judge([rule(**each, when="target.layers == 0 and it.width")], unknown).skipped == ()
    assert judge([rule(**each, when="draft.depth and it.width")], unknown).skipped == (Skip("TST001", "the draft"),)


def test_conditions_on_an_unknown_fact_do_not_skip_an_empty_list() -> None:
    judgement = judge([rule(for_each="draft.layers", when="target.layers and it.width")], facts(layers=()))
    assert judgement.skipped == ()


def test_facts_too_large_for_a_rule_are_skipped_not_crashed() -> None:
    many = facts(aux=Aux(ids=tuple(range(20_000))))
    for changes in ({"when": "[i for i in draft.aux.ids]"}, {"for_each": "[i for i in draft.aux.ids]"}):
        (skip,) = judge([rule(**changes)], many).skipped
        assert "more items than the rule can go through" in skip.needs


def test_what_is_unknown_in_the_words_of_a_rule_that_fired_is_said_so() -> None:
    told = rule(
        message="{target.hidden_size} wide",
        location={"tensor": "{target.layers}", "line": "target.layers", "config_key": "a.{draft.depth}"},
        evidence={"width": "target.hidden_size", "depth": "draft.depth"},
    )
    (finding,) = judge([told], facts()).findings
    assert finding.message == "unknown wide"
    assert finding.location == Location(config_key="a.3")
    assert finding.evidence == {"depth": 3}


@pytest.mark.parametrize(
    ("uncertain", "when", "expected"),
    [
        ({}, "draft.algorithm", CERTAIN),
        ({"draft.algorithm": LIKELY}, "draft.algorithm", LIKELY),
        ({"draft.algorithm": LIKELY}, "draft.depth", CERTAIN),
        ({"draft": LIKELY}, "draft.fc.in_features", LIKELY),
        ({"draft.fc": LIKELY}, "draft.fc.in_features", LIKELY),
        ({"draft.fc.in_features": LIKELY}, "draft.fc", CERTAIN),
        ({"draft.f": LIKELY}, "draft.fc.in_features", CERTAIN),
        ({"draft.layers": LIKELY}, "draft.layers[0].name", LIKELY),
        ({"draft.layers[].name": POSSIBLE}, "[layer.name for layer in draft.layers]", POSSIBLE),
        ({"draft.algorithm": LIKELY, "target": POSSIBLE}, "draft.algorithm and target.layers", POSSIBLE),
        ({"target": POSSIBLE}, "draft.algorithm or target.layers", CERTAIN),
        ({"draft.algorithm": CERTAIN}, "draft.algorithm", CERTAIN),
    ],
)
def test_confidence_is_that_of_the_least_sure_fact_read(
    uncertain: dict[str, Confidence], when: str, expected: Confidence
) -> None:
    assert one(uncertain, when=when).confidence is expected


def test_the_claim_counts_and_the_words_do_not() -> None:
    uncertain = {"target": LIKELY}
    assert one(uncertain, **{"assert": "target.layers == 0"}).confidence is LIKELY
    assert one(uncertain, message="{target.layers}", evidence={"a": "target.layers"}).confidence is CERTAIN


@pytest.mark.parametrize(
    ("fact", "expected"),
    [("draft.layers", LIKELY), ("draft.layers[].width", LIKELY), ("draft.layers[].name", CERTAIN)],
)
def test_the_list_and_what_was_read_of_its_items_count(fact: str, expected: Confidence) -> None:
    judgement = judge([rule(for_each="draft.layers", when="it.width == 16")], facts(), {fact: LIKELY})
    assert [finding.confidence for finding in judgement.findings] == [expected]


def test_each_item_has_its_own_confidence() -> None:
    each = rule(for_each="draft.layers", when="it.name == 'a' or target.layers", message="{it.name}", severity="note")
    found = judge([each], facts(Target()), {"target": LIKELY}).findings
    assert {finding.message: finding.confidence for finding in found} == {"a": CERTAIN, "b": LIKELY, "c": LIKELY}


@pytest.mark.parametrize(
    ("confidence", "severity", "expected"),
    [
        (CERTAIN, "error", "error"),
        (LIKELY, "error", "warning"),
        (LIKELY, "warning", "warning"),
        (LIKELY, "note", "note"),
        (POSSIBLE, "error", "note"),
        (POSSIBLE, "warning", "note"),
    ],
)
def test_what_is_not_certain_is_never_an_error(confidence: Confidence, severity: str, expected: str) -> None:
    finding = one({"draft": confidence}, when="draft.depth", severity=severity)
    assert finding.severity is Severity(expected)


def test_findings_come_worst_first_then_by_rule_then_by_place() -> None:
    rules = [
        rule(id="TST004", severity="note"),
        rule(id="TST003", severity="error", for_each="draft.layers", location={"tensor": "{it.name}"}),
        rule(id="TST002", severity="error"),
        rule(id="TST001", severity="warning"),
    ]
    layers = (Layer("c"), Layer("a"), Layer("b"))
    found = judge(rules, facts(layers=layers)).findings
    assert [(finding.rule, finding.location.tensor) for finding in found] == [
        ("TST002", None),
        ("TST003", "a"),
        ("TST003", "b"),
        ("TST003", "c"),
        ("TST001", None),
        ("TST004", None),
    ]


def test_the_same_finding_is_told_once() -> None:
    assert fired(rule(for_each="draft.layers", message="the same")) == ["the same"]
    assert len(fired(rule(for_each="draft.layers", message="same", evidence={"a": "it.name"}))) == 3


def test_the_item_of_one_rule_is_not_seen_by_the_next() -> None:
    with pytest.raises(RuleEvaluationError, match="'it' is not defined"):
        judge([rule(for_each="draft.layers"), rule(id="TST002", when="it.name")], facts())


@pytest.mark.parametrize(
    "changes",
    [
        {"when": "draft.head.name"},
        {"assert": "1 / 0"},
        {"for_each": "draft.depth"},
        {"for_each": "draft.algorithm"},
        {"message": "{draft.head.name}"},
        {"message": "{"},
        {"evidence": {"a": "[][0]"}},
        {"location": {"line": "draft.algorithm"}},
        {"location": {"offset": "True"}},
        {"when": "not an expression"},
    ],
)
def test_a_rule_that_fails_is_our_fault_or_that_of_its_author(changes: dict[str, Any]) -> None:
    broken = rule(**changes)
    with pytest.raises(RuleEvaluationError, match=r"^rule TST001: ") as ours:
        judge([broken], facts(Target()))
    assert ours.value.rule == "TST001"
    theirs = rule_from_mapping({**_fields(changes)}, broken.source, 4, user=True)
    with pytest.raises(RuleFileError, match=r"^toy\.yaml, line 4: rule TST001: ") as caught:
        judge([theirs], facts(Target()))
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def _fields(changes: dict[str, Any]) -> dict[str, Any]:
    from toyfacts import fields

    return fields(**changes)


def test_foreign_text_in_a_finding_is_harmless() -> None:
    bad = rule(message="{draft.algorithm}", location={"tensor": "{draft.algorithm}"}, evidence={"a": "draft.algorithm"})
    (finding,) = judge([bad], facts(algorithm="\x1b[2J\u202e")).findings
    assert finding.message == finding.location.tensor == finding.evidence["a"] == "\\x1b[2J\\u202e"


def test_a_root_that_is_unknown_skips() -> None:
    judgement = judge([rule(when="target is None")], {"draft": None, "target": NEEDS_TARGET})
    assert judgement.skipped == (Skip("TST001", NEEDS_TARGET.needs),)


def test_an_item_that_a_rule_fails_on_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CKPTDOCTOR_STRICT")
    layers = (Layer("a"), Layer("b", line=0), Layer("c"))
    wrong = rule(for_each="draft.layers", when="1 / (1 if it.line is None else it.line)", message="{it.name}")
    judgement = judge([wrong, rule(id="TST002")], facts(Target(), layers=layers))
    assert [finding.message for finding in judgement.findings if finding.rule == "TST001"] == ["a", "c"]
    assert [finding.rule for finding in judgement.findings].count("TST002") == 1
    (fault,) = judgement.faults
    assert (fault.kind, fault.part) == ("rule", "TST001")
    assert fault.problem.endswith("ZeroDivisionError: division by zero")
    assert judgement.skipped == ()
