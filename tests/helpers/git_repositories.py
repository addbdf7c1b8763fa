"""Real repositories for the tests of git's door: a clone, and the bare repository that it pushes to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from gate_drafts import HEALTHY, draft

from ckptdoctor.registry import gate_policy
from ckptdoctor.registry.gate import Verdict
from ckptdoctor.registry.git.commands import find_repository
from ckptdoctor.registry.git.layout import LfsObjects
from ckptdoctor.registry.git.lfs import own_stores
from ckptdoctor.registry.git.pushes import Update, judge_updates

__all__ = ["Door", "door_in", "installed", "judged", "needs_git", "needs_lfs"]

ROOT = Path(__file__).resolve().parents[2]

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not here")
needs_lfs = pytest.mark.skipif(
    shutil.which("git") is None or shutil.which("git-lfs") is None, reason="git or git-lfs is not here"
)


@dataclass(frozen=True)
class Door:
    """A clone in `clone`, what it pushes to in `remote`, and the environment of both: no settings but their own."""

    clone: Path
    remote: Path
    env: dict[str, str]

    def run(
        self, *words: str, at: Path | None = None, check: bool = False, more: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the clone (or in `at`); with `check` it has to succeed."""
        done = subprocess.run(
            words,
            cwd=at or self.clone,
            env={**self.env, **(more or {})},
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
        )
        assert not check or done.returncode == 0, (words, done.stdout, done.stderr)
        return done

    def git(self, *args: str, at: Path | None = None, stdin: bytes | None = None) -> str:
        """What `git ARGS` prints; it has to succeed."""
        done = subprocess.run(
            ["git", *args], cwd=at or self.clone, env=self.env, input=stdin, capture_output=True, timeout=60
        )
        assert done.returncode == 0, (args, done.stderr)
        return os.fsdecode(done.stdout).strip()

    def doctor(self, *args: str, at: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command line."""
        return self.run(sys.executable, "-m", "ckptdoctor", *args, at=at)

    def push(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Push to the remote."""
        return self.run("git", "push", "origin", *args)

    def put(self, recipe: str = HEALTHY, folder: str = ".", message: str = "a draft") -> str:
        """Commit the draft of `recipe` in `folder`; the commit's id."""
        place = self.clone / folder
        fresh = self.clone.parent / f"{recipe}-fresh"
        draft(fresh, recipe)
        place.mkdir(parents=True, exist_ok=True)
        for path in fresh.iterdir():
            shutil.copy(path, place / path.name)
        shutil.rmtree(fresh)
        return self.commit(message)

    def commit(self, message: str = "more") -> str:
        """Commit all that is in the work tree, whatever hooks say; the commit's id."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--no-verify", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def blob(self, content: bytes) -> str:
        """The id of a new blob."""
        return self.git("hash-object", "-w", "--stdin", stdin=content)

    def tree(self, *entries: tuple[str, str | bytes, str]) -> str:
        """The id of a new tree of (mode, name, id) as they are given, also such as git itself would not write."""
        raw = b"".join(
            mode.encode() + b" " + (name if isinstance(name, bytes) else name.encode()) + b"\0" + bytes.fromhex(oid)
            for mode, name, oid in entries
        )
        return self.git("hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)

    @property
    def stored(self) -> tuple[list[str], list[str]]:
        """What the other side holds: the names of its refs, and the ids of its git-lfs objects."""
        refs = self.git("for-each-ref", "--format=%(refname)", at=self.remote).split()
        objects = self.remote / "lfs" / "objects"
        return refs, sorted(path.name for path in objects.rglob("*") if path.is_file())

    @property
    def leftovers(self) -> list[str]:
        """Private folders that are still there."""
        return sorted(p.name for g in (self.clone / ".git", self.remote) for p in g.glob("ckptdoctor/judging-*"))


def door_in(folder: Path, *, lfs: bool) -> Door:
    """A new clone with an empty remote in `folder`; with `lfs` it keeps `*.safetensors` in git-lfs."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))}
    (folder / "home").mkdir()
    env |= {
        "HOME": str(folder / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(folder / "home" / ".gitconfig"),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_COLOR": "1",
    }
    door = Door(folder / "clone", folder / "remote.git", env)
    door.git("config", "--global", "user.name", "A Person", at=folder)
    door.git("config", "--global", "user.email", "person@example.org", at=folder)
    door.git("config", "--global", "init.defaultBranch", "main", at=folder)
    door.git("init", "--quiet", "--bare", str(door.remote), at=folder)
    door.git("init", "--quiet", str(door.clone), at=folder)
    door.git("remote", "add", "origin", door.remote.as_uri())
    if lfs:
        door.git("lfs", "install", "--local")
        door.git("lfs", "track", "*.safetensors")
        door.commit("git-lfs")
    return door


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
