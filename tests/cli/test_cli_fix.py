"""`ckptdoctor fix` as a person runs it: output, exit codes, and what is left on the disk."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from recipe_cases import RECIPES, Built

from ckptdoctor.resources import rules_dir

SCHEMA = Draft202012Validator(json.loads((rules_dir() / "schema" / "fix.schema.json").read_bytes()))


ENV = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "NO_COLOR": "1"}


def run(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ckptdoctor", "fix", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=ENV)


@pytest.fixture
def sick(built: Built, tmp_path: Path) -> Path:
    """A draft of one's own to do with as one likes."""
    folder = tmp_path / "draft"
    shutil.copytree(built.path(RECIPES["d2t-absolute"]), folder)
    return folder


@pytest.mark.usefixtures("sick")
def test_a_repair_is_written_and_told(tmp_path: Path) -> None:
    done = run("draft", "--out", "new", "--target", "draft/target", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for part in (
        "1 repair made",
        "map-to-offsets  VOC001  (safe)",
        "- I64 [128]  0 1 2 3 4 5 6 7 …",
        "+ I64 [128]  0 0 0 0 0 0 0 0 …",
        "wrote new: 3 files",
        "ckptdoctor scan new --target draft/target",
        "ckptdoctor fix --undo new --out OLD",
    ):
        assert part in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["draft", "new"]


@pytest.mark.usefixtures("sick")
def test_a_dry_run_writes_nothing_and_says_the_same(tmp_path: Path) -> None:
    done = run("draft", "--dry-run", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 repair would be made" in done.stdout
    assert "ckptdoctor fix draft --out NEW" in done.stdout
    assert sorted(p.name for p in tmp_path.iterdir()) == ["draft"]


@pytest.mark.usefixtures("sick")
@pytest.mark.parametrize("words", [("--dry-run",), ("--out", "new"), ("--dry-run", "--out", "new", "--unsafe")])
def test_the_json_agrees_with_its_schema(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run("draft", "--format", "json", *words, cwd=tmp_path)
    data = json.loads(done.stdout)
    SCHEMA.validate(data)
    assert data["written"] == ("--dry-run" not in words)
    assert [r["treatment"] for r in data["repairs"]] == ["map-to-offsets"]
    assert data["remaining"]["error"] == 0


def test_the_json_of_every_sick_draft_agrees_with_its_schema(built: Built) -> None:
    from ckptdoctor.errors import CkptdoctorError
    from ckptdoctor.repair.fixing import fix
    from ckptdoctor.report.fix.as_json import fix_text

    for recipe in RECIPES.values():
        if recipe.wrong is None or recipe.needs_torch:
            continue
        folder = built.path(recipe)
        try:
            outcome = fix(
                folder, None, dry_run=True, unsafe=True, engines=recipe.engines,
                target=folder / "target" if recipe.target is not None else None,
            )  # fmt: skip
        except CkptdoctorError:
            assert recipe.id.endswith("link-not-followed")
            continue
        SCHEMA.validate(json.loads(fix_text(outcome, None)))


def test_what_remains_decides_the_exit_code(built: Built, tmp_path: Path) -> None:
    folder = built.path(RECIPES["readme-sick-draft"])
    done = run(folder, "--out", tmp_path / "new", "--target", folder / "target")
    assert done.returncode == 1
    assert (tmp_path / "new" / "model.safetensors").exists()
    assert "stays as it is" in done.stdout
    again = run(folder, "--out", tmp_path / "other", "--target", folder / "target", "--fail-on", "never")
    assert again.returncode == 0


def test_nothing_to_repair_writes_nothing(built: Built, tmp_path: Path) -> None:
    done = run(built.path(RECIPES["specforge-eagle3"]), "--out", tmp_path / "new")
    assert done.returncode == 0
    assert "Nothing to repair." in done.stdout
    assert "nothing written" in done.stdout
    assert not any(tmp_path.iterdir())


@pytest.mark.usefixtures("sick")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "--out NEW is missing"),
        (("--out", ""), 2, "--out is empty"),
        (("--out", "draft"), 2, "is the source itself"),
        (("--out", "draft/new"), 2, "inside the source"),
        (("--out", "link"), 2, "is the source itself"),
        (("--out", "full"), 2, "not empty"),
        (("--out", "full/file"), 2, "not a folder"),
        (("--out", "absent/new"), 2, "does not exist"),
        (("--out", "new", "--select", "NOTHING1"), 2, "there is no rule"),
        (("--out", "new", "--engine", "nothing"), 2, "unknown engine"),
        (("--out", "new", "--trained-with", "nothing"), 2, "unknown writer"),
        (("--out", "new", "--undo", "--unsafe"), 2, "takes no --unsafe"),
        (("--out", "new", "--undo"), 2, "nothing to undo"),
        (("--out", "new", "--target", "absent"), 3, "no such file"),
    ],
)
def test_bad_usage_is_one_sentence(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x", encoding="utf-8")
    (tmp_path / "link").symlink_to("draft")
    done = run("draft", *words, cwd=tmp_path)
    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["draft", "full", "link"]


@pytest.mark.usefixtures("sick")
@pytest.mark.parametrize("path", ["absent", "draft/model.safetensors", "draft/config.json"])
def test_what_cannot_be_repaired_as_a_whole(tmp_path: Path, path: str) -> None:
    done = run(path, "--out", "new", cwd=tmp_path)
    assert done.returncode in (2, 3)
    assert done.stderr.startswith("ckptdoctor: ")
    assert not (tmp_path / "new").exists()


def test_undo_brings_the_original_back(sick: Path, tmp_path: Path) -> None:
    run("draft", "--out", "new", cwd=tmp_path)
    done = run("--undo", "new", "--out", "old", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "as they were before" in done.stdout
    for path in sick.rglob("*"):
        if path.is_file():
            assert (tmp_path / "old" / path.relative_to(sick)).read_bytes() == path.read_bytes()
    told = run("--undo", "new", "--out", "older", "--format", "json", cwd=tmp_path)
    assert json.loads(told.stdout)["unproven"] == []


def test_hostile_names_do_not_reach_the_terminal(sick: Path, tmp_path: Path) -> None:
    (sick / "\x1b[31mred\u202e.txt").write_text("x", encoding="utf-8")
    config = json.loads((sick / "config.json").read_text(encoding="utf-8"))
    config["draft_vocab_size"] = "128"
    config["\x1b[2J"] = "\x1b[2J"
    (sick / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for words in (("--dry-run",), ("--out", "new"), ("--out", "\x1b[2Jnew"), ("--dry-run", "--format", "json")):
        done = run("draft", *words, cwd=tmp_path)
        assert done.returncode == 0
        assert "\x1b" not in done.stdout + done.stderr
        assert "\u202e" not in done.stdout + done.stderr


@pytest.mark.usefixtures("sick")
def test_a_bar_appears_on_a_terminal_alone(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "ckptdoctor", "fix", "draft", "--out", "new"],
        stdout=subprocess.PIPE, stderr=theirs, cwd=tmp_path, env={**ENV, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            part = os.read(ours, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    stdout = child.communicate()[0]
    os.close(ours)
    assert child.returncode == 0
    assert b"reading" in seen or b"copying" in seen or b"comparing" in seen
    assert b"1 repair made" in stdout
    assert b"copying" not in stdout
