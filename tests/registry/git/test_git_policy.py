"""The policy of git's door is the one that was installed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from gate_drafts import SICK
from git_repositories import Door, installed, needs_git

pytestmark = needs_git


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
