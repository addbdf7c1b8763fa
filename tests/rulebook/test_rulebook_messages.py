"""Texts with placeholders: how values are put into words, and that no value can do harm there."""

from __future__ import annotations

import json
import unicodedata
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toyfacts import NEEDS_TARGET, Layer, Target, facts

from ckptdoctor.rulebook.errors import ExpressionError
from ckptdoctor.rulebook.evaluator import Evaluator
from ckptdoctor.rulebook.messages import compile_template, json_safe, printed

UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
FOREIGN = st.text(st.characters(), max_size=400)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | FOREIGN,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner, inner)
        | st.dictionaries(FOREIGN, inner, max_size=4)
        | st.frozensets(st.integers() | FOREIGN, max_size=4)
    ),
    max_leaves=20,
)


class Kind(Enum):
    HEAD = "lm_head"


def harmless(text: str) -> bool:
    return not any(unicodedata.category(char) in UNSAFE for char in text)


def fill(text: str, **given_facts: Any) -> str:
    return compile_template(text).fill(Evaluator({**facts(Target()), **given_facts}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{draft.algorithm}", "eagle3"),
        ("a {draft.depth} b {draft.depth + 1}c", "a 3 b 4c"),
        ("{{draft}} }}{{", "{draft} }{"),
        ("{{{draft.depth}}}", "{3}"),
        ("ids {draft.aux.ids}", "ids [2, 30, 58]"),
        ("{[layer.name for layer in draft.layers]}", "a, b and c"),
        ("{{'a': 1}}", "{'a': 1}"),
        ("{ {'a': 7}['a'] }", "7"),
        ("{'}'}{\"{\"}", "}{"),
        ("{plural(draft.depth, 'layer')}", "3 layers"),
        ("{draft.head}", "None"),
        ("One. {''} {draft.algorithm}.", "One. eagle3."),
        ("{''} {''} Two.", "Two."),
        ("One {''}, two  apart.", "One , two  apart."),
        ("one\ntwo \n\n  three", "one two three"),
        ("{[]}", "none"),
        ("{{1, 2}} {(1, (2, 3))}", "{1, 2} 1 and [2, 3]"),
    ],
)
def test_placeholders_are_filled(text: str, expected: str) -> None:
    assert fill(text) == expected


def test_an_unknown_fact_prints_as_unknown() -> None:
    assert fill("{target.hidden_size} of {draft.depth}", target=NEEDS_TARGET) == "unknown of 3"


@pytest.mark.parametrize("text", ["{", "}", "a {draft", "{draft.x}}", "{'}", "{}", "{ }", "{draft.method()}", "{{}"])
def test_a_text_with_a_wrong_placeholder_is_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_template(text)


def test_a_location_whose_value_is_missing_is_left_out() -> None:
    evaluator = Evaluator(facts())
    assert compile_template("x{draft.depth}").fill_or_none(evaluator) == "x3"
    assert compile_template("x{draft.head}").fill_or_none(evaluator) is None
    assert compile_template("x{target.hidden_size}").fill_or_none(evaluator) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        (3, "3"),
        (0.5, "0.5"),
        (True, "True"),
        (None, "None"),
        (Kind.HEAD, "lm_head"),
        ([1], "[1]"),
        ([True, False], "True and False"),
        ([1, None], "1 and None"),
        ((4096, 12288), "[4096, 12288]"),
        ([(1, 2), (3, 4)], "[1, 2] and [3, 4]"),
        ({"b", "a"}, "a and b"),
        ({"a": 1, "b": [2, 3]}, "a: 1 and b: [2, 3]"),
        ([Kind.HEAD, "x"], "lm_head and x"),
        (list("abcdef"), "a, b, c, d and 2 more"),
        ([NEEDS_TARGET, "a"], "unknown and a"),
        ("\x1b[31m", "\\x1b[31m"),
    ],
)
def test_values_are_printed_in_words(value: object, expected: str) -> None:
    assert printed(value) == expected


def test_a_number_with_too_many_digits_is_described() -> None:
    assert printed(10**5000) == "a number of 16610 bits"
    assert json_safe([10**5000]) == ["a number of 16610 bits"]


def test_a_long_list_of_numbers_says_how_many_were_left_out() -> None:
    assert printed(range(0)) == "range(0, 0)"
    assert printed(list(range(20))).endswith("14, 15, … 4 more]")


def test_what_listing_has_printed_is_not_cut_again() -> None:
    long = "n" * 70
    text = fill("{listing(draft.config)}", **facts(config=[long] * 4))
    assert text == f"{long}, {long}, {long} and {long}"


def test_text_joined_to_a_listing_is_made_safe_again() -> None:
    assert fill("{listing(['a']) + draft.algorithm}", **facts(algorithm="\x07")) == "a\\x07"


def test_limits_in_a_rule_cannot_be_raised_without_end() -> None:
    assert len(fill("{show(draft.algorithm, 1000000)}", **facts(algorithm="x" * 100_000))) < 2_100


@given(VALUES)
def test_every_value_prints_harmlessly(value: object) -> None:
    text = fill("<{draft.config}>", **facts(config=value))
    assert harmless(text)
    assert text.startswith("<")


@given(FOREIGN)
def test_values_are_never_read_as_placeholders_or_markup(value: str) -> None:
    text = fill("{draft.algorithm}", **facts(algorithm="{draft.depth}[red]" + value))
    assert text.startswith("{draft.depth}[red]")


@given(FOREIGN)
def test_every_function_for_printing_is_harmless(value: str) -> None:
    template = "{show(draft.algorithm)}{listing([draft.algorithm])}{plural(1, draft.algorithm)}"
    assert harmless(fill(template, **facts(algorithm=value)))


@given(st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"]), max_size=200))
def test_the_text_of_a_rule_itself_is_harmless(text: str) -> None:
    assert harmless(fill(text))


@given(FOREIGN)
def test_braces_can_always_be_written_double(text: str) -> None:
    escaped = text.replace("{", "{{").replace("}", "}}")
    assert fill(escaped).count("{") == text.count("{")


@given(VALUES)
def test_evidence_is_always_json(value: object) -> None:
    written = json.dumps(json_safe(value), allow_nan=False, ensure_ascii=False)
    assert harmless(written)
    written.encode("utf-8")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, 2), [1, 2]),
        ({3, 1}, [1, 3]),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (0.25, 0.25),
        (10**400, "a number of 1329 bits"),
        (Kind.HEAD, "lm_head"),
        ({1: None, "b": True}, {"1": None, "b": True}),
        (Layer("a", NEEDS_TARGET), {"name": "a", "width": "unknown", "line": None}),
        (Layer, "<class 'toyfacts.Layer'>"),
        ("x" * 2000, "x" * 1000 + "… (+1000 characters)"),
    ],
)
def test_evidence_keeps_its_shape(value: object, expected: object) -> None:
    assert json_safe(value) == expected


def test_long_and_deep_evidence_is_cut_and_says_so() -> None:
    assert json_safe(list(range(150)))[-1] == "… 50 more"
    assert json_safe({str(i): i for i in range(150)})["…"] == "50 more"
    deep: list[Any] = []
    for _ in range(50):
        deep = [deep]
    assert "[[" in json.dumps(json_safe(deep))
