"""The hook of git's door: how it stands beside others, and what it refuses."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

from gate_drafts import HEALTHY, SICK
from git_repositories import Door, installed, needs_git, needs_lfs

pytestmark = needs_git


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
