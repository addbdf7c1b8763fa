"""The GitHub Action: its steps run with bash as the runner does it, and no input is ever a part of a script."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from recipe_cases import RECIPES, Built

from ckptdoctor import __version__

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["id"]: step for step in ACTION["runs"]["steps"]}
INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


@dataclass(frozen=True)
class Ran:
    """What a step left: its code, its log, the outputs and the summary."""

    code: int
    log: str
    outputs: str
    summary: str


class Runner:
    """Runs steps of the action in the folder `workspace`, with the variables and files that GitHub gives them."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.temp = folder / "workspace", folder / "temp"
        for place in (self.workspace, self.temp / "ckptdoctor" / "bin"):
            place.mkdir(parents=True)
        command = self.temp / "ckptdoctor" / "bin" / "ckptdoctor"
        command.write_text(
            f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m ckptdoctor "$@"\n', encoding="utf-8"
        )
        command.chmod(0o755)

    def run(self, step: str, **inputs: str) -> Ran:
        """Run the step with these inputs (`fail_on` for `fail-on`) and the defaults of the others."""
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        assert set(given) <= set(ACTION["inputs"])
        values = {name: given.get(name, row.get("default", "")) for name, row in ACTION["inputs"].items()}
        files = {name: self.temp / f"{name}.txt" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("", encoding="utf-8")
        env = {key: self._filled(text, values) for key, text in STEPS[step]["env"].items()}
        script = self.temp / "step.sh"
        script.write_text(STEPS[step]["run"], encoding="utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)], cwd=self.workspace, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, **env, "RUNNER_TEMP": str(self.temp),
                 **{name: str(file) for name, file in files.items()}},
        )  # fmt: skip
        outputs, summary = (files[name].read_text(encoding="utf-8") for name in files)
        return Ran(done.returncode, done.stdout, outputs, summary)

    @staticmethod
    def _filled(text: str, values: dict[str, str]) -> str:
        if text == "${{ github.action_path }}":
            return str(ROOT)
        found = INPUT.fullmatch(text)
        assert found, text
        return values[found[1]]


@pytest.fixture
def runner_of(tmp_path: Path) -> Callable[[], Runner]:
    return lambda: Runner(tmp_path)


@pytest.fixture
def runner(tmp_path: Path, built: Built) -> Runner:
    made = Runner(tmp_path)
    for name in ("d2t-absolute", "specforge-eagle3"):
        shutil.copytree(built.path(RECIPES[name]), made.workspace / name)
    return made


def test_no_script_has_a_value_in_it() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS.values():
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
    used = {found[1] for step in STEPS.values() for text in step["env"].values() if (found := INPUT.fullmatch(text))}
    assert used == set(ACTION["inputs"])
    assert all(row["description"] for row in (*ACTION["inputs"].values(), *ACTION["outputs"].values()))


def test_a_sick_draft_fails_with_annotations_summary_and_files(runner: Runner) -> None:
    done = runner.run(
        "scan", path="d2t-absolute\nspecforge-eagle3\n", target="d2t-absolute/target", engines="vllm\nsglang==0.5.9",
        sarif_file="out.sarif", junit_file="out.xml",
    )  # fmt: skip
    assert done.code == 1
    assert "::error file=d2t-absolute/model.safetensors,title=VOC001 d2t-absolute::d2t holds target ids" in done.log
    assert "### d2t\\-absolute" in done.summary
    assert "exit-code=1\n" in done.outputs
    assert re.search(r"^sarif-file<<(end-\d+)\nout\.sarif\n\1$", done.outputs, re.MULTILINE)
    run = json.loads((runner.workspace / "out.sarif").read_text(encoding="utf-8"))["runs"][0]
    assert "VOC001" in {result["ruleId"] for result in run["results"]}
    assert (runner.workspace / "out.xml").read_text(encoding="utf-8").startswith("<?xml")
    assert sorted(p.name for p in runner.temp.iterdir()) == [
        "GITHUB_OUTPUT.txt", "GITHUB_STEP_SUMMARY.txt", "ckptdoctor", "step.sh",
    ]  # fmt: skip


def test_a_healthy_draft_passes(runner: Runner) -> None:
    done = runner.run("scan", path="specforge-eagle3")
    assert done.code == 0
    assert "::error" not in done.log
    assert done.outputs == "exit-code=0\n"
    assert "### specforge\\-eagle3" in done.summary


def test_fail_on_and_policy_are_followed(runner: Runner) -> None:
    assert runner.run("scan", path="specforge-eagle3", fail_on="note").code == 1
    assert runner.run("scan", path="d2t-absolute", fail_on="never").code == 0
    policy = runner.workspace / "a policy.toml"
    policy.write_text('[[ignore]]\nrule = "VOC001"\nreason = "known"\nexpires = 2999-01-01\n', encoding="utf-8")
    assert runner.run("scan", path="d2t-absolute", policy="a policy.toml").code == 0


def test_what_cannot_be_examined_fails(runner: Runner) -> None:
    done = runner.run("scan", path="gone", sarif_file="out.sarif")
    assert done.code == 3
    assert "::error file=gone,title=not examined::no such file or folder" in done.log
    assert "exit-code=3\n" in done.outputs


@pytest.mark.parametrize(
    "words",
    [
        "; touch x \" ; touch x; ' ; touch x; $(touch x) `touch x` &&touch x %0A",
        "--help",
        "a\n::add-mask::b ##[error]c",
    ],
)
@pytest.mark.parametrize("name", ["path", "target", "engines", "policy", "fail_on", "baseline"])
def test_a_hostile_input_is_a_value_and_nothing_else(name: str, words: str, runner_of: Callable[[], Runner]) -> None:
    runner = runner_of()
    (runner.workspace / "draft").mkdir()
    inputs = {"path": "draft", **{name: words}}
    done = runner.run("scan", **inputs)
    assert done.code in (2, 3), done.log
    assert not (runner.workspace / "x").exists()
    assert "Usage: " not in done.log
    for line in done.log.splitlines():
        assert re.match(r"\s*::error file=[^:,]+,title=not examined::", line) or "::" not in line, line
        assert "##[" not in line or line.lstrip().startswith("::error file="), line


@pytest.mark.parametrize("version", ["0.1.0; touch x", "0.1.0\n--help", "-r x", "@ file:///x", "$(touch x)", "1 .0"])
def test_a_version_is_a_release(version: str, runner_of: Callable[[], Runner]) -> None:
    runner = runner_of()
    done = runner.run("install", version=version)
    assert done.code == 2
    assert done.log == "::error title=ckptdoctor::the input version is no release, such as 0.1.0\n"
    assert list(runner.workspace.iterdir()) == []


def test_the_install_step_installs_what_the_action_comes_with(
    runner_of: Callable[[], Runner], built: Built, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    runner = runner_of()
    # The folder that is judged may hold files with the names of Python's own modules.
    for name in ("pip.py", "venv.py", "ckptdoctor.py"):
        (runner.workspace / name).write_text("open('ran', 'w')", encoding="utf-8")
    done = runner.run("install", python=sys.executable)
    assert not (runner.workspace / "ran").exists()
    if done.code and re.search(r"No matching distribution|Could not find a version|onnection|network", done.log):
        pytest.skip("no index of packages can be reached")
    assert (done.code, done.log.splitlines()[-1]) == (0, f"ckptdoctor {__version__}")
    shutil.copytree(built.path(RECIPES["d2t-absolute"]), runner.workspace / "draft")
    found = runner.run("scan", path="draft")
    assert found.code == 1
    assert "::error file=draft/model.safetensors,title=VOC001 d2t-absolute::" in found.log
    assert not (runner.workspace / "ran").exists()
