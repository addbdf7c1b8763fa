"""Any report at all agrees with the schema and prints as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.findings import Confidence, Examination, Finding, Fix, Location, Report, Severity, Skip
from ckptdoctor.report import render

SCHEMA_FILE = Path(__file__).parents[3] / "rules" / "schema" / "report.schema.json"
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def parsed(value: Report) -> dict[str, Any]:
    """The JSON of a report, read back strictly and held to the schema."""
    text = render(value, "json")
    assert text.isascii()
    assert text.endswith("}\n")
    data: dict[str, Any] = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in the JSON"))
    VALIDATOR.validate(data)
    return data


TEXT = st.text(st.characters(exclude_categories=[]), max_size=20)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SOME = st.none() | TEXT
FINDING = st.builds(
    Finding,
    rule=TEXT.filter(bool),
    name=TEXT.filter(bool),
    severity=st.sampled_from(Severity),
    confidence=st.sampled_from(Confidence),
    message=TEXT,
    effect=TEXT,
    advice=TEXT,
    location=st.builds(
        Location,
        file=SOME,
        tensor=SOME,
        config_key=SOME,
        line=st.none() | st.integers(min_value=1),
        offset=st.none() | st.integers(min_value=0),
    ),
    engines=st.tuples(TEXT),
    evidence=st.dictionaries(TEXT, VALUE, max_size=3),
    fix=st.none() | st.builds(Fix, TEXT, TEXT, st.sampled_from(["safe", "unsafe"])),
    seen_in=st.tuples(TEXT),
)
EXAMINATION = st.builds(
    Examination,
    path=TEXT,
    title=TEXT,
    draft=st.dictionaries(TEXT, VALUE, max_size=2).map(lambda d: {**d, "algorithm": "eagle3", "dialect": None}),
    target=st.none() | st.dictionaries(TEXT, VALUE, max_size=2),
    findings=st.lists(FINDING, max_size=3).map(tuple),
    skipped=st.lists(st.builds(Skip, TEXT.filter(bool), TEXT), max_size=3).map(tuple),
    next_commands=st.tuples(TEXT),
)
REPORTS = st.builds(
    Report,
    examinations=st.lists(EXAMINATION, max_size=2).map(tuple),
    failed=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
)


def joined(text: str) -> str:
    """`text` as JSON means it: two surrogates that happen to stand together are one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@given(REPORTS)
def test_any_report_agrees_with_the_schema(value: Report) -> None:
    data = parsed(value)
    assert [c["path"] for c in data["checkpoints"]] == [joined(e.path) for e in value.examinations]
    total = sum(data["summary"][s.value] for s in Severity)
    assert total == sum(len(c["findings"]) for c in data["checkpoints"])


@given(REPORTS)
def test_any_report_prints_as_text(value: Report) -> None:
    text = render(value, "text")
    text.encode("utf-8")
    assert "\x1b" not in text
