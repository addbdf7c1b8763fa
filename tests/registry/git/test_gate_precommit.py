"""The hook of `.pre-commit-hooks.yaml`, as real pre-commit installs and runs it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from gate_drafts import HEALTHY, SICK, draft
from git_repositories import ROOT, Door, door_in, needs_git, needs_lfs

pytest.importorskip("pre_commit")
pytestmark = needs_git


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """This project as a repository that pre-commit can install from, and the folder for what it installs."""
    folder = tmp_path_factory.mktemp("published")
    project = folder / "project"
    project.mkdir()
    for name in ("ckptdoctor", "rules"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, project / name)
    maker = door_in(folder, lfs=False)
    maker.git("init", "--quiet", at=project)
    maker.git("add", "--all", at=project)
    maker.git("commit", "--quiet", "--message", "project", at=project)
    return project, folder / "store"


@pytest.fixture
def door(published: tuple[Path, Path], tmp_path: Path) -> Door:
    return _with_pre_commit(door_in(tmp_path, lfs=False), published)


def _with_pre_commit(door: Door, published: tuple[Path, Path]) -> Door:
    project, store = published
    door.env["PRE_COMMIT_HOME"] = str(store)
    del door.env["PYTHONPATH"]  # what pre-commit installed has to do
    (door.clone / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {project}\n  rev: {door.git('rev-parse', 'HEAD', at=project)}\n"
        "  hooks:\n  - id: ckptdoctor\n",
        encoding="utf-8",
    )
    done = pre_commit(door, "install", "--install-hooks", "--hook-type", "pre-commit", "--hook-type", "pre-push")
    if done.returncode:
        pytest.skip(f"pre-commit cannot install here: {(done.stdout + done.stderr)[-400:]}")
    door.git("add", "--all")
    done = door.run("git", "commit", "--quiet", "--message", "pre-commit")
    assert done.returncode == 0, done.stderr
    return door


def pre_commit(door: Door, *args: str) -> CompletedProcess[str]:
    return door.run(sys.executable, "-m", "pre_commit", *args)


def stage(door: Door, recipe: str) -> None:
    """The draft of `recipe` in the work tree and the index, not committed."""
    door.put(recipe)
    door.git("reset", "--quiet", "--soft", "HEAD~1")


def mend(door: Door) -> None:
    """A healthy draft in the work tree alone."""
    fresh = draft(door.clone.parent / "fresh", HEALTHY)
    for path in fresh.iterdir():
        shutil.copy(path, door.clone / path.name)


def test_a_sick_draft_is_not_committed_and_a_healthy_one_is(door: Door) -> None:
    stage(door, SICK)
    before = door.git("rev-parse", "HEAD")
    done = door.run("git", "commit", "--message", "sick")
    assert done.returncode == 1
    assert "VOC001 d2t-absolute" in done.stderr + done.stdout
    assert door.git("rev-parse", "HEAD") == before
    # The work tree has no say: it is healthy by now, and the index is not.
    mend(door)
    assert door.run("git", "commit", "--message", "sick").returncode == 1
    door.git("add", "--all")
    done = door.run("git", "commit", "--message", "healthy")
    assert done.returncode == 0, done.stderr
    assert "Passed" in done.stdout + done.stderr


def test_the_commit_that_is_pushed_is_judged(door: Door) -> None:
    door.put(SICK)
    mend(door)  # neither the work tree nor the index says that it is sick
    door.git("add", "--all")
    for ref in ("main", "HEAD:refs/heads/x"):
        done = door.push(ref)
        assert done.returncode == 1
        assert "VOC001 d2t-absolute" in done.stderr + done.stdout
    assert door.stored == ([], [])
    assert door.run("git", "commit", "--message", "healthy").returncode == 0
    assert door.push("main").returncode == 0
    assert door.run("git", "commit", "--no-verify", "--allow-empty", "--message", "x").returncode == 0
    assert door.push("main").returncode == 0


@needs_lfs
def test_objects_of_git_lfs_are_judged_at_a_commit(published: tuple[Path, Path], tmp_path: Path) -> None:
    door = _with_pre_commit(door_in(tmp_path, lfs=True), published)
    stage(door, SICK)
    done = door.run("git", "commit", "--message", "sick")
    assert done.returncode == 1
    assert "VOC001 d2t-absolute" in done.stderr + done.stdout
    mend(door)
    door.git("add", "--all")
    assert door.run("git", "commit", "--message", "healthy").returncode == 0


def test_the_gate_and_pre_commit_run_one_after_the_other(door: Door) -> None:
    """Whichever was installed first, each calls the other."""
    door.env["PYTHONPATH"] = str(ROOT)
    assert door.doctor("gate", "install").returncode == 0
    door.put(SICK)
    done = door.push("main")
    assert done.returncode == 1
    assert "ckptdoctor: nothing was pushed" in done.stderr
    assert pre_commit(door, "install", "--hook-type", "pre-push").returncode == 0
    done = door.push("main")
    assert done.returncode == 1
    assert "ckptdoctor: nothing was pushed" in done.stderr
    assert door.stored == ([], [])
