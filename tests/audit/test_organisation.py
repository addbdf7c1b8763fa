"""The audit of an organisation of the Hub: all of its models, at their commits, with a few kilobytes of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from audit_trees import SICK, draft

pytest.importorskip("huggingface_hub")

from hub_server import TOKEN, Hub, hub_running  # it needs the client

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """An organisation with two drafts, one of which names its target, that target, and a repository of data."""
    with hub_running() as server:
        named = draft(tmp_path / "named")
        config = json.loads((named / "config.json").read_text(encoding="utf-8"))
        config["target_model_name_or_path"] = "meta/Llama-Mini"
        (named / "config.json").write_text(json.dumps(config), encoding="utf-8")
        server.add("org/named", named)
        server.add("org/sick", draft(tmp_path / "sick", SICK))
        server.add("org/data", {"README.md": b"nothing else"})
        target = draft(tmp_path / "x", target=True) / "target"
        server.add("meta/Llama-Mini", target)
        server.meddle = lambda handler: listed(server, handler)
        yield server


def listed(hub: Hub, handler: Any) -> bool:
    """Answers what the client asks for an organisation."""
    if handler.route != "/api/models":
        return False
    (author,) = handler.query["author"]
    rows = [
        {
            "id": name,
            "sha": repository.branches["main"],
            "siblings": [{"rfilename": path} for path in repository.tree()],
        }
        for name, repository in hub.repositories.items()
        if name.startswith(f"{author}/")
    ]
    handler.json(rows)
    return True


def command(hub: Hub, *words: str | Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HUB_DISABLE_XET": "1"}
    line = [sys.executable, "-m", "ckptdoctor", "audit", *map(str, words), "--jobs", "1", "--format", "jsonl"]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, env=env)


def test_an_organisation_is_scanned_where_it_is(hub: Hub, tmp_path: Path) -> None:
    done = command(hub, "hf://org", "--out", tmp_path / "out")
    assert done.returncode == 1, done.stderr
    *rows, summary = map(json.loads, done.stdout.splitlines())
    commits = {name: hub.repositories[f"org/{name}"].branches["main"] for name in ("named", "sick")}
    assert [(row["key"], row["path"], row["outcome"]) for row in rows] == [
        (f"org/{name}", f"hf://org/{name}@{commit}", "scanned") for name, commit in commits.items()
    ]
    named, sick = rows
    assert named["target"]["path"] == "hf://meta/Llama-Mini"
    assert named["target"]["why"] == "its config names meta/Llama-Mini, which was read at the Hub"
    assert named["report"]["target"]["path"] == "hf://meta/Llama-Mini"
    assert [f["rule"] for f in sick["report"]["findings"] if f["severity"] == "error"] == ["VOC001"]
    assert summary["counts"]["drafts"] == 2

    hub.asked.clear()
    again = command(hub, "hf://org", "--out", tmp_path / "out")
    assert json.loads(again.stdout.splitlines()[-1])["kept"] == 2
    assert [asked for asked in hub.asked if "org" in asked] == []  # the list of models is enough
    # A new commit of one of them.
    hub.repositories["org/sick"].commit(dict(hub.repositories["org/sick"].commits[commits["sick"]]))
    third = command(hub, "hf://org", "--out", tmp_path / "out")
    assert json.loads(third.stdout.splitlines()[-1])["kept"] == 1


def test_an_organisation_that_is_not_there_is_told(hub: Hub) -> None:
    done = command(hub, "hf://nobody")
    assert (done.returncode, done.stderr) == (3, "ckptdoctor: hf://nobody: has no models that you may see\n")
