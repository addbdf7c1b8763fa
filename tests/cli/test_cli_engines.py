"""`ckptdoctor engines` against the contract files, read without ckptdoctor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_drafts import ROOT, unsafe

from ckptdoctor.cli.main import run

Capture = pytest.CaptureFixture[str]


def contract_files() -> dict[str, dict[str, Any]]:
    paths = sorted(Path(ROOT / "rules" / "serving").glob("*.yaml"))
    found = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths]
    return {raw["engine"]: raw for raw in found if isinstance(raw, dict) and "releases" in raw}


def test_every_engine_with_its_releases(capsys: Capture) -> None:
    assert run(["engines"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert unsafe(out) == set()
    blocks = [block.splitlines() for block in out.rstrip("\n").split("\n\n")]
    files = contract_files()
    assert [block[0] for block in blocks] == [f"{engine}  {raw['name']}" for engine, raw in sorted(files.items())]
    for block, (_, raw) in zip(blocks, sorted(files.items()), strict=True):
        first, last, many = raw["releases"][0], raw["releases"][-1], len(raw["releases"])
        span = last if many == 1 else f"{first} to {last}"
        assert block[1] == f"  releases  {span} ({many} known)"
        assert block[2].startswith("  classes   ")
        classes = " ".join(line.strip() for line in block[2:-1]).removeprefix("classes   ").split(", ")
        assert classes == sorted({c["name"] for c in raw["classes"].values()})
        assert block[-1].startswith("  evidence  ")


def test_colours_only_when_asked_for(capsys: Capture) -> None:
    run(["engines"])
    assert "\x1b" not in capsys.readouterr().out
    run(["engines", "--color", "always"])
    assert "\x1b[" in capsys.readouterr().out


def test_it_takes_no_arguments(capsys: Capture) -> None:
    assert run(["engines", "sglang"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ckptdoctor: Got unexpected extra argument (sglang)\n")
