"""The folder of a run of git's door."""

from __future__ import annotations

import os

from gate_drafts import HEALTHY
from git_repositories import Door, installed, needs_git

pytestmark = needs_git


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
