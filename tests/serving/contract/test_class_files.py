"""The lists of classes: their form, that rows do not overlap, and that they fit the contract beside them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.version import Version

from ckptdoctor.resources import rules_dir
from ckptdoctor.serving import contracts

ENGINES = ("sglang", "vllm")
ASKED = Path(__file__).resolve().parents[4] / "shared" / "contracts" / "vllm-0.33.0-eagle3-targets.json"


@lru_cache(maxsize=2)
def _load(engine: str) -> dict[str, Any]:
    text = (rules_dir() / "serving" / f"{engine}-classes.yaml").read_text(encoding="utf-8")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def _lists(engine: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    loaded = _load(engine)
    for name in ("registered", "forwarding", "model_types"):
        yield name, loaded[name]
    yield from loaded["captures"].items()


def at(rows: list[dict[str, Any]], release: str) -> set[str]:
    """The names that hold in a release."""
    wanted = Version(release)
    return {
        name
        for row in rows
        if Version(row["from"]) <= wanted and not ("until" in row and Version(row["until"]) <= wanted)
        for name in row["names"]
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_the_file_fits_its_schema(engine: str) -> None:
    schema = json.loads((rules_dir() / "schema" / "classes.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    errors = [
        f"{list(error.absolute_path)}: {error.message}"
        for error in jsonschema.Draft202012Validator(schema).iter_errors(_load(engine))
    ]
    assert errors == []


@pytest.mark.parametrize("engine", ENGINES)
def test_no_contract_is_made_of_them(engine: str) -> None:
    assert f"{engine}-classes" not in contracts()
    assert contracts()[engine].raw is not _load(engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_read_releases_are_the_contract_s_and_ascend(engine: str) -> None:
    read = _load(engine)["read"]
    assert set(read) <= set(contracts()[engine].releases)
    assert read == sorted(read, key=Version)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_begin_and_end_at_read_releases_and_do_not_overlap(engine: str) -> None:
    read = _load(engine)["read"]
    for place, rows in _lists(engine):
        ranges: dict[str, list[tuple[int, int]]] = {}
        for row in rows:
            until = read.index(row["until"]) if "until" in row else len(read)
            assert read.index(row["from"]) < until, (place, row["from"])
            assert row["names"] == sorted(row["names"]), (place, row["from"])
            for name in row["names"]:
                ranges.setdefault(name, []).append((read.index(row["from"]), until))
        for name, spans in ranges.items():
            spans.sort()
            # A gap of at least one read release, or it would be one row.
            assert all(end < start for (_, end), (start, _) in itertools.pairwise(spans)), (place, name)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_captures_is_registered(engine: str) -> None:
    loaded = _load(engine)
    for release in loaded["read"]:
        registered = at(loaded["registered"], release)
        assert len(registered) > 50
        for rows in (*loaded["captures"].values(), loaded["forwarding"]):
            assert at(rows, release) <= registered


@pytest.mark.parametrize("engine", ENGINES)
def test_asks_name_lists_that_are_there(engine: str) -> None:
    loaded = _load(engine)
    for entries in loaded["asks"].values():
        for entry in entries:
            assert set(entry["any_of"]) <= set(loaded["captures"])
            assert entry["from"] in contracts()[engine].releases


@pytest.mark.parametrize("engine", ENGINES)
def test_the_contract_names_a_class_where_the_sources_have_it(engine: str) -> None:
    contract, loaded = contracts()[engine], _load(engine)
    rows = [{**row, "names": [row["name"]]} for row in contract.raw["architectures"]] + contract.raw["registered"]
    named = {name for row in rows for name in row["names"]}
    for release in loaded["read"]:
        stated = at([{"from": contract.releases[0], **row} for row in rows], release)
        assert stated == at(loaded["registered"], release) & named, release


@pytest.mark.parametrize("engine", ENGINES)
def test_a_target_that_captures_has_what_a_start_asks_for(engine: str) -> None:
    contract, loaded = contracts()[engine], _load(engine)
    for release in loaded["read"]:
        captures, version = at(loaded["captures"]["eagle3"], release), Version(release)
        for row in contract.targets["targets"]:
            gone = row.get("removed", {})
            there = {
                name
                for name, since in row["classes"].items()
                if Version(since) <= version and not (name in gone and Version(gone[name]) <= version)
            }
            assert there <= captures, (release, row["id"], there - captures)


@pytest.mark.shared
@pytest.mark.skipif(not ASKED.exists(), reason=f"there is no {ASKED.name}")
def test_vllm_itself_gave_the_same_answer() -> None:
    asked = json.loads(ASKED.read_text(encoding="utf-8"))
    captures = at(_load("vllm")["captures"]["eagle3"], asked["vllm"])
    assert asked["vllm"] in _load("vllm")["executed"]
    assert set(asked["eagle3"]) <= captures
    # It was asked on a CPU, where this class is a stub that refuses; the lists are those of a server with CUDA.
    assert set(asked["no_eagle3"]) & captures == {"DeepseekV4ForConditionalGeneration"}
