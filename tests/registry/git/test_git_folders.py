"""`gate check` of folders and of the index."""

from __future__ import annotations

import json
import shutil

from gate_drafts import HEALTHY, SICK, WARNED
from git_repositories import Door, needs_git

pytestmark = needs_git


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
