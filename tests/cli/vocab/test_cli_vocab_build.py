"""`ckptdoctor vocab build`: real files, exit codes, and what is told instead."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_calls import SCHEMA, Capture, bare, show, shown, stored_targets
from cli_drafts import ROOT

from ckptdoctor.cli.main import run
from ckptdoctor.vocab import build_map

FIXTURES = ROOT / "fixtures" / "vocab"
TARGET, COUNTS = str(FIXTURES / "target"), str(FIXTURES / "token-counts.json")


def build(capsys: Capture, *args: str) -> str:
    code = run(["vocab", "build", "--target", TARGET, "--token-counts", COUNTS, *args])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    return out


def test_a_new_map(capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "new"
    text = build(capsys, "--size", "128", "--out", str(out), "--force-ids", "400-402", "--also", "speculators")
    assert bare(text).startswith(bare(f"{out}: 128 of 512 target ids (25.0 %), ascending They cover"))
    assert "named by --force-ids: 3  (400, 401 and 402)" in text
    assert "no head: the target's weights are not at hand" in text
    assert sorted(p.name for p in out.iterdir()) == ["d2t.npy", "model.safetensors", "t2d.npy", "vocab.json"]
    SCHEMA.validate(json.loads((out / "vocab.json").read_text()))
    counts = np.zeros(512, dtype=np.int64)
    for i, n in json.loads(Path(COUNTS).read_text()).items():
        counts[int(i)] = n
    ids = build_map(counts, 128, {2, 3, 4, *range(5, 15), 400, 401, 402})
    assert stored_targets(str(out)) == ids.tolist()
    found = shown(capsys, str(out), "--target", TARGET, "--token-counts", COUNTS)
    assert found["map"]["verdict"] == "right"
    assert found["specials"]["outside"] == []
    assert found["coverage"]["covered"] == counts[ids].sum()
    assert "a vocabulary map without a draft" in show(capsys, str(out))


def test_a_dry_run_writes_nothing(capsys: Capture, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    text = build(capsys, "--size", "128", "--dry-run", "--out", str(tmp_path / "new"))
    assert "would be written" in text
    assert "next commands" not in text
    data = json.loads(build(capsys, "--size", "128", "--dry-run", "--format", "json"))
    SCHEMA.validate(data)
    assert data["draft_vocab_size"] == 128
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (["--size", "513", "--dry-run"], 2, "--size 513: the target's vocabulary has 512 ids"),
        (["--size", "3", "--dry-run"], 2, "--size 3: 13 ids must be in it"),
        (["--size", "0", "--dry-run"], 2, "Invalid value for '--size'"),
        (["--size", "64"], 2, "--out NEW is missing"),
        (["--size", "64", "--dry-run", "--force-ids", "x"], 2, "--force-ids: 'x' is no id"),
        (["--size", "64", "--dry-run", "--force-ids", "600"], 2, "id 600 cannot be forced"),
        (["--size", "64", "--out", TARGET], 2, f"--out {TARGET}: is the source itself"),
        (["--size", "64", "--dry-run", "--target", "no/such"], 3, "no/such: no such file or folder"),
        (["--size", "64", "--dry-run", "--token-counts", "no/such.json"], 3, "--token-counts no/such.json: no such"),
    ],
)  # fmt: skip
def test_one_sentence_instead_of_a_map(capsys: Capture, args: list[str], code: int, sentence: str) -> None:
    given = ["--target", TARGET, "--token-counts", COUNTS]
    assert run(["vocab", "build", *given, *args]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"ckptdoctor: {sentence}")
