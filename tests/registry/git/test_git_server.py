"""Git's door on a server."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from gate_drafts import HEALTHY, SICK, WARNED
from git_repositories import ROOT, Door, installed, needs_git, needs_lfs

pytestmark = needs_git


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
