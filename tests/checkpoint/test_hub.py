"""Scans of drafts on the Hub: the findings of a local scan, for a few kilobytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gate_drafts import HEALTHY, SICK, WARNED, draft
from hub_server import Hub
from registries.hub_drafts import MEGABYTE, large_draft, refusal, told

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.registry import judge_tree
from ckptdoctor.registry.gate import gate_policy
from ckptdoctor.scanning import scan


def test_a_draft_of_2_gb_moves_less_than_1_mb_and_its_maps(hub: Hub, tmp_path: Path) -> None:
    size = large_draft(tmp_path / "large")
    (tmp_path / "large" / "tokenizer.json").write_bytes(b"{" + b" " * 20_000_000 + b"}")
    hub.add("org/large", tmp_path / "large")
    found = scan("hf://org/large")
    maps = 32000 * 8 + 128256
    assert size > 2_000_000_000
    assert hub.moved < MEGABYTE + maps
    assert told(found) == told(scan(tmp_path / "large"))
    assert [f.rule for f in found.findings if f.severity.value == "error"] == []
    weights = [asked for path, asked in hub.ranges if path == "model.safetensors"]
    assert weights[0] == "bytes=0-65535"
    assert len(weights) == 3  # the header, and each map


@pytest.mark.parametrize("recipe", [SICK, HEALTHY, WARNED, "specforge-eagle3"])
def test_a_scan_there_finds_what_a_scan_here_finds(hub: Hub, recipe: str, tmp_path: Path) -> None:
    hub.add("org/draft", draft(tmp_path / "draft", recipe))
    here, there = scan(tmp_path / "draft"), scan("hf://org/draft")
    assert told(there) == told(here)
    assert [(s.rule, s.needs) for s in there.skipped] == [(s.rule, s.needs) for s in here.skipped]
    commit = hub.repositories["org/draft"].branches["main"]
    assert (there.path, there.title) == ("hf://org/draft@main", f"{here.title}, commit {commit[:12]}")


def test_a_target_is_read_there_too(hub: Hub, tmp_path: Path) -> None:
    from builder import build
    from recipe_cases import RECIPES

    build(RECIPES["specforge-eagle3"], tmp_path / "draft")
    hub.add("org/target", tmp_path / "draft" / "target")
    there = scan(tmp_path / "draft", target="hf://org/target")
    here = scan(tmp_path / "draft", target=tmp_path / "draft" / "target")
    assert told(there) == told(here)
    assert there.target == {**(here.target or {}), "path": "hf://org/target"}


def test_everything_is_asked_of_one_commit(hub: Hub, tmp_path: Path) -> None:
    first = hub.add("org/draft", draft(tmp_path / "healthy"))
    sick = draft(tmp_path / "sick", SICK)

    def pushed_in_between(request: Any) -> bool:
        if "/resolve/" in request.route and len(hub.repositories["org/draft"].commits) == 1:
            hub.add("org/draft", sick)
        return False

    hub.meddle = pushed_in_between
    assert told(scan("hf://org/draft")) == told(scan(tmp_path / "healthy"))
    assert {line.split("/")[4] for line in hub.asked if "/resolve/" in line} == {first}
    assert told(scan("hf://org/draft")) == told(scan(sick))
    assert told(scan(f"hf://org/draft@{first}")) == told(scan(tmp_path / "healthy"))


def test_branches_with_a_slash_are_revisions(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/draft", draft(tmp_path / "healthy"))
    hub.add("org/draft", draft(tmp_path / "sick", SICK), branch="refs/pr/1")
    found = scan("hf://org/draft@refs/pr/1")
    assert (found.path, told(found)) == ("hf://org/draft@refs/pr/1", told(scan(tmp_path / "sick")))


def test_private_repositories_are_read_with_the_token_which_never_leaves_the_hub(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/draft", draft(tmp_path / "draft"))
    hub.repositories["org/draft"].private = True
    assert told(scan("hf://org/draft")) == told(scan(tmp_path / "draft"))
    assert any(line.startswith("GET /cdn/") for line in hub.asked)
    assert hub.tokens_at_cdn == []
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    assert "there is no such repository, or it is private" in refusal("hf://org/draft")


@pytest.mark.parametrize(
    "path", ["hf://", "hf://org/name/sub", "hf://datasets/org/name", "hf://org/name/x.safetensors"]
)
def test_only_whole_models_are_named(hub: Hub, path: str) -> None:
    assert "models on the Hub are named hf://org/name or hf://org/name@revision" in refusal(path)
    assert hub.asked == []


@pytest.mark.parametrize("path", ["hf://org/na me", "hf://-/x", "hf://org/..", "hf://org/\x1b[31m"])
def test_names_that_the_hub_cannot_have_are_refused_before_it_is_asked(hub: Hub, path: str) -> None:
    said = refusal(path)
    assert "no name that the Hub knows" in said
    assert "\x1b" not in said
    assert [line for line in hub.asked if "/models/" in line] == []


def test_a_gate_can_take_its_target_from_the_hub(hub: Hub, tmp_path: Path) -> None:
    from dataclasses import replace

    from builder import build
    from recipe_cases import RECIPES

    build(RECIPES["positions-fewer-than-target"], tmp_path / "draft")
    hub.add("org/target", tmp_path / "draft" / "target")
    policy = replace(gate_policy(None), target="hf://org/target")
    verdict = judge_tree(draft(tmp_path / "model", "positions-fewer-than-target"), policy, "org/draft")
    assert verdict.outcome == "warned"
    hub.repositories.clear()
    with pytest.raises(CkptdoctorError, match="there is no such repository"):
        judge_tree(tmp_path / "model", policy, "org/draft")
