"""The rule files that ship agree with the schema, and the schema documents every field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from toyfacts import NAMES, RULES

from ckptdoctor.rulebook import FAMILIES, load_rules
from ckptdoctor.rulebook.schema import rule_validator, schema_problems
from ckptdoctor.rulebook.yamlfiles import read_checked

SCHEMA = json.loads((RULES / "schema" / "rule.schema.json").read_text(encoding="utf-8"))
FILES = sorted((RULES / "checks").glob("*.yaml"))


def properties(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in schema.get("properties", {}).items():
        yield f"{path}{name}", field
        yield from properties(field, f"{path}{name}.")


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_describes_every_field() -> None:
    fields = dict(properties(SCHEMA["$defs"]["rule"]))
    assert "location.tensor" in fields
    assert [name for name, field in fields.items() if not field.get("description")] == []


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_shipped_file_agrees_with_the_schema(path: Path) -> None:
    content, _ = read_checked(path)
    assert list(schema_problems(content, rule_validator(RULES))) == []


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_shipped_rule_has_an_example_of_each_kind(path: Path) -> None:
    content, _ = read_checked(path)
    assert [rule["id"] for rule in content if not (rule["examples"]["bad"] and rule["examples"]["good"])] == []


def test_shipped_ids_and_names_are_unique_and_of_our_families() -> None:
    load_rules(RULES, names=NAMES, families=FAMILIES)
