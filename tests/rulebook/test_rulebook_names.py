"""Names in rules are checked against the types of the facts, without any facts at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

import pytest
from toyfacts import NAMES, Aux, Draft, Layer, Linear, rule

from ckptdoctor.rulebook import RuleBook, RuleFileError
from ckptdoctor.rulebook.checking import Arguments, rule_problems
from ckptdoctor.rulebook.errors import ExpressionError
from ckptdoctor.rulebook.expressions import compile_expression
from ckptdoctor.rulebook.names import check_names
from ckptdoctor.unknown import Known


@dataclass(frozen=True)
class Odd:
    layer: Annotated[Layer, "meta"]
    maybe: Optional[Layer]  # noqa: UP045  # the old spelling must work too
    pair: tuple[Layer, int]
    nested: Mapping[str, tuple[Layer, ...]]
    items: Sequence[Layer]
    plain: list  # type: ignore[type-arg]
    mode: Literal["a", "b"]
    anything: Any
    either: Known[Layer] | Linear | int
    exception: ValueError


ROOTS: Mapping[str, object] = {**NAMES, "odd": Odd, "it": Layer}


def check(text: str) -> object:
    return check_names(compile_expression(text), ROOTS)


@pytest.mark.parametrize(
    "text",
    [
        "draft.algorithm == 'x' and draft.fc.in_features > 1",
        "draft.depth + 1",
        "draft.first.name",
        "draft.layers[0].width",
        "draft.layers[1:][0].width",
        "[layer.name for layer in draft.layers if layer.line]",
        "any(layer.name == 'x' for layer in sorted(draft.layers))",
        "[part.name for layer in draft.layers for part in [layer]]",
        "max(draft.layers).name",
        "unique(draft.layers)[0].name",
        "(draft.layers[0] if draft.fc else draft.first).name",
        "(draft.first or draft.layers[0]).name",
        "draft.norms['a'].name",
        "[name for name in draft.norms]",
        "draft.head.in_features",
        "draft.head.name",
        "draft.config.anything.at.all",
        "draft.config[0].deep[1].x",
        "it.name",
        "odd.layer.name",
        "odd.maybe.name",
        "[part.name for part in odd.pair]",
        "odd.nested['a'][0].name",
        "odd.items[0].name",
        "odd.plain[0].name",
        "odd.anything.name",
        "odd.either.name and odd.either.in_features",
        "odd.exception.args",
        "[a.b for a, (b, c) in odd.anything]",
        "[letter for letter in draft.algorithm]",
        "sum(draft.aux.ids) and plural(draft.depth, 'x', several='y')",
        "{'a': draft.depth}['a']",
        "(1, draft.first)[1].name",
        "[][0].x",
    ],
)
def test_names_that_exist_are_accepted(text: str) -> None:
    check(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("draf.algorithm", "draf is not a fact (there are draft, it, odd and target); did you mean draft?"),
        ("zzz", "zzz is not a fact (there are draft, it, odd and target), in `zzz`"),
        ("draft.algoritm", "draft has no fact algoritm; did you mean algorithm?, in `draft.algoritm`"),
        ("draft.method", "draft has no fact method"),
        ("draft.fc.in_feature", "draft.fc has no fact in_feature; did you mean in_features?"),
        ("draft.depth.real", "draft.depth has no fact real"),
        ("draft.first.nam", "draft.first has no fact nam; did you mean name?"),
        ("draft.layers.name", "draft.layers has no fact name"),
        ("draft.layers[0].nam", "draft.layers[0] has no fact nam"),
        ("draft.layers[:1].name", "draft.layers[:1] has no fact name"),
        ("draft.norms.name", "draft.norms has no fact name"),
        ("draft.norms['x'].nam", "draft.norms['x'] has no fact nam"),
        ("[name.x for name in draft.norms]", "name has no fact x"),
        ("[layer.nam for layer in draft.layers]", "layer has no fact nam"),
        ("[1 for layer in draft.layers if layer.nam]", "layer has no fact nam"),
        ("[layer for layer in draft.layer]", "draft has no fact layer; did you mean layers?"),
        ("sorted(draft.layers)[0].nam", "has no fact nam"),
        ("min(draft.layers).nam", "has no fact nam"),
        ("plural(1, 'a', several=draft.x)", "draft has no fact x"),
        ("draft.layers[draft.x]", "draft has no fact x"),
        ("(draft.first or it).nam", "has no fact nam"),
        ("[it][0].nam", "has no fact nam"),
        ("draft.head.nam", "draft.head has no fact nam; did you mean name?"),
        ("it.nam", "it has no fact nam"),
        ("odd.mode.x", "odd.mode has no fact x"),
        ("odd.either.x", "odd.either has no fact x"),
        ("odd.plain.append", "odd.plain has no fact append"),
        ("[layer.name for layer in draft.layers] and layer", "layer is not a fact"),
        ("draft.fc.in_features == target.hiden_size", "target has no fact hiden_size; did you mean hidden_size?"),
    ],
)
def test_a_name_that_does_not_exist_is_an_error_with_the_nearest_name(text: str, problem: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        check(text)
    assert problem in str(caught.value)


def test_a_loop_variable_must_be_a_name() -> None:
    with pytest.raises(ExpressionError, match="a loop variable must be a plain name"):
        check("[1 for draft.x in draft.layers]")


def test_a_rule_without_a_list_has_no_item() -> None:
    assert list(rule_problems(rule(when="it.name"), NAMES)) == [
        "toy.yaml: rule TST001, when: `it` is only there in a rule with for_each, in `it.name`"
    ]


def test_the_items_of_a_list_are_checked_in_every_field() -> None:
    bad = rule(
        for_each="draft.layers",
        when="it.a1",
        **{"assert": "it.a2"},
        message="{it.a3}",
        effect="{it.a4}",
        advice="{it.a5}",
        location={"tensor": "{it.a6}", "line": "it.a7"},
        evidence={"x": "it.a8"},
        fix={"treatment": "t", "safety": "safe", "summary": "{it.a9}"},
    )
    problems = list(rule_problems(bad, NAMES))
    assert sorted(problem.split(": ")[1].split(", ")[1] for problem in problems) == [
        "advice",
        "assert",
        "effect",
        "evidence.x",
        "fix.summary",
        "location.line",
        "location.tensor",
        "message",
        "when",
    ]
    assert all(f"it has no fact a{n}" in " ".join(problems) for n in range(1, 10))


def test_a_list_that_does_not_exist_leaves_the_item_open() -> None:
    problems = list(rule_problems(rule(for_each="draft.layer", when="it.x"), NAMES))
    assert len(problems) == 1
    assert "for_each: draft has no fact layer" in problems[0]


def test_an_expression_that_cannot_be_parsed_names_its_field() -> None:
    assert list(rule_problems(rule(evidence={"a": "1 +"}), NAMES)) == [
        "toy.yaml: rule TST001, evidence.a: `1 +` is not an expression (invalid syntax)"
    ]


def test_treatments_are_checked_when_they_are_given() -> None:
    fix = {"treatment": "rename-tensor", "safety": "safe", "summary": "renames it"}
    assert not list(rule_problems(rule(fix=fix), NAMES))
    takes = Arguments(frozenset({"to"}), frozenset({"to", "of"}))
    assert not list(rule_problems(rule(fix={**fix, "with": {"to": "1"}}), NAMES, {"rename-tensor": takes}))
    assert list(rule_problems(rule(fix=fix), NAMES, {"rename-tensors": takes})) == [
        "toy.yaml: rule TST001, fix: there is no treatment rename-tensor; did you mean rename-tensors?"
    ]
    assert list(rule_problems(rule(fix={**fix, "with": {"off": "1"}}), NAMES, {"rename-tensor": takes})) == [
        "toy.yaml: rule TST001, fix: rename-tensor needs to in with",
        "toy.yaml: rule TST001, fix: rename-tensor takes no off; did you mean of?",
    ]


def test_an_unsafe_repair_says_what_it_assumes() -> None:
    fix = {"treatment": "t", "safety": "unsafe", "summary": "renames it"}
    takes = {"t": Arguments(frozenset(), frozenset())}
    assert not list(rule_problems(rule(fix={**fix, "assumption": "It was so."}), NAMES, takes))
    for wrong in (fix, {**fix, "safety": "safe", "assumption": "It was so."}):
        assert list(rule_problems(rule(fix=wrong), NAMES, takes)) == [
            "toy.yaml: rule TST001, fix: an unsafe repair needs an assumption, and a safe one has none"
        ]


def test_a_book_checks_all_its_rules_and_tells_all_problems() -> None:
    book = RuleBook([rule(id="TST001", name="a", when="x"), rule(id="TST002", name="b", when="y")])
    with pytest.raises(RuleFileError) as caught:
        book.check(NAMES)
    assert len(caught.value.problems) == 2
    RuleBook([rule(when="draft.depth")]).check(NAMES)


def test_the_facts_need_no_instance() -> None:
    assert check_names(compile_expression("draft.aux"), {"draft": Draft}) is Aux
