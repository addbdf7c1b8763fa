"""The contract files: their form, the order of their releases, and that each named variant is implemented."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import ckptdoctor.serving
from ckptdoctor.resources import rules_dir
from ckptdoctor.serving.contract.contracts import Release, contracts, parse_release
from ckptdoctor.serving.contract.settings import Settings, evaluate
from ckptdoctor.serving.parameters.building import build, symbols_of

SERVING = rules_dir() / "serving"
FILES = sorted(p for p in SERVING.glob("*.yaml") if "\nclasses:" in p.read_text(encoding="utf-8"))
# Variants that the code meets in its `else`: what happens when no other variant is named.
OTHERWISE = {
    "keys_beyond_depth": {"as_any_unknown"},
    "head": {"own", "none"},
    "embedding": {"own"},
    "residual": {"before_norm", "configured"},
    "fc_runs": {"always"},
    "unknown_key": {"drop"},
    "unknown_bias": {"drop"},
    "unknown_part": {"drop"},
    "aux_count": {"declared, top, nested or three"},
    "map_keys": {"exact"},
    "wrong_size": {"cut"},
    "naming": {"as_is"},
    "unregistered": {"refuse", "any_class"},
    "model_type": {"guessed"},
    "speculators": {"as_any_other"},
    "scheme": {"pep440"},
}


@lru_cache(maxsize=16)
def _read(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((rules_dir() / "schema" / "serving.schema.json").read_text(encoding="utf-8"))
    return loaded


def _rows(rows: list[Any]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if isinstance(row, list):
            yield from _rows(row)
        else:
            yield row


def _timelines(found: Any, place: str = "") -> Iterator[tuple[str, list[dict[str, Any]]]]:
    if isinstance(found, Mapping):
        for name, value in found.items():
            yield from _timelines(value, f"{place}/{name}")
    elif isinstance(found, list) and found and all(isinstance(r, dict) and "from" in r and "value" in r for r in found):
        yield place, found


def _variants(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every behaviour of the schema with each of its named variants."""
    behaviours = schema["$defs"]["class"]["properties"]["behaviours"]["properties"]
    top = {k: v for k, v in schema["properties"].items() if k in OTHERWISE}
    for name, timeline in {**top, **behaviours}.items():
        found = timeline["anyOf"][0] if "anyOf" in timeline else timeline
        value = found["items"]["properties"]["value"] if "items" in found else found
        for variant in value.get("oneOf", ()):
            yield name, variant["const"]


def _literals() -> frozenset[str]:
    """Every text in the code of ckptdoctor.serving that is no docstring."""
    texts: set[str] = set()
    for path in Path(ckptdoctor.serving.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
        texts |= {
            n.value
            for n in ast.walk(tree)
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in prose
        }
    return frozenset(texts)


def test_the_files_of_sglang_and_vllm_are_there() -> None:
    assert {"sglang", "vllm"} <= {p.stem for p in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_file_fits_its_schema(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(_schema())
    errors = jsonschema.Draft202012Validator(_schema()).iter_errors(_read(path))
    assert [f"{list(e.absolute_path)}: {e.message[:300]}" for e in errors] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_releases_ascend(path: Path) -> None:
    raw = _read(path)
    known = [parse_release(str(r), raw["scheme"]) for r in raw["releases"]]
    assert known == sorted(known)
    for place, timeline in _timelines({k: v for k, v in raw.items() if k != "registered"}):
        order = [parse_release(str(entry["from"]), raw["scheme"]) for entry in timeline]
        assert all(a < b for a, b in itertools.pairwise(order)), place


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_rows_end_after_they_begin(path: Path) -> None:
    raw = _read(path)
    rows = [*raw["architectures"], *raw.get("registered", ()), *raw.get("renamed_in_drafts", ())]
    rows += raw.get("refuses", [])
    for entry in raw["classes"].values():
        rows += [*_rows(entry.get("parameters", [])), *_rows(entry.get("refuses", []))]
    for row in rows:
        if "from" in row and "until" in row:
            assert parse_release(row["from"], raw["scheme"]) < parse_release(row["until"], raw["scheme"]), row


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_entry_says_where_it_stands_and_how_it_is_known(path: Path) -> None:
    raw = _read(path)
    entries = [row for _, timeline in _timelines(raw) for row in timeline]
    entries += [row for entry in (raw, *raw["classes"].values()) for row in _rows(entry.get("refuses", []))]
    assert [e for e in entries if not e.get("source") or e.get("evidence") not in ("executed", "read")] == []


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_name_that_a_row_uses_is_there(path: Path) -> None:
    raw, tables = _read(path), _read(SERVING / "layers.yaml")["tables"]
    assert {row["class"] for row in raw["architectures"]} == set(raw["classes"])
    for name, entry in raw["classes"].items():
        used = {row["layer"] for row in _rows(entry.get("parameters", [])) if "layer" in row}
        assert used <= set(tables), name


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_name_has_one_meaning_in_a_release(path: Path) -> None:
    raw = _read(path)
    contract = contracts()[raw["engine"]]
    for version in contract.releases:
        release = Release(contract, version)
        named = [r["name"] for r in raw["architectures"] if release.holds(r) and "if" not in r]
        named += [n for r in raw.get("registered", ()) if release.holds(r) for n in r["names"]]
        assert sorted(named) == sorted(set(named)), version


@pytest.mark.parametrize(("behaviour", "variant"), list(_variants(_schema())))
def test_every_variant_is_implemented(behaviour: str, variant: str) -> None:
    assert variant in _literals() or variant in OTHERWISE.get(behaviour, ())


def test_what_is_listed_as_otherwise_is_a_variant() -> None:
    known = set(_variants(_schema()))
    assert {(name, variant) for name, listed in OTHERWISE.items() for variant in listed} <= known


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_condition_and_shape_can_be_evaluated(path: Path) -> None:
    """With no config at all, and with a config of nonsense: a plan never raises for what a draft says."""
    raw = _read(path)
    contract = contracts()[raw["engine"]]
    nonsense = {
        key: ["x", None, {}]
        for key in ("dflash_config", "eagle_config", "markov_rank", "target_layer_ids", "hidden_size")
    }
    for values in (
        {},
        nonsense,
        {"dflash_config": {"target_layer_ids": ["a"], "conv_kernel_size": "x", "num_target_layers": "y"}},
    ):
        settings = Settings(values)
        for version in (contract.releases[0], contract.newest):
            release = Release(contract, version)
            for entry in contract.raw["classes"].values():
                _evaluate_all(entry, release, settings)


def _evaluate_all(entry: Mapping[str, Any], release: Release, settings: Settings) -> None:
    raw = release.contract.raw
    symbols = symbols_of(settings, {"H": 8, "I": 8, "V": 8, "Q": 8, "KV": 8, "hd": 2, "T": 8, "D": 8}, {})
    symbols |= {"K": 3, "translated": True, "stored_domino": False, "use_aux_hidden_state": True, "depth": 2}
    symbols |= dict.fromkeys(("fc_norm", "norm_output", "norm_before_fc", "norm_before_residual"), True)
    for name, since in entry.get("knows", {}).items():
        symbols[name] = release.has_reached(since)
    for name, expression in {**raw.get("symbols", {}), **entry.get("symbols", {})}.items():
        symbols[name] = evaluate(expression, symbols, settings)
    for row in (*raw.get("refuses", ()), *entry.get("refuses", ())):
        evaluate(row["if"], symbols, settings)
    build(entry.get("parameters", ()), raw["layers"], release, symbols, settings)
