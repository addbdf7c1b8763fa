"""Plans against what the real loaders of many releases did with the drafts of fixtures/trainers."""

from __future__ import annotations

import json
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import Facts, describe, read_target
from ckptdoctor.serving import contracts, load_plan
from tests.conformance.compare import compare

HERE = Path(__file__).parent
TRAINERS = HERE.parents[1] / "fixtures" / "trainers"
RELEASES = sorted(path.stem for path in (HERE / "recorded").glob("*.json"))


def recorded(release: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((HERE / "recorded" / f"{release}.json").read_text(encoding="utf-8"))
    return found


@lru_cache(maxsize=32)
def facts_of(draft: str) -> Facts:
    folder = TRAINERS / draft
    target = folder / "target"
    return describe(open_checkpoint(str(folder)), read_target(str(target)) if target.is_dir() else None)


PAIRS = [
    pytest.param(release, truth, id=f"{release}-{truth['draft']}")
    for release in RELEASES
    for truth in recorded(release)
]


@pytest.mark.parametrize(("release", "truth"), PAIRS)
def test_the_plan_is_what_the_loader_did(release: str, truth: dict[str, Any]) -> None:
    if not (TRAINERS / truth["draft"] / "model.safetensors").exists():
        pytest.importorskip("torch", reason="reading pickles needs the torch extra")
    engine, _, version = release.partition("-")
    plan = load_plan(facts_of(truth["draft"]), contracts()[engine], version)
    assert compare(plan, truth).differences == ()


def test_releases_on_both_sides_of_the_changes_are_recorded() -> None:
    assert Counter(release.partition("-")[0] for release in RELEASES) == {"sglang": 9, "vllm": 6}


def test_a_wrong_plan_is_noticed() -> None:
    """The comparison is no formality: the plan of one release differs from what another one did."""
    (truth,) = (t for t in recorded("sglang-0.5.11") if t["draft"] == "mo_eagle3_llama")
    plan = load_plan(facts_of("mo_eagle3_llama"), contracts()["sglang"], "0.5.23")
    assert compare(plan, truth).word == "differ"
