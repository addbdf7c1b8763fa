"""What expressions may say, what they read, and that an unknown fact always stops them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toyfacts import NEEDS_TARGET, Aux, Layer, Target, facts

from ckptdoctor.rulebook.errors import ExpressionError
from ckptdoctor.rulebook.evaluator import Evaluator, TooLargeError
from ckptdoctor.rulebook.expressions import compile_expression, element_path
from ckptdoctor.unknown import UnknownFactError


def value(text: str, **given_facts: Any) -> Any:
    return Evaluator({**facts(Target()), **given_facts}).value(compile_expression(text))


def reads(text: str, item: str | None = None, **given_facts: Any) -> set[str]:
    evaluator = Evaluator({**facts(Target()), **given_facts})
    if item is not None:
        evaluator.bind(Layer("x"))
    evaluator.value(compile_expression(text, item))
    return set(evaluator.reads)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("draft.algorithm == 'eagle3'", True),
        ("draft.fc.in_features == draft.aux.claimed * target.hidden_size", True),
        ("draft.fc is not None and draft.head is None", True),
        ("draft.aux.ids[1:]", (30, 58)),
        ("draft.aux.ids[-1]", 58),
        ("max(draft.aux.ids) <= target.layers", True),
        ("len(draft.layers) + abs(-2) - sum([1, 2]) % 2", 4),
        ("[layer.name for layer in draft.layers if layer.width < 64]", ["b", "c"]),
        ("any(layer.width == 16 for layer in draft.layers)", True),
        ("all(layer.width == 16 for layer in draft.layers)", False),
        ("unique([3, 1, 3, 2, 1])", (3, 1, 2)),
        ("sorted([3, 1, 2], reverse=True)", [3, 2, 1]),
        ("min(4, 2, 3)", 2),
        ("2 in draft.aux.ids and 3 not in draft.aux.ids", True),
        ("'yes' if not draft.norms else 'no'", "yes"),
        ("[a + b for a, b in [(1, 2), (3, 4)]]", [3, 7]),
        ("{'a': 1}['a'] // 1 / 2", 0.5),
        ("7 in {7, 8}", True),
        ("plural(2, 'entry', 'entries')", "2 entries"),
        ("listing([layer.name for layer in draft.layers])", "a, b and c"),
        ("show('x' * 5, limit=3)", "xxx… (+2 characters)"),
        ("draft.depth > 2\n  and draft.first.name == 'a'", True),
    ],
)
def test_expressions_give_what_python_gives(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "draft.method()",
        "draft.algorithm.startswith('e')",
        "draft.__class__",
        "draft._private",
        "().__class__.__bases__",
        "open('/etc/passwd')",
        "eval('1')",
        "list(draft.layers)",
        "len",
        "[len][0]([])",
        "(lambda: 1)()",
        "f'{draft}'",
        "(x := 1)",
        "{a: 1 for a in [1]}",
        "{a for a in [1]}",
        "2 ** 9",
        "1 << 9",
        "1 | 2",
        "~1",
        "+1",
        "max(*[1, 2])",
        "plural(**{'count': 1})",
        "{**{'a': 1}}",
        "[*[1]]",
        "b'bytes'",
        "1j",
        "...",
        "await draft",
        "x = 1",
        "import os",
        "1; 2",
        "",
        "1 +",
        "\0",
        "(" * 500 + ")" * 500,
        "not " * 450 + "1",
        "1" * 2001,
    ],
)
def test_everything_else_is_refused_before_it_runs(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text)
    assert "\n" not in str(caught.value)


def test_a_refused_function_names_those_there_are() -> None:
    with pytest.raises(ExpressionError, match="calls str; rules can only call abs, all, any, len, listing, max"):
        compile_expression("str(1)")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("draft.aux.ids[9]", "IndexError"),
        ("{'a': 1}['b']", "KeyError"),
        ("1 + 'a'", "TypeError"),
        ("max([])", "ValueError"),
        ("draft.head.name", "Attribute 'name' does not exist"),
        ("nothing", "'nothing' is not defined"),
        ("'%9d' % 1", "% works on numbers only"),
        ("5 in 5", "TypeError"),
        ("draft.norms.a", "AttributeDoesNotExist"),
    ],
)
def test_a_failure_names_the_expression_and_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert reason in str(caught.value)
    assert text in str(caught.value)


def test_a_key_of_a_mapping_is_no_attribute() -> None:
    with pytest.raises(ExpressionError):
        value("draft.config.a", **facts(config={"a": 1}))


def test_the_limits_of_the_evaluator_are_their_own_error() -> None:
    with pytest.raises(TooLargeError):
        value("len([i for i in draft.aux.ids])", **facts(aux=Aux(ids=tuple(range(20_000)))))


@pytest.mark.parametrize(
    "text",
    [
        "target",
        "target.hidden_size",
        "target.hidden_size == 64",
        "64 == target.hidden_size",
        "target is None",
        "target.hidden_size is not None",
        "not target.hidden_size",
        "[target.hidden_size]",
        "len([target.hidden_size])",
        "draft.algorithm == 'x' or target.hidden_size == 64",
        "target.hidden_size or True",
        "1 if target.hidden_size else 2",
        "draft.first",
        "draft.first.name",
        "draft.layers[0]",
        "[layer for layer in draft.layers]",
        "any(layer.width for layer in draft.layers)",
        "unique(draft.layers)",
        "draft.layers == (1, 2)",
        "draft.layers != (1, 2)",
        "5 in draft.layers",
        "5 not in draft.layers",
        "all(draft.layers)",
        "max(draft.layers)",
        "sum(draft.layers)",
        "sorted([draft.layers])",
        "[a for a, b in [draft.layers]]",
    ],
)
def test_an_unknown_fact_stops_every_way_of_reaching_it(text: str) -> None:
    with pytest.raises(UnknownFactError) as caught:
        value(text, **facts(layers=(NEEDS_TARGET, Layer("b"))))
    assert caught.value.unknown is NEEDS_TARGET


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("draft.algorithm == 'eagle3' or target.hidden_size == 64", True),
        ("draft.algorithm == 'x' and target.hidden_size == 64", False),
        ("1 if draft.fc else target.hidden_size", 1),
        ("len(draft.layers)", 2),
        ("draft.layers is None", False),
        ("draft.layers[1].name", "b"),
        ("7 in (7, draft.depth)", True),
    ],
)
def test_an_unknown_fact_that_is_not_reached_does_not_matter(text: str, expected: object) -> None:
    assert value(text, **facts(layers=(NEEDS_TARGET, Layer("b")))) == expected


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.booleans())
def test_and_and_or_stop_at_the_first_part_that_decides(parts: list[bool], is_and: bool) -> None:
    """Whatever stands behind the part that decides is not evaluated, not even an unknown fact."""
    deciding = not is_and
    text = (" and " if is_and else " or ").join([*map(str, parts), "target.hidden_size"])
    evaluator = Evaluator(facts())
    if deciding in parts:
        assert evaluator.value(compile_expression(text)) is deciding
        assert not evaluator.reads
    else:
        with pytest.raises(UnknownFactError):
            evaluator.value(compile_expression(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("draft.algorithm == 'x'", {"draft", "draft.algorithm"}),
        ("draft.algorithm == 'x' and target.layers", {"draft", "draft.algorithm"}),
        ("len(draft.layers)", {"draft", "draft.layers"}),
        ("draft.layers[0].name", {"draft", "draft.layers", "draft.layers[]", "draft.layers[].name"}),
        ("draft.aux.ids[1:][0]", {"draft", "draft.aux", "draft.aux.ids", "draft.aux.ids[]"}),
        (
            "[layer.name for layer in draft.layers]",
            {"draft", "draft.layers", "draft.layers[]", "draft.layers[].name"},
        ),
        ("[b for a, b in [(1, 2)]]", set()),
        (
            "[w for l in draft.layers for w in [l.width]]",
            {"draft", "draft.layers", "draft.layers[]", "draft.layers[].width"},
        ),
    ],
)
def test_the_facts_that_were_read_are_remembered(text: str, expected: set[str]) -> None:
    assert reads(text) == expected


def test_the_item_is_recorded_as_the_list_it_comes_from() -> None:
    assert reads("it.name", item="draft.layers[]") == {"draft.layers[]", "draft.layers[].name"}


def test_an_item_of_unknown_origin_is_not_recorded() -> None:
    evaluator = Evaluator({})
    evaluator.bind(Layer("x"))
    evaluator.value(compile_expression("it.name", None))
    assert evaluator.reads == frozenset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("draft.layers", "draft.layers[]"),
        ("draft.layers[1:]", "draft.layers[]"),
        ("sorted(draft.aux.ids)", "draft.aux.ids[]"),
        ("unique(draft.aux.ids)", "draft.aux.ids[]"),
        ("[layer for layer in draft.layers if layer.width]", "draft.layers[]"),
        ("[layer.name for layer in draft.layers]", "draft.layers[].name"),
        ("[1, 2]", None),
        ("max(draft.layers)", None),
    ],
)
def test_where_the_items_of_a_list_come_from(text: str, expected: str | None) -> None:
    assert element_path(compile_expression(text)) == expected


def test_forgetting_unbinds_the_item() -> None:
    evaluator = Evaluator({})
    evaluator.bind(1)
    evaluator.forget()
    with pytest.raises(ExpressionError, match="'it' is not defined"):
        evaluator.value(compile_expression("it"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("draft.algorithm and draft.fc and it.x and draft.y", 2),
        ("it.x and draft.y", 0),
        ("draft.x", 1),
        ("it.x", 0),
        ("draft.a or it.b", 0),
    ],
)
def test_the_conditions_that_concern_no_item_lead(text: str, expected: int) -> None:
    assert len(compile_expression(text).leading_conditions()) == expected
