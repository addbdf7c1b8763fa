"""The kinds of drafts: their files agree with the schema, and what holds for each of them."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
import yaml
from jsonschema import Draft202012Validator

from ckptdoctor.facts.kind import UNKNOWN_KIND, Kind
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.resources import rules_dir

SCHEMA = json.loads((rules_dir() / "schema" / "algorithm.schema.json").read_text(encoding="utf-8"))
FILES = [p for p in (rules_dir() / "algorithms").glob("*.yaml") if p.stem not in ("architectures", "decoder")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_file_agrees_with_the_schema(path) -> None:  # type: ignore[no-untyped-def]
    Draft202012Validator.check_schema(SCHEMA)
    row = yaml.safe_load(path.read_text(encoding="utf-8"))
    problems = [f"{list(e.absolute_path)}: {e.message}" for e in Draft202012Validator(SCHEMA).iter_errors(row)]
    assert problems == []
    assert row["id"] == path.stem
    assert {row.get("extends", path.stem), *row.get("kind", {}).get("serves_as", ())} <= set(knowledge().algorithms)


def test_the_schema_knows_every_attribute() -> None:
    assert set(SCHEMA["properties"]["kind"]["properties"]) == {field.name for field in fields(Kind)} - {"known"}


def test_what_holds_for_which_kinds() -> None:
    kinds = {name: algorithm.kind for name, algorithm in knowledge().algorithms.items()}

    def having(attribute: str) -> set[str]:
        return {name for name, kind in kinds.items() if getattr(kind, attribute)}

    assert having("captures_states") == {"eagle3", "peagle", "dflash", "dspark", "k3-dspark"}
    assert having("fuses_states") == {"eagle3", "peagle"}
    assert having("may_hold_target") == {"mtp", "plain"}
    assert set(kinds) - having("is_draft") == {"plain"}
    assert set(kinds) - having("takes_embedding") == {"medusa", "plain"}
    assert kinds["peagle"].serves_as == ("eagle3",)


def test_nothing_holds_of_an_unknown_kind() -> None:
    assert knowledge().kind_of("unknown") is knowledge().kind_of(None) is UNKNOWN_KIND
    assert not UNKNOWN_KIND.is_draft
