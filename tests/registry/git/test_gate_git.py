"""Git's door: pushes that real git makes to a bare repository, with real git-lfs, and attempts to get around it."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from gate_drafts import HEALTHY, SICK, WARNED
from git_repositories import ROOT, Door, door_in, needs_git, needs_lfs

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.registry import gate_policy
from ckptdoctor.registry.gate import Verdict
from ckptdoctor.registry.git.commands import find_repository
from ckptdoctor.registry.git.layout import LfsObjects
from ckptdoctor.registry.git.lfs import Pointer, own_stores, read_pointer
from ckptdoctor.registry.git.pushes import Update, judge_updates, pre_push_updates, receive_updates

pytestmark = needs_git

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return door_in(tmp_path, lfs=False)


@pytest.fixture
def lfs_door(tmp_path: Path) -> Door:
    return door_in(tmp_path, lfs=True)


def installed(door: Door, *args: str) -> Door:
    done = door.doctor("gate", "install", *args)
    assert done.returncode == 0, done.stderr
    return door


def judged(door: Door, name: str, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """The verdict of a commit or tree, without a push."""
    monkeypatch.chdir(door.clone)
    for key in ("HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        monkeypatch.setenv(key, door.env[key])
    repository = find_repository()
    lfs = LfsObjects(own_stores(repository), "is not in this clone")
    (only,) = judge_updates(repository, [Update("refs/heads/x", name)], gate_policy(None), lfs)
    assert only.verdict is not None
    assert door.leftovers == []
    return only.verdict


# --- what is stored on the other side


@needs_lfs
def test_nothing_of_a_sick_draft_is_stored_and_all_of_a_healthy_one(lfs_door: Door) -> None:
    door = installed(lfs_door)
    sick = door.put(SICK)
    done = door.push("main")
    assert done.returncode == 1
    assert "VOC001 d2t-absolute  model.safetensors, d2t" in done.stderr
    assert f"ckptdoctor: refs/heads/main ({sick[:10]}): refused: 1 error found\n" in done.stderr
    assert "ckptdoctor: nothing was pushed\n" in done.stderr
    assert door.stored == ([], [])

    door.git("reset", "--quiet", "--hard", "HEAD~1")
    healthy = door.put(HEALTHY)
    done = door.push("main")
    assert done.returncode == 0, done.stderr
    assert f"ckptdoctor: refs/heads/main ({healthy[:10]}): passes\n" in done.stderr
    refs, objects = door.stored
    assert refs == ["refs/heads/main"]
    assert len(objects) == 1
    assert door.leftovers == []


@needs_lfs
def test_a_warning_passes_with_its_report(lfs_door: Door) -> None:
    door = installed(lfs_door)
    commit = door.put(WARNED)
    done = door.push("main")
    assert done.returncode == 0
    assert "VOC018 t2d-length" in done.stderr
    assert "ckptdoctor fix . --out NEW" in done.stderr
    assert f"refs/heads/main ({commit[:10]}): passes, with 1 warning to look at" in done.stderr
    assert str(door.clone / ".git") not in done.stderr  # the private folder is no place for a person
    assert len(door.stored[1]) == 1


def test_commits_are_judged_and_not_the_work_tree(door: Door) -> None:
    installed(door)
    door.put(SICK)
    shutil.copy(door.clone / "model.safetensors", door.clone.parent / "sick")
    door.put(HEALTHY, message="repaired")
    shutil.copy(door.clone.parent / "sick", door.clone / "model.safetensors")
    door.git("add", "--all")  # sick in the work tree and in the index
    assert door.push("main").returncode == 0
    door.git("reset", "--quiet", "--hard")  # healthy in both
    assert door.push("HEAD~1:refs/heads/old").returncode == 1
    assert door.stored[0] == ["refs/heads/main"]


def test_all_refs_of_a_push_stay_outside_with_a_sick_one(door: Door) -> None:
    installed(door)
    door.put(HEALTHY)
    door.git("branch", "same")
    door.git("checkout", "--quiet", "-b", "sick")
    door.put(SICK)
    done = door.push("main", "same", "sick")
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("ckptdoctor: refs/")]
    assert [line.split(" ")[1] + line.split(":", 2)[2] for line in said] == [
        "refs/heads/main passes",
        "refs/heads/same passes",
        "refs/heads/sick refused: 1 error found",
    ]
    assert done.stderr.count("VOC001 d2t-absolute") == 1
    assert door.stored == ([], [])


def test_deletions_pass_and_forced_pushes_and_tags_are_judged(door: Door) -> None:
    installed(door)
    door.put(HEALTHY)
    assert door.push("main", "main:refs/heads/gone").returncode == 0
    done = door.push(":refs/heads/gone")
    assert done.returncode == 0
    assert "ckptdoctor: refs/heads/gone: is deleted, nothing to judge" in done.stderr
    door.git("commit", "--quiet", "--amend", "--message", "again")
    door.put(SICK)
    door.git("tag", "--annotate", "--message", "a release", "v1")
    assert door.push("--force", "main").returncode == 1
    assert door.push("v1").returncode == 1
    assert door.push("HEAD:refs/pr/1").returncode == 1
    door.git("tag", "file", door.blob(b"a file"))
    done = door.push("file")
    assert done.returncode == 1
    assert "it leads to no commit in this repository, and nothing else can be judged" in done.stderr
    assert door.stored[0] == ["refs/heads/main"]


def test_an_expression_with_blanks_is_pushed_as_any_other(door: Door) -> None:
    installed(door)
    door.put(SICK)
    done = door.push("HEAD@{1 second ago}:refs/heads/x")
    assert done.returncode == 1
    assert "ckptdoctor: refs/heads/x" in done.stderr


@pytest.mark.parametrize("name", ["best.safetensors", "sub/deep/model.safetensors"])
def test_a_renamed_file_is_judged_all_the_same(name: str, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    door.put(SICK)
    place = door.clone / name
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(door.clone / "config.json", place.parent / "config.json") if "/" in name else None
    (door.clone / "model.safetensors").rename(place)
    verdict = judged(door, door.commit(), monkeypatch)
    assert verdict.outcome == "refused"
    assert verdict.report.examinations[0].path == ("clone/sub/deep" if "/" in name else "clone")


def test_a_replacement_object_does_not_stand_in_for_what_is_pushed(door: Door) -> None:
    installed(door)
    sick = door.put(SICK)
    healthy = door.put(HEALTHY)
    door.git("update-ref", "refs/heads/main", sick)
    door.git("replace", sick, healthy)
    assert door.push("main").returncode == 1
    assert door.stored[0] == []


# --- git-lfs


@needs_lfs
def test_a_pointer_without_its_object_is_refused(lfs_door: Door) -> None:
    door = installed(lfs_door)
    door.put(SICK)
    shutil.rmtree(door.clone / ".git" / "lfs" / "objects")
    done = door.push("main")
    assert done.returncode == 1
    assert "model.safetensors: it is a git-lfs pointer, and its object " in done.stderr
    assert " is not in this clone; the remote may have it: git lfs fetch origin" in " ".join(done.stderr.split())
    assert door.stored == ([], [])


@needs_lfs
@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "it is damaged or was changed"), (b"short", "its git-lfs object has 5 bytes, and the pointer says")],
)
def test_an_object_that_is_not_what_its_pointer_names_is_refused(
    content: bytes | None, sentence: str, lfs_door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = lfs_door.put(HEALTHY)
    (stored,) = [p for p in (lfs_door.clone / ".git" / "lfs" / "objects").rglob("*") if p.is_file()]
    whole = bytearray(stored.read_bytes())
    whole[-1] ^= 1
    stored.chmod(0o644)
    stored.write_bytes(bytes(whole) if content is None else content)
    verdict = judged(lfs_door, commit, monkeypatch)
    assert verdict.outcome == "refused"
    assert sentence in verdict.sentence


@needs_lfs
def test_objects_are_found_where_git_lfs_keeps_them(lfs_door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = lfs_door.put(HEALTHY)
    (lfs_door.clone / ".git" / "lfs" / "objects").rename(lfs_door.clone.parent / "objects")
    assert judged(lfs_door, commit, monkeypatch).outcome == "refused"
    lfs_door.git("config", "lfs.storage", str(lfs_door.clone.parent))
    assert judged(lfs_door, commit, monkeypatch).outcome == "passed"
    lfs_door.git("config", "lfs.storage", "../..")
    assert judged(lfs_door, commit, monkeypatch).outcome == "passed"


@needs_lfs
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_object_that_cannot_be_read_is_refused(lfs_door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = lfs_door.put(HEALTHY)
    (stored,) = [p for p in (lfs_door.clone / ".git" / "lfs" / "objects").rglob("*") if p.is_file()]
    stored.chmod(0)
    assert "cannot be read (Permission denied)" in judged(lfs_door, commit, monkeypatch).sentence


def test_objects_of_a_repository_that_one_borrows_from_are_found(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    door.git("init", "--quiet", str(tmp_path / "other"), at=tmp_path)
    alternates = door.clone / ".git" / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"# a remark\n{tmp_path / 'other' / '.git' / 'objects'}\n", encoding="utf-8")
    monkeypatch.chdir(door.clone)
    assert own_stores(find_repository()) == (
        door.clone / ".git" / "lfs" / "objects",
        tmp_path / "other" / ".git" / "lfs" / "objects",
    )


def test_pointers_are_read_as_git_lfs_reads_them() -> None:
    oid = "0a" * 32
    pointer = POINTER.format(oid=oid, size=12)
    assert read_pointer(pointer.encode()) == Pointer(oid, 12, False)
    extended = pointer.replace("oid", f"ext-0-case sha256:{oid}\noid")
    assert read_pointer(extended.encode()) == Pointer(oid, 12, True)
    for other in (pointer.upper(), pointer + "x", pointer.replace("sha256", "md5"), "", pointer + " " * 1024):
        assert read_pointer(other.encode()) is None


def test_an_extension_of_git_lfs_is_refused_and_an_empty_file_needs_no_object(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    oid = "0a" * 32
    extended = POINTER.format(oid=oid, size=12).replace("oid", f"ext-0-case sha256:{oid}\noid", 1)
    blob = door.blob(extended.encode())
    verdict = judged(door, door.tree(("100644", "x.bin", blob)), monkeypatch)
    assert "its git-lfs pointer names an extension" in verdict.sentence
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    blob = door.blob(POINTER.format(oid=empty, size=0).encode())
    assert judged(door, door.tree(("100644", "x.txt", blob)), monkeypatch).outcome == "empty"


# --- hostile trees


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


# --- what git tells a hook


def test_lines_of_hooks() -> None:
    new, old, none = "1a" * 20, "2b" * 32, "0" * 40
    lines = f"HEAD@{{1 day ago}} {new} refs/heads/x {none}\n(delete) {none} refs/heads/y {new}\n"
    assert pre_push_updates(lines.encode()) == (Update("refs/heads/x", new), Update("refs/heads/y", None))
    lines = f"{none} {old} refs/heads/x\n{new} {none} refs/tags/y\n"
    assert receive_updates(lines.encode()) == (Update("refs/heads/x", old), Update("refs/tags/y", None))
    assert pre_push_updates(b"") == ()
    for bad in (b"one two\n", b"a --help refs/x b\n", f"x {new[:-1]} refs/heads/x {none}\n".encode()):
        with pytest.raises(CannotExamineError, match="no line about a ref"):
            pre_push_updates(bad)
        with pytest.raises(CannotExamineError, match="no line about a ref"):
            receive_updates(bad)


# --- the hook


BEFORE = """#!/bin/sh
printf '%s\\n' "$@" > "{log}"
cat >> "{log}"
"""


def earlier_hook(door: Door, log: Path) -> Path:
    hook = door.clone / ".git" / "hooks" / "pre-push"
    hook.write_text(BEFORE.format(log=log), encoding="utf-8")
    hook.chmod(0o755)
    return hook


def test_the_hook_from_before_runs_after_the_gate_with_the_same_input(door: Door, tmp_path: Path) -> None:
    log = tmp_path / "log"
    hook = earlier_hook(door, log)
    text = hook.read_text(encoding="utf-8")
    installed(door)
    sick = door.put(SICK)
    assert door.push("main").returncode == 1
    assert not log.exists()
    healthy = door.put(HEALTHY)
    assert door.push("main", f"{healthy}:refs/heads/two words".replace(" ", "-")).returncode == 0
    none = "0" * 40
    assert log.read_text(encoding="utf-8").splitlines() == [
        "origin",
        door.remote.as_uri(),
        f"refs/heads/main {healthy} refs/heads/main {none}",
        f"{healthy} {healthy} refs/heads/two-words {none}",
    ]
    first = {path.name: path.read_bytes() for path in hook.parent.iterdir()}
    installed(door)
    assert {path.name: path.read_bytes() for path in hook.parent.iterdir()} == first
    done = door.doctor("gate", "uninstall")
    assert (done.returncode, done.stderr) == (0, "ckptdoctor: pushes of this clone are no longer judged\n")
    assert hook.read_text(encoding="utf-8") == text
    assert stat.S_IMODE(hook.stat().st_mode) == 0o755
    assert not (door.clone / ".git" / "ckptdoctor").exists()
    assert door.push(f"{sick}:refs/heads/sick").returncode == 0


def test_a_hook_from_before_that_fails_stops_the_push(door: Door) -> None:
    hook = door.clone / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\nexit 7\n", encoding="utf-8")
    hook.chmod(0o755)
    installed(door)
    door.put(HEALTHY)
    assert door.push("main").returncode == 1
    assert door.stored[0] == []


def test_without_a_gate_there_is_nothing_to_take_away(door: Door, tmp_path: Path) -> None:
    done = door.doctor("gate", "uninstall")
    assert done.returncode == 3
    assert "there is no gate of ckptdoctor here" in done.stderr
    done = door.doctor("gate", "install", at=tmp_path)
    assert done.returncode == 3
    assert "there is no git repository here" in done.stderr


@needs_lfs
def test_git_lfs_that_comes_later(lfs_door: Door) -> None:
    door = lfs_door
    (door.clone / ".git" / "hooks" / "pre-push").unlink()
    (door.clone / ".git" / "lfs").mkdir(exist_ok=True)
    done = door.doctor("gate", "install")
    assert "git-lfs's pre-push hook, which uploads the objects, is not among those" in done.stderr
    done = door.run("git", "lfs", "install", "--local")
    assert "Hook already exists: pre-push" in done.stdout + done.stderr
    # The way that the remark names.
    assert door.doctor("gate", "uninstall").returncode == 0
    door.git("lfs", "install", "--local")
    done = door.doctor("gate", "install")
    assert "git-lfs" not in done.stderr
    door.put(HEALTHY)
    assert door.push("main").returncode == 0
    assert len(door.stored[1]) == 1
    # Or by force: the gate is gone, and installing it again keeps both.
    door.git("lfs", "update", "--force")
    done = door.doctor("gate", "install")
    assert "was written by somebody else since, and runs after the gate" in done.stderr
    door.put(SICK)
    assert door.push("main").returncode == 1
    assert len(door.stored[1]) == 1


def test_other_folders_of_hooks_and_other_work_trees(door: Door, tmp_path: Path) -> None:
    door.git("config", "core.hooksPath", str(tmp_path / "shared hooks"))
    done = door.doctor("gate", "install")
    assert "other repositories may share" in done.stderr
    door.put(SICK)
    assert door.push("main").returncode == 1
    door.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "second tree"))
    done = door.run("git", "push", "origin", "HEAD:refs/heads/x", at=tmp_path / "second tree")
    assert done.returncode == 1
    assert "VOC001" in done.stderr
    done = door.doctor("gate", "uninstall")
    assert "stays, since other repositories may use it" in done.stderr
    assert door.push("main").returncode == 0


def test_a_hooks_folder_that_is_none(door: Door) -> None:
    door.git("config", "core.hooksPath", "/dev/null")
    done = door.doctor("gate", "install")
    assert done.returncode == 3
    assert "the hook cannot be installed" in done.stderr


def test_a_gate_that_cannot_run_refuses(door: Door) -> None:
    installed(door)
    door.put(HEALTHY)
    home = door.clone / ".git" / "ckptdoctor"
    judge = (home / "judge").read_text(encoding="utf-8")
    (home / "judge").write_text(judge.replace(sys.executable, "/nowhere/python"), encoding="utf-8")
    done = door.push("main")
    assert done.returncode == 1
    assert "the gate cannot run, so nothing was pushed: /nowhere/python is not there any more" in done.stderr
    (home / "judge").unlink()
    assert "the gate of this repository is damaged, so nothing was pushed" in door.push("main").stderr
    installed(door)
    (home / "policy.toml").write_text("fail-on = 'sometimes'", encoding="utf-8")
    done = door.push("main")
    assert done.returncode == 1
    assert "the push could not be judged, so it is refused: nothing was pushed" in done.stderr
    assert "`git push --no-verify` skips all hooks" in done.stderr
    assert door.stored[0] == []


def test_modules_of_the_work_tree_are_not_run(door: Door) -> None:
    door.env.pop("PYTHONPATH")
    door.env["PYTHONPATH"] = f":{Path(__file__).resolve().parents[3]}"  # the current folder first, as it happens
    installed(door)
    for name in ("click.py", "sitecustomize.py", "ckptdoctor/__init__.py", "json.py", "yaml.py"):
        path = door.clone / name
        path.parent.mkdir(exist_ok=True)
        if name != "sitecustomize.py":
            path.write_text("import os; os.system('echo RAN >&2'); os._exit(0)", encoding="utf-8")
    door.put(SICK)
    done = door.push("main")
    assert done.returncode == 1
    assert "RAN" not in done.stderr
    assert "VOC001" in done.stderr


def test_a_hook_without_its_environment_runs(door: Door) -> None:
    installed(door)
    door.put(SICK)
    env = {k: v for k, v in door.env.items() if k in ("HOME", "GIT_CONFIG_GLOBAL")} | {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(["git", "push", "origin", "main"], cwd=door.clone, env=env, capture_output=True, text=True)
    assert done.returncode == 1
    assert "VOC001" in done.stderr


# --- the policy


def test_the_policy_that_was_installed_counts_and_none_of_the_tree(door: Door, tmp_path: Path) -> None:
    door.put(SICK)
    rules = tmp_path / "policies" / "own"
    shutil.copytree(Path(__file__).resolve().parents[3] / "docs" / "examples", rules, ignore=lambda *_: ["*"])
    (tmp_path / "policies" / "strict.toml").write_text(
        "fail-on = 'warning'\nlaunch = \"python -m sglang.launch_server --speculative-algorithm 'EAGLE3'\"\n"
        "engines = ['sglang']\nrules = ['own']\n[severity]\nVOC001 = 'note'\naux-ids-absent = 'warning'\n"
        "[[ignore]]\nrule = 'KEY'\nreason = 'It is “known” \\\\ there.'\nexpires = 2999-01-01\npath = 'x*'\n",
        encoding="utf-8",
    )
    (door.clone / "ckptdoctor.toml").write_text("fail-on = 'never'", encoding="utf-8")
    door.commit()
    done = door.doctor("gate", "install")
    assert "ckptdoctor.toml of the work tree is not followed" in done.stderr
    done = door.push("main")
    assert done.returncode == 1
    assert "ckptdoctor.toml in . is not followed" in " ".join(done.stderr.split())
    done = door.doctor("gate", "install", "--policy", str(tmp_path / "policies" / "strict.toml"))
    assert done.returncode == 0, done.stderr
    shutil.rmtree(tmp_path / "policies")
    door.doctor("gate", "install")  # the copy stays
    from ckptdoctor.policy import load_policy

    home = door.clone / ".git" / "ckptdoctor"
    policy = load_policy(home / "policy.toml")
    assert policy.rules == (home / "rules" / "0",)
    assert policy.launch == "python -m sglang.launch_server --speculative-algorithm 'EAGLE3'"
    assert policy.exemptions[0].reason == "It is “known” \\\\ there."
    done = door.push("main")
    assert done.returncode == 1
    assert "AUX008 aux-ids-absent" in done.stderr


def test_a_baseline_comes_along_with_the_policy(door: Door) -> None:
    commit = door.put(SICK)
    door.put(SICK, "other")
    done = door.doctor("scan", ".", "--write-baseline", "known.json")
    assert done.returncode == 1
    (door.clone / "ckptdoctor.toml").write_text("baseline = 'known.json'", encoding="utf-8")
    installed(door, "--policy", "ckptdoctor.toml")
    (door.clone / "known.json").unlink()
    rows = json.loads((door.clone / ".git" / "ckptdoctor" / "baseline.json").read_text(encoding="utf-8"))["findings"]
    assert {row["path"] for row in rows} == {str(door.clone)}
    done = door.push(f"{commit}:refs/heads/known")
    assert done.returncode == 0, done.stderr
    done = door.push("main")
    assert done.returncode == 1
    assert "clone/other: EAGLE-3 draft" in done.stderr


def test_a_policy_that_cannot_be_read_is_not_installed(door: Door) -> None:
    (door.clone / "bad.toml").write_text("fail-on = 'sometimes'", encoding="utf-8")
    done = door.doctor("gate", "install", "--policy", "bad.toml")
    assert done.returncode == 2
    assert "is no project file of ckptdoctor" in done.stderr
    assert not (door.clone / ".git" / "hooks" / "pre-push").exists()


# --- the server


def server(door: Door, options: str = "") -> None:
    """The hook of the page about gates, with this Python in place of an installed command."""
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- a pre-receive hook -->\n```sh\n(.*?)```", page, re.DOTALL)
    assert found
    command = f"env PYTHONPATH='{ROOT}' '{sys.executable}' -m ckptdoctor"
    text = found[1].replace("/opt/ckptdoctor/bin/ckptdoctor", command)
    text = text.replace("--policy /etc/ckptdoctor/models.toml", options)
    assert "ckptdoctor/bin" not in text
    assert "/etc/" not in text
    hook = door.remote / "hooks" / "pre-receive"
    hook.write_text(text, encoding="utf-8")
    hook.chmod(0o755)


@needs_lfs
def test_a_server_refuses_what_a_clone_did_not_look_at(lfs_door: Door) -> None:
    door = installed(lfs_door)
    server(door)
    door.put(HEALTHY)
    done = door.push("--no-verify", "main")  # nothing of git-lfs was uploaded
    assert done.returncode == 1
    assert "is not in the storage of this server" in done.stderr
    assert door.push("main").returncode == 0  # git-lfs's transfer to a folder puts objects where the server looks
    sick = door.put(SICK)
    done = door.push("--no-verify", "main", "HEAD~1:refs/heads/healthy")
    assert done.returncode == 1
    door.git("lfs", "push", "origin", "main")
    done = door.push("--no-verify", "main", "HEAD~1:refs/heads/healthy")
    assert done.returncode == 1
    assert f"remote: ckptdoctor: refs/heads/main ({sick[:10]}): refused: 1 error found" in done.stderr
    assert "remote: ckptdoctor: nothing was stored" in done.stderr
    assert "VOC001 d2t-absolute" in done.stderr
    assert "ckptdoctor fix" not in done.stderr  # there are no files to repair on a server
    assert door.stored[0] == ["refs/heads/main"]
    done = door.push("--no-verify", ":refs/heads/main")
    assert "refs/heads/main: is deleted, nothing to judge" in done.stderr
    assert door.leftovers == []


@needs_lfs
@pytest.mark.parametrize("layout", ["git-lfs", "rest"])
def test_a_server_with_a_storage_of_its_own(layout: str, lfs_door: Door, tmp_path: Path) -> None:
    door = lfs_door
    door.put(HEALTHY)
    store = tmp_path / "store"
    for path in (p for p in (door.clone / ".git" / "lfs" / "objects").rglob("*") if p.is_file()):
        oid = path.name
        place = store / oid[:2] / oid[2:4] / (oid if layout == "git-lfs" else oid[4:])
        place.parent.mkdir(parents=True)
        shutil.copy(path, place)
    server(door, f"--lfs-storage '{store}'")
    done = door.push("--no-verify", "main")
    assert done.returncode == 0, done.stderr
    assert "passes" in done.stderr


@needs_lfs
def test_objects_may_be_missing_where_the_server_says_so(lfs_door: Door) -> None:
    door = lfs_door
    (door.clone / ".gitattributes").write_text("in-lfs/*.safetensors filter=lfs -text\n", encoding="utf-8")
    door.put(SICK, "in-lfs")
    door.put(WARNED, "plain")
    server(door, "--allow-missing-lfs")
    done = door.push("--no-verify", "main")
    assert done.returncode == 0, done.stderr
    assert "in-lfs was not judged: it holds objects of git-lfs that are not here." in done.stderr
    assert "passes, with 1 warning to look at" in done.stderr
    door.put(SICK, "plain")
    assert door.push("--no-verify", "main").returncode == 1


def test_a_servers_policy_is_its_own(door: Door, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("fail-on = 'warning'", encoding="utf-8")
    server(door, f"--policy '{tmp_path / 'policy.toml'}'")
    door.put(WARNED)
    assert door.push("main").returncode == 1
    server(door)
    assert door.push("main").returncode == 0
    server(door, "--policy /nowhere.toml")
    done = door.push("main:refs/heads/x")
    assert done.returncode == 1
    assert "remote: ckptdoctor: the push could not be judged, so it is refused: nothing was stored" in done.stderr


# --- its own folder


def test_what_a_killed_run_left_is_cleared(door: Door) -> None:
    installed(door)
    door.put(HEALTHY)
    home = door.clone / ".git" / "ckptdoctor"
    (home / "judging-dead" / "tree").mkdir(parents=True)
    (home / "judging-dead" / "tree" / "file").write_text("x", encoding="utf-8")
    (home / "judging-dead" / "lock").write_text("", encoding="utf-8")
    (home / "judging-new").mkdir()  # has only begun: no lock yet
    (home / "judging-old").mkdir()
    os.utime(home / "judging-old", (0, 0))
    assert door.push("main").returncode == 0
    assert door.leftovers == ["judging-new"]


# --- folders


def test_check_of_folders(door: Door) -> None:
    door.put(SICK, "sick")
    door.put(HEALTHY, "healthy")
    door.put(WARNED, "warned")
    done = door.doctor("gate", "check", "healthy", "warned")
    assert done.returncode == 0
    assert "2 checkpoints: 1 warning" in done.stdout
    done = door.doctor("gate", "check", "healthy/config.json", "sick", "--format", "json")
    assert done.returncode == 1
    assert [c["path"] for c in json.loads(done.stdout)["checkpoints"]] == ["healthy", "sick"]
    for args, code in ((("nowhere",), 3), ((), 2), (("--staged", "sick"), 2)):
        assert door.doctor("gate", "check", *args).returncode == code


def test_check_of_the_index(door: Door) -> None:
    door.put(HEALTHY)
    door.put(SICK, "sick")
    door.git("reset", "--quiet", "--soft", "HEAD~1")
    shutil.rmtree(door.clone / "sick")  # staged, and not in the work tree
    done = door.doctor("gate", "check", "--staged")
    assert done.returncode == 1
    assert "clone/sick: EAGLE-3 draft" in done.stdout
    (door.clone / "deep").mkdir()
    assert door.doctor("gate", "check", "--staged", at=door.clone / "deep").returncode == 1
    door.git("rm", "-r", "--quiet", "--cached", "sick")
    assert door.doctor("gate", "check", "--staged").returncode == 0
