"""The files of target classes: their form, the order of their releases, and the cases people have met."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.version import Version

from ckptdoctor.resources import rules_dir
from ckptdoctor.serving.contract.settings import Settings, evaluate
from ckptdoctor.serving.layers.capture import to_boundaries
from ckptdoctor.unknown import Unknown

ENGINES = ("sglang", "vllm")
DEPTHS = (8, 36, 61)


@lru_cache(maxsize=2)
def _load(engine: str) -> dict[str, Any]:
    text = (rules_dir() / "serving" / f"{engine}-targets.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def _timelines(holder: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for name, value in holder.items():
        if isinstance(value, list) and value and isinstance(value[0], dict) and "from" in value[0]:
            yield name, value


def _row(engine: str, architecture: str) -> dict[str, Any]:
    rows = [row for row in _load(engine)["targets"] if architecture in row["classes"]]
    assert len(rows) == 1, architecture
    row: dict[str, Any] = rows[0]
    return row


def _at(timeline: list[dict[str, Any]], release: str) -> Any:
    found = [entry["value"] for entry in timeline if Version(entry["from"]) <= Version(release)]
    return found[-1]


def _number(expression: Any, depth: int) -> int:
    value = evaluate(str(expression), {"n": depth}, Settings({}))
    assert not isinstance(value, Unknown), expression
    return int(value)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_file_fits_its_schema(engine: str) -> None:
    schema = json.loads((rules_dir() / "schema" / "targets.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    errors = [
        f"{list(error.absolute_path)}: {error.message}"
        for error in jsonschema.Draft202012Validator(schema).iter_errors(_load(engine))
    ]
    assert errors == []


@pytest.mark.parametrize("engine", ENGINES)
def test_releases_ascend(engine: str) -> None:
    loaded = _load(engine)
    assert loaded["engine"] == engine
    for holder in (loaded, *loaded["targets"]):
        for name, timeline in _timelines(holder):
            releases = [Version(entry["from"]) for entry in timeline]
            assert releases == sorted(set(releases)), (holder.get("id"), name)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_timeline_covers_its_classes_from_their_first_release(engine: str) -> None:
    for row in _load(engine)["targets"]:
        first = min(Version(since) for since in row["classes"].values())
        for name, timeline in _timelines(row):
            assert Version(timeline[0]["from"]) <= first, (row["id"], name)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_class_and_an_id_stand_in_one_row(engine: str) -> None:
    rows = _load(engine)["targets"]
    names = [name for row in rows for name in row["classes"]]
    assert sorted(names) == sorted(set(names))
    ids = [row["id"] for row in rows]
    assert ids == list(dict.fromkeys(ids))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_said_of_single_classes_names_classes_of_the_row(engine: str) -> None:
    for row in _load(engine)["targets"]:
        assert set(row.get("text_config", ())) <= set(row["classes"]), row["id"]
        for name, gone in row.get("removed", {}).items():
            assert Version(row["classes"][name]) < Version(gone), name


@pytest.mark.parametrize("engine", ENGINES)
def test_below_speaks_of_negative_boundaries_where_the_embedding_is_reachable(engine: str) -> None:
    for row in _load(engine)["targets"]:
        for entry in (*row["reachable"], *row["negative"], *row["below"]):
            lowest = str(_at(row["reachable"], entry["from"])[0])
            assert lowest in ("0", "1"), row["id"]
            if lowest == "0":
                assert _at(row["below"], entry["from"]) == _at(row["negative"], entry["from"]), row["id"]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("engine", ENGINES)
def test_expressions_evaluate(engine: str, depth: int) -> None:
    for row in _load(engine)["targets"]:
        for entry in row["default_boundaries"]:
            numbers = [_number(part, depth) for part in entry["value"]]
            assert numbers == sorted(set(numbers)), row["id"]
            low, high = (_number(part, depth) for part in _at(row["reachable"], entry["from"]))
            assert low <= min(numbers), row["id"]
            assert max(numbers) <= high, row["id"]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("engine", ENGINES)
def test_losses_can_be_judged(engine: str, depth: int) -> None:
    for row in _load(engine)["targets"]:
        for entry in row.get("never_captured", ()):
            names = {"n": depth, "b": 5, "first_k_dense_replace": 3}
            assert evaluate(entry["value"], names, Settings({})) is True, row["id"]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_way_from_ids_to_boundaries_is_known(engine: str) -> None:
    for row in _load(engine)["targets"]:
        for entry in row["ids_to_boundaries"]:
            if entry["value"] != "ignored":
                assert len(to_boundaries(entry["value"], (2, 18, 33), 36)) == 3


@pytest.mark.parametrize(
    ("engine", "architecture", "release", "ids", "depth", "boundaries"),
    [
        ("sglang", "DeepseekV3ForCausalLM", "0.5.9", (2, 30, 58), 61, (3, 31, 59)),
        ("sglang", "DeepseekV3ForCausalLM", "0.5.12.post1", (2, 30, 58), 61, (3, 31, 59)),
        ("sglang", "DeepseekV3ForCausalLM", "0.5.13", (2, 30, 58), 61, (2, 30, 58)),
        ("sglang", "DeepseekV3ForCausalLM", "0.5.23", (1, 29, 57), 61, (2, 30, 58)),
        ("sglang", "DeepseekV3ForCausalLM", "0.5.14", (-1, 2, 30), 61, (-1, 2, 30)),
        ("sglang", "KimiK25ForConditionalGeneration", "0.5.12", (-1, 2, 30), 61, (0, 3, 31)),
        ("sglang", "Qwen3ForCausalLM", "0.5.9", (-1, 17, 32), 36, (0, 18, 33)),
        ("sglang", "GptOssForCausalLM", "0.5.16", (2, 18, 36), 36, (3, 19, 37)),
        ("sglang", "GptOssForCausalLM", "0.5.17", (2, 18, 36), 36, (2, 18, 36)),
        ("vllm", "Qwen3ForCausalLM", "0.18.0", (2, 18, 33), 36, (2, 18, 33)),
    ],
)
def test_ids_become_boundaries(
    engine: str, architecture: str, release: str, ids: tuple[int, ...], depth: int, boundaries: tuple[int, ...]
) -> None:
    row = _row(engine, architecture)
    assert to_boundaries(_at(row["ids_to_boundaries"], release), ids, depth) == boundaries


@pytest.mark.parametrize(
    ("engine", "architecture", "release", "lowest", "highest"),
    [
        ("sglang", "LlamaForCausalLM", "0.5.21", 1, 35),
        ("sglang", "LlamaForCausalLM", "0.5.22", 0, 35),
        ("sglang", "DeepseekV3ForCausalLM", "0.5.9", 1, 35),
        ("sglang", "DeepseekV3ForCausalLM", "0.5.13", 1, 35),
        ("sglang", "DeepseekV3ForCausalLM", "0.5.14", 0, 35),
        ("sglang", "Qwen3ForCausalLM", "0.4.9", 0, 35),
        ("sglang", "Gemma3ForCausalLM", "0.5.12", 0, 36),
        ("sglang", "MiniMaxM3SparseForConditionalGeneration", "0.5.22", 0, 35),
        ("sglang", "MiniMaxM3SparseForConditionalGeneration", "0.5.23", 0, 36),
        ("vllm", "LlamaForCausalLM", "0.17.1", 1, 35),
        ("vllm", "LlamaForCausalLM", "0.18.0", 0, 36),
        ("vllm", "GptOssForCausalLM", "0.16.0", 0, 35),
        ("vllm", "DeepseekV3ForCausalLM", "0.24.0", 1, 35),
        ("vllm", "DeepseekV3ForCausalLM", "0.25.0", 1, 36),
    ],
)
def test_what_a_forward_reaches(engine: str, architecture: str, release: str, lowest: int, highest: int) -> None:
    low, high = _at(_row(engine, architecture)["reachable"], release)
    assert (_number(low, 36), _number(high, 36)) == (lowest, highest)


def test_graphs_hold_the_default_boundaries_until_they_are_set_first() -> None:
    timeline = _load("sglang")["graph_boundaries"]
    assert _at(timeline, "0.5.9") == "default"
    assert _at(timeline, "0.5.10.post1") == "default"
    assert _at(timeline, "0.5.11") == "same_as_eager"


def test_a_wrapper_without_a_setter_stops_the_start() -> None:
    row = _row("sglang", "KimiK25ForConditionalGeneration")
    assert row["classes"]["KimiK25ForConditionalGeneration"] == "0.5.10"
    assert row["unsupported_before"] == "refuse_at_start"


def test_the_embedding_output_of_deepseek() -> None:
    row = _row("sglang", "DeepseekV3ForCausalLM")
    assert _at(row["below"], "0.5.9") == "refuse_at_first_forward"
    assert _at(row["negative"], "0.5.14") == "feature_missing"
    assert _at(row["negative"], "0.5.17") == "refuse_at_first_forward"


def test_only_the_first_runner_of_vllm_reads_nested_ids() -> None:
    loaded = _load("vllm")
    nested = "eagle_config.eagle_aux_hidden_state_layer_ids"
    assert nested not in _at(loaded["ids_read_from"], "0.21.0")
    assert nested in _at(loaded["ids_read_from"], "0.22.0")
    assert all(nested not in entry["value"] for entry in loaded["ids_read_from_v2"])
