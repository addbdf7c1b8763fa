"""`ckptdoctor audit` as a person calls it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from audit_trees import HEALTHY, SICK, draft
from click.testing import CliRunner

from ckptdoctor.cli.main import main, run

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("command") / "drafts"
    draft(root / "healthy")
    draft(root / "sick", SICK)
    return root


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ckptdoctor", "audit", *map(str, words)], cwd=ROOT, capture_output=True, text=True
    )


TOLD = "2 drafts: 1 with errors, 1 without; 1 not served as trained; 1 not known to be served"


def test_text_names_the_sick_and_exits_with_1(tree: Path, tmp_path: Path) -> None:
    done = command(tree, "--out", tmp_path / "out", "--jobs", "1")
    assert done.returncode == 1
    assert done.stdout.startswith(f"{TOLD}\n\n  the worst first\n\n    drafts/sick: 1 error")
    said = f"{TOLD}; all results are in {tmp_path}/out/results.jsonl"
    assert done.stderr == f"ckptdoctor: {said}\n"
    never = command(tree, "--out", tmp_path / "out", "--fail-on", "never")
    assert never.returncode == 0
    assert "2 results kept from before" in never.stdout


def test_lines_end_with_the_summary(tree: Path) -> None:
    done = command(tree, "--format", "jsonl", "--jobs", "1", "--select", "VOC001")
    *rows, summary = map(json.loads, done.stdout.splitlines())
    assert [row["key"] for row in rows] == ["drafts/healthy", "drafts/sick"]
    assert summary["kind"] == "summary"
    assert summary["rules"] == {"VOC001": {"name": "d2t-absolute", "severity": "error", "drafts": 1}}


def test_a_baseline_and_exceptions_hold(tree: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "known.json"
    assert run(["scan", str(tree / "sick"), "--write-baseline", str(baseline), "--color", "never"]) == 1
    done = command(tree / ".", "--baseline", baseline, "--jobs", "1")
    assert done.returncode == 0
    assert "no errors, no warnings" in done.stdout


def test_a_given_target_is_that_of_all(tree: Path, tmp_path: Path) -> None:
    target = draft(tmp_path / "x", HEALTHY, target=True) / "target"
    done = command(tree, "--target", target, "--format", "jsonl", "--jobs", "1")
    told = [json.loads(line)["target"] for line in done.stdout.splitlines()[:-1]]
    assert [(t["path"], t["why"], t["source"]) for t in told] == [
        (str(target), "it was given for all drafts", "given")
    ] * 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["/no/such/folder"], 3, "/no/such/folder: no such folder"),
        ([__file__], 3, "is a file, not a folder"),
        (["TREE", "--fresh"], 2, "name its --out DIR"),
        (["TREE", "--engine", "nothing"], 2, "nothing"),
        (["TREE", "--select", "NOPE"], 2, "NOPE"),
        (["TREE", "--target", "/no/such"], 3, "/no/such"),
        (["TREE", "--rules", "/no/such"], 2, "/no/such"),
        (["file:///tmp", "--deep"], 2, "files on this machine alone"),
        (["TREE", "--out", __file__], 3, "cannot be used"),
        (["TREE", "--baseline", "/no/such"], 2, "baseline"),
        (["TREE", "--policy", "/no/such"], 2, "no such file"),
        (["nosuch://x"], 3, "Protocol not known: nosuch"),
        (["hf://a/b/c"], 3, "hf://a/b/c"),
    ],
)
def test_wrong_calls_are_told_in_a_sentence(
    words: list[str], code: int, said: str, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", *(str(tree) if word == "TREE" else word for word in words)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert "Traceback" not in captured.err


def test_a_tree_without_drafts_passes(tmp_path: Path) -> None:
    done = command(tmp_path)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "no drafts")


def test_help_says_what_a_root_is() -> None:
    text = CliRunner().invoke(main, ["audit", "--help"]).output
    assert "hf://ORGANISATION" in text
