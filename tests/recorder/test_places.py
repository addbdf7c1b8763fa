"""The files of places and words."""

from __future__ import annotations

import json

import pytest
import yaml
from jsonschema import Draft202012Validator

from ckptdoctor.recorder.places import places_for, places_in_programs
from ckptdoctor.resources import rules_dir


def test_places_agree_with_the_schema() -> None:
    schema = json.loads((rules_dir() / "schema" / "recorder.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    rows = yaml.safe_load((rules_dir() / "recorder" / "engines.yaml").read_text(encoding="utf-8"))
    assert [f"{list(e.absolute_path)}: {e.message}" for e in Draft202012Validator(schema).iter_errors(rows)] == []


@pytest.mark.parametrize(
    ("engine", "release", "quiet"),
    [("sglang", "0.5.23", 0), ("vllm", "0.22.0", 5), ("vllm", "0.33.0+cpu", 5), ("vllm", "0.33.1.dev7+g12", 5)],
)
def test_places_of_a_release(engine: str, release: str, quiet: int) -> None:
    places = places_for(engine, release)
    assert places is not None
    assert places.release == release.partition("+")[0]
    assert len(places.quiet) == quiet
    assert places.draft("LlamaForCausalLM") is None
    assert places.draft({"sglang": "LlamaForCausalLMEagle3", "vllm": "Eagle3LlamaForCausalLM"}[engine]) is not None


def test_an_engine_that_is_not_in_the_rules() -> None:
    assert places_for("another", "1.0") is None


def test_programs_have_places_of_their_own() -> None:
    assert "fc" in places_in_programs().fc
