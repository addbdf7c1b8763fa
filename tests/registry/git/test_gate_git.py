"""Git's door: pushes that real git makes to a bare repository, with real git-lfs, and attempts to get around it."""

from __future__ import annotations

import shutil

import pytest
from gate_drafts import HEALTHY, SICK, WARNED
from git_repositories import Door, installed, judged, needs_git, needs_lfs

pytestmark = needs_git


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
