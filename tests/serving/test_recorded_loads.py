"""Plans against what the engines' own loaders did with the drafts of ../shared/drafts (`shared`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import Facts, describe, read_target
from ckptdoctor.serving import contracts, load_plan
from ckptdoctor.serving.plan import LoadPlan

DRAFTS = Path(__file__).resolve().parents[3] / "shared" / "drafts"
RECORDED = ("sglang-0.5.23", "sglang-0.5.4", "vllm-0.33.0")

# The recorder asked the registry for a class, which falls back to the generic Transformers class for any name. A server
# asks get_model_architecture first, and that one stops at a name which Transformers does not know ("Cannot find model
# module"); tests/conformance runs it so.
NOT_AS_A_SERVER = {
    ("sglang-0.5.4", "derived_sf_domino_archfix"),
    ("sglang-0.5.4", "mo_dflash_qwen3"),
    ("sglang-0.5.4", "mo_medusa_llama"),
}
# The recorder finds sources by value: a bias of one zero is also found in a map that begins with zero.
SAME_VALUE = {
    ("vllm-0.33.0", "spec_dspark_qwen3"): {"draft_id_to_target_id": "confidence_head.proj.bias"},
}


def rows() -> list[Any]:
    found = [
        pytest.param(release, path.parent.parent, id=f"{release}-{path.parent.parent.name}", marks=pytest.mark.shared)
        for release in RECORDED
        for path in sorted(DRAFTS.glob(f"*/loaders/{release}.json"))
    ]
    absent = pytest.mark.skip(reason=f"{DRAFTS} is not there")
    return found or [pytest.param(RECORDED[0], DRAFTS, id="absent", marks=[pytest.mark.shared, absent])]


@lru_cache(maxsize=4)
def facts_of(folder: Path) -> Facts:
    return describe(open_checkpoint(str(folder)), read_target(str(folder / "target")))


def plan_of(release: str, folder: Path) -> LoadPlan:
    if not list(folder.glob("*.safetensors")):
        pytest.importorskip("torch", reason="reading pickles needs the torch extra")
    engine, _, version = release.partition("-")
    return load_plan(facts_of(folder), contracts()[engine], version)


def recorded(release: str, folder: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((folder / "loaders" / f"{release}.json").read_text(encoding="utf-8"))
    if truth["error"] and "killed" in truth["error"]:
        pytest.skip("the recorded load ran out of time and says nothing")
    return truth


def sources(loaded: Mapping[str, list[str]], misled: Mapping[str, str]) -> dict[str, list[str]]:
    return {name: sorted(k for k in keys if k != misled.get(name)) for name, keys in loaded.items()}


def is_t2d(name: str) -> bool:
    return name == "t2d" or name.endswith(".t2d")


def ignored(plan: LoadPlan) -> set[str]:
    """Stored names that land nowhere; d2t lands, in a parameter or beside them, and t2d never counts."""
    kept = plan.wiring["map"]
    return {
        s.name
        for s in plan.stored
        if s.parameter is None and s.fate != "rejected" and s.name != kept and not is_t2d(s.name)
    }


@pytest.mark.parametrize(("release", "folder"), rows())
def test_the_plan_is_what_the_loader_did(release: str, folder: Path) -> None:
    truth = recorded(release, folder)
    plan = plan_of(release, folder)
    stages = [e.stage for e in plan.errors if e.stage in ("config", "class", "construct", "load")]
    if (release, folder.name) in NOT_AS_A_SERVER:
        assert truth["error"] is None
        assert stages == ["class"]
        return
    assert bool(stages) == bool(truth["error"]), (plan.errors, truth["error"])
    if truth["error"]:
        return
    misled = SAME_VALUE.get((release, folder.name), {})
    loaded = {p.name: list(p.keys) for p in plan.parameters if p.keys}
    assert sources(loaded, {}) == sources(truth["loaded"], misled)
    assert {p.name for p in plan.parameters if not p.keys} == set(truth["untouched"])
    assert {p.name for p in plan.parameters if p.keys and p.parts_missing} == set(truth["partially_loaded"])
    landed = set(misled.values())
    assert ignored(plan) - landed == {key for key in truth["ignored_keys"] if not is_t2d(key)} - landed


@pytest.mark.shared
@pytest.mark.parametrize(("release", "name"), sorted(NOT_AS_A_SERVER | set(SAME_VALUE)))
def test_every_exception_is_still_one(release: str, name: str) -> None:
    folder = DRAFTS / name
    if not folder.is_dir():
        pytest.skip(f"{DRAFTS} is not there")
    truth = recorded(release, folder)
    plan = plan_of(release, folder)
    loaded = {p.name: list(p.keys) for p in plan.parameters if p.keys}
    assert sources(loaded, {}) != sources(truth["loaded"], {})
