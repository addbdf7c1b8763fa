"""The data under rules/launch: fields, methods and drafts that they name exist."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.launch.engines import EngineLine, engine_lines, holds
from ckptdoctor.launch.line import Launch

LINES = pytest.mark.parametrize("line", engine_lines().values(), ids=lambda line: line.engine)


@LINES
def test_options_and_the_environment_give_fields_of_a_launch_line(line: EngineLine) -> None:
    known = {field.name for field in fields(Launch)}
    rows = [*line.options.values(), *line.members.values()]
    assert {option.field for option in rows} <= known
    assert {row["field"] for row in line.raw["environment"].values()} <= known
    assert {option.kind for option in rows} <= {"word", "number", "numbers", "flag", "switch"}


@LINES
def test_methods_run_kinds_of_drafts_that_are_known(line: EngineLine) -> None:
    algorithms = set(knowledge().algorithms)
    for method in line.methods.values():
        assert set(method.drafts) <= algorithms
        assert method.counts in (None, "tree", "chain", "block", "block_and_anchor", "heads")
        assert method.raw.get("path") in (None, "any", "target", "required", "inside")


@LINES
def test_every_inferred_method_is_one_of_the_words(line: EngineLine) -> None:
    rows = [*line.raw.get("inference", ()), *([line.raw["otherwise"]] if "otherwise" in line.raw else [])]
    assert {row["method"] for row in rows} <= set(line.methods)


@LINES
def test_no_option_is_listed_as_with_and_without_a_value(line: EngineLine) -> None:
    assert not set(line.raw.get("bare", ())) & set(line.raw.get("valued", ()))


@pytest.mark.parametrize(
    ("row", "release", "expected"),
    [
        ({}, None, True),
        ({"from": "0.5.11"}, None, True),
        ({"until": "0.33.0"}, None, False),
        ({"from": "0.5.11"}, "0.5.9", False),
        ({"from": "0.5.11"}, "0.5.11.post1", True),
        ({"until": "0.33.0"}, "0.32.0", True),
        ({"from": "0.5.11"}, "not a release", True),
    ],
)
def test_a_row_holds_in_its_releases(row: dict[str, str], release: str | None, expected: bool) -> None:
    assert holds(row, release) is expected


def test_what_runs_an_engine_and_which_release_an_image_names() -> None:
    sglang, vllm = engine_lines()["sglang"], engine_lines()["vllm"]
    assert sglang.runs("lmsysorg/sglang:v0.5.9-cu126")
    assert not sglang.runs("lmsys/sglang-EAGLE3-LLaMA3")
    assert vllm.runs("vllm.entrypoints.openai.api_server")
    assert sglang.release_of("lmsysorg/sglang:v0.5.10.post1-cu126") == "0.5.10.post1"
    assert vllm.release_of("vllm/vllm-openai:latest") is None
