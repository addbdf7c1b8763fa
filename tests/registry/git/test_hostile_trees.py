"""Git's door and trees that were made to get around it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gate_drafts import HEALTHY, SICK
from git_repositories import Door, installed, judged, needs_git

pytestmark = needs_git


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (b"..", "its path leads out of its folder"),
        (b"../../escaped", "its path leads out of its folder"),
        (b"/escaped", "it is no path inside a tree"),
        (b".GIT", "no commit may hold a .git"),
        (b".cache", "it is in a .cache folder, which holds downloads and is not judged"),
        (b"x" * 300, "it cannot be laid out (File name too long)"),
    ],
)
def test_names_that_lead_elsewhere_are_refused(
    name: bytes, sentence: str, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = door.tree(("100644", name, door.blob(b"x")))
    verdict = judged(door, tree, monkeypatch)
    assert verdict.outcome == "refused"
    assert sentence in verdict.sentence
    assert not list(door.clone.parent.rglob("escaped"))


@pytest.mark.parametrize(
    ("leads", "sentence"),
    [
        ("/etc", "it is a link that leads out of the repository, to /etc"),
        ("sub/../../..", "it is a link that leads out of the repository"),
        ("up/up/up/up", "it is a link that leads out of the repository"),
        (".git/lfs/objects/0a/0a/file", "it is a link that leads out of the repository"),
        ("x" * 5000, "it is a link whose text has 5000 bytes; at most 4096 are read"),
    ],
)
def test_links_that_lead_out_are_refused(
    leads: str, sentence: str, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = door.tree(("100644", "file", door.blob(b"x")), ("120000", "up", door.blob(b"..")))
    tree = door.tree(
        ("120000", "link", door.blob(leads.encode())),
        ("040000", "sub", inner),
        ("120000", "up", door.blob(b"sub/up/..")),
    )
    verdict = judged(door, tree, monkeypatch)
    assert verdict.outcome == "refused"
    assert any(sentence in why for _, why in verdict.report.failed)


def test_nothing_is_written_through_a_link(door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outside").mkdir()
    inner = door.tree(("100644", "file", door.blob(b"x")), ("120000", "link", door.blob(b"file")))
    only_link = door.tree(("120000", "link", door.blob(b"file")))
    away = door.blob(str(tmp_path / "outside").encode())
    for folder in (inner, only_link):
        for entries in (
            (("120000", "a", away), ("040000", "a", folder)),
            (("040000", "a", folder), ("120000", "a", away)),
        ):
            verdict = judged(door, door.tree(*entries), monkeypatch)
            assert verdict.outcome == "refused"
            assert list((tmp_path / "outside").iterdir()) == []


def test_two_entries_of_one_name_are_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = door.tree(("100644", "a", door.blob(b"x")), ("100644", "a", door.blob(b"y")))
    assert "another file or folder of the same name is in its way" in judged(door, tree, monkeypatch).sentence


def test_links_inside_and_submodules_pass(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    door.put(HEALTHY)
    (door.clone / "model.safetensors").rename(door.clone / "weights.bin.real")
    (door.clone / "model.safetensors").symlink_to("weights.bin.real")
    commit = door.commit()
    door.git("update-index", "--add", "--cacheinfo", f"160000,{commit},third/party")
    door.git("commit", "--quiet", "--message", "submodule")
    verdict = judged(door, door.git("rev-parse", "HEAD"), monkeypatch)
    assert verdict.outcome == "passed"
    assert verdict.report.remarks == ("third/party is a submodule, another repository: it was not looked into.",)


@pytest.mark.parametrize("name", [b"a\nb", b"\xff\xfe", b"\x1b[2J", b"-rf", "Größe".encode(), b'it\'s "x"'])
def test_strange_names_are_judged_and_shown_harmlessly(
    name: bytes, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    door.put(SICK)
    files = [
        (line.split()[0], line.split("\t")[1], line.split()[2]) for line in door.git("ls-tree", "HEAD").split("\n")
    ]
    verdict = judged(door, door.tree(("040000", name, door.tree(*files))), monkeypatch)
    assert verdict.outcome == "refused"
    assert verdict.report.examinations[0].path == f"clone/{os.fsdecode(name)}"
    door.git("commit-tree", door.tree(("040000", name, door.tree(*files))), "-m", "x")


def test_a_strange_name_in_a_whole_push(door: Door) -> None:
    installed(door)
    door.put(SICK, "\udcff\x1b[2J\n")
    done = door.push("main")
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert "\\udcff\\x1b[2J\\x0a: EAGLE-3 draft" in done.stderr


@pytest.mark.parametrize("leaf", ["file", "nothing"])
def test_a_tree_of_billions_of_entries_is_refused(leaf: str, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = door.tree(("100644", "f", door.blob(b"x"))) if leaf == "file" else door.tree()
    for _ in range(10):
        tree = door.tree(*(("040000", f"d{n}", tree) for n in range(10)))
    assert "it has more than 100000 files and folders" in judged(door, tree, monkeypatch).sentence


def test_a_deep_tree_is_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = door.tree(("100644", "f", door.blob(b"x")))
    for _ in range(500):
        tree = door.tree(("040000", "d", tree))
    assert "folders in it are nested more than 64 deep" in judged(door, tree, monkeypatch).sentence


def test_a_huge_header_and_a_huge_config_are_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    door.put(HEALTHY)
    with (door.clone / "model.safetensors").open("r+b") as stream:
        stream.write((2**40).to_bytes(8, "little"))
    assert judged(door, door.commit(), monkeypatch).outcome == "refused"
    door.put(HEALTHY)
    with (door.clone / "config.json").open("r+b") as stream:
        stream.truncate(100 * 1024 * 1024)
    verdict = judged(door, door.commit(), monkeypatch)
    assert verdict.outcome == "refused"
    assert verdict.report.examinations[0].findings[0].rule == "CFG008"


def test_a_damaged_repository_is_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = door.tree(("100644", "model.safetensors", "12" * 20))
    assert (
        f"the object {'12' * 20} is missing from the repository or damaged" in judged(door, tree, monkeypatch).sentence
    )
