"""The project file at the command line, and reports written to files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_drafts import REPORT
from click.testing import CliRunner, Result
from recipe_cases import RECIPES, Built

from ckptdoctor.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, built: Built, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a sick draft (VOC001, an error; AUX008, a note), which is the current folder."""
    shutil.copytree(built.path(RECIPES["d2t-absolute"]), tmp_path / "drafts" / "sick")
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scan(*args: str) -> Result:
    return CliRunner().invoke(main, ["scan", *args], standalone_mode=True, catch_exceptions=False)


def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The whole command, with what it says when it ends early."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "ckptdoctor", *args]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def written(folder: Path, text: str, name: str = "ckptdoctor.toml") -> Path:
    place = folder / name
    place.write_text(text, encoding="utf-8")
    return place


def data(*args: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(scan(*args, "--format", "json").stdout)
    REPORT.validate(document)
    return document


def rules(document: dict[str, Any]) -> dict[str, str]:
    [checkpoint] = document["checkpoints"]
    return {finding["rule"]: finding["severity"] for finding in checkpoint["findings"]}


KNOWN = '[[ignore]]\nrule = "{rule}"\nreason = "It is a test draft."\nexpires = {day}\n'


def test_without_a_file_nothing_is_said_of_one(project: Path) -> None:  # noqa: ARG001
    result = scan("drafts/sick")
    assert result.exit_code == 1
    assert "judged by" not in result.stdout
    document = data("drafts/sick")
    assert (document["policy"], document["remarks"], document["checkpoints"][0]["ignored"]) == (None, [], [])


@pytest.mark.parametrize("name", ["ckptdoctor.toml", "pyproject.toml"])
@pytest.mark.parametrize("below", [".", "drafts", "drafts/sick"])
def test_a_file_here_or_above_is_followed(
    project: Path, name: str, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "[tool.ckptdoctor]\n" if name == "pyproject.toml" else ""
    table = "tool.ckptdoctor." if name == "pyproject.toml" else ""
    place = written(project, f'{head}fail-on = "note"\n[{table}severity]\nVOC001 = "note"\n', name)
    monkeypatch.chdir(project / below)
    document = data(str(project / "drafts" / "sick"))
    assert document["policy"] == str(place)
    assert rules(document) == {"VOC001": "note", "AUX008": "note"}
    assert scan(str(project / "drafts" / "sick")).exit_code == 1
    assert scan(str(project / "drafts" / "sick"), "--fail-on", "warning").exit_code == 0


def test_a_file_above_the_repository_is_not_looked_for(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = project / "inner"
    (inner / ".git").mkdir(parents=True)
    written(project, 'fail-on = "note"')
    monkeypatch.chdir(inner)
    assert data("../drafts/sick")["policy"] is None


def test_a_file_in_the_draft_is_no_policy_unless_one_stands_there(project: Path) -> None:
    written(project / "drafts" / "sick", 'fail-on = "never"')
    assert scan("drafts/sick").exit_code == 1


def test_a_named_file_counts_and_not_the_one_here(project: Path) -> None:
    written(project, "fail-on = 'never'")
    other = written(project, '[severity]\nVOC = "warning"\n', "other.toml")
    document = data("drafts/sick", "--policy", "other.toml")
    assert document["policy"] == other.name
    assert rules(document)["VOC001"] == "warning"
    gone = run("scan", "drafts/sick", "--policy", "gone.toml", cwd=project)
    assert (gone.returncode, gone.stderr) == (2, "ckptdoctor: gone.toml: no such file\n")


def test_an_exception_sets_a_finding_aside_until_its_day(project: Path) -> None:
    written(project, KNOWN.format(rule="d2t-absolute", day="2999-12-31"))
    result = scan("drafts/sick")
    assert result.exit_code == 0
    assert "set aside\n    VOC001 d2t-absolute: It is a test draft. (until 2999-12-31)\n" in result.stdout
    assert f"judged by {project}/ckptdoctor.toml\n" in result.stdout
    # What was set aside is not recommended any more.
    assert "ckptdoctor explain VOC001" not in result.stdout
    assert "ckptdoctor fix" not in result.stdout
    document = data("drafts/sick")
    assert rules(document) == {"AUX008": "note"}
    [ignored] = document["checkpoints"][0]["ignored"]
    assert (ignored["rule"], ignored["severity"], ignored["reason"], ignored["expires"]) == (
        "VOC001", "error", "It is a test draft.", "2999-12-31",
    )  # fmt: skip
    assert document["summary"]["error"] == 0


def test_an_exception_that_ended_is_said_and_the_finding_counts(project: Path) -> None:
    written(project, KNOWN.format(rule="voc001", day='"2020-01-01"'))
    result = scan("drafts/sick")
    assert result.exit_code == 1
    assert "The exception for voc001 ended on 2020-01-01; it counts again.\n" in result.stdout
    assert "set aside" not in result.stdout
    assert data("drafts/sick")["remarks"] == ["The exception for voc001 ended on 2020-01-01; it counts again."]


def test_an_exception_for_some_paths(project: Path) -> None:
    shutil.copytree(project / "drafts" / "sick", project / "drafts" / "new")
    written(project, KNOWN.format(rule="VOC", day="2999-12-31") + 'path = "sick"\n')
    document = data("drafts/sick", "drafts/new")
    assert [len(c["ignored"]) for c in document["checkpoints"]] == [1, 0]
    assert document["summary"]["error"] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[severity]\nVOC01 = "note"', "there is no rule and no family VOC01; did you mean VOC"),
        (KNOWN.format(rule="d2t-absolut", day="2999-01-01"), "there is no rule and no family d2t-absolut"),
        ('[severity]\nVOC001 = "off"', "severity.VOC001: 'off' is not one of"),
        ('fail_on = "note"', "the file: Additional properties are not allowed ('fail_on' was unexpected)"),
        ("engines = ['nothing']", "unknown engine 'nothing'"),
        ("rules = ['gone']", "gone"),
        ("baseline = 'gone.json'", "the baseline"),
        ("target = 'gone'", "gone"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(project: Path, text: str, words: str) -> None:
    written(project, text)
    done = run("scan", "drafts/sick", cwd=project)
    assert done.returncode in ((3,) if "target" in text else (2,)), done.stderr
    assert done.stdout == ""
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "log" not in done.stderr


def test_a_file_says_engines_target_and_launch(project: Path) -> None:
    written(project, 'engines = ["sglang==0.5.9"]\ntarget = "drafts/sick/target"\n')
    [checkpoint] = data("drafts/sick")["checkpoints"]
    assert [(p["engine"], p["version"]) for p in checkpoint["plans"]] == [("sglang", "0.5.9")]
    assert checkpoint["target"]["num_layers"] == 8
    [checkpoint] = data("drafts/sick", "--engine", "vllm==0.22.0")["checkpoints"]
    assert [(p["engine"], p["version"]) for p in checkpoint["plans"]] == [("vllm", "0.22.0")]


def test_a_baseline_is_written_used_and_only_what_is_new_counts(project: Path) -> None:
    done = scan("drafts/sick", "--write-baseline", "known.json")
    assert done.exit_code == 1
    assert done.stderr == "ckptdoctor: 2 findings written to known.json\n"
    assert scan("drafts/sick", "--baseline", "known.json", "--fail-on", "note").exit_code == 0
    written(project, 'baseline = "known.json"\nfail-on = "note"\n')
    result = scan("drafts/sick")
    assert result.exit_code == 0
    assert "VOC001 d2t-absolute: known since the baseline known.json was written\n" in result.stdout
    assert [item["expires"] for item in data("drafts/sick")["checkpoints"][0]["ignored"]] == [None, None]
    config = project / "drafts" / "sick" / "config.json"
    config.write_text(config.read_text(encoding="utf-8").replace('"hidden_size": 64', '"hidden_size": 63'), "utf-8")
    again = scan("drafts/sick")
    assert again.exit_code == 1
    assert "VOC001 d2t-absolute: known since" in again.stdout
    # Writing it anew takes everything in, also what the old one knew.
    assert scan("drafts/sick", "--write-baseline", "known.json").exit_code == 1
    assert scan("drafts/sick").exit_code == 0


def test_a_baseline_that_cannot_be_written_is_said_before_the_scan(project: Path) -> None:
    for place, words in (("gone/known.json", "the folder for it does not exist"), ("drafts", "is a folder")):
        done = run("scan", "drafts/sick", "--write-baseline", place, cwd=project)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr


def test_output_and_reports_are_written_whole(project: Path) -> None:
    done = scan(
        "drafts/sick", "--output", "r.txt", "--report", "sarif=r.sarif", "--report", "markdown=r.md",
        "--report", "json=r.json",
    )  # fmt: skip
    assert (done.exit_code, done.stdout) == (1, "")
    said = "1 checkpoint: 1 error, 1 note; 6 rules not judged; the report is in r.txt"
    assert done.stderr.startswith("ckptdoctor: 1 checkpoint: 1 error")
    assert said.rpartition("; ")[2] in done.stderr
    assert (project / "r.txt").read_text(encoding="utf-8") == scan("drafts/sick").stdout
    REPORT.validate(json.loads((project / "r.json").read_text(encoding="utf-8")))
    assert json.loads((project / "r.sarif").read_text(encoding="utf-8"))["version"] == "2.1.0"
    assert "VOC001" in (project / "r.md").read_text(encoding="utf-8")
    assert sorted(p.name for p in project.iterdir() if p.name.startswith(".")) == [".git"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ("-o", "drafts/sick/config.json"),
            "is a file of the draft in drafts/sick, which is read and never written",
        ),
        (("-o", "drafts/sick/../sick/model.safetensors"), "is a file of the draft in drafts/sick, which is read"),
        (("-o", "link.json"), "is a file of the draft in drafts/sick, which is read"),
        (("-o", "gone/r.txt"), "the folder for it does not exist"),
        (("-o", "drafts"), "is a folder"),
        (("-o", ""), "name a file"),
        (("--report", "sarif"), "say FORMAT=FILE"),
        (("--report", "pdf=x"), "say FORMAT=FILE"),
        (("-o", "r", "--report", "json=r"), "to the same file"),
    ],
)
def test_what_cannot_be_an_output_is_said_before_the_scan(project: Path, args: tuple[str, ...], words: str) -> None:
    (project / "link.json").symlink_to("drafts/sick/config.json")
    before = (project / "drafts" / "sick" / "config.json").read_bytes()
    done = run("scan", "drafts/sick", *args, cwd=project)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert (project / "drafts" / "sick" / "config.json").read_bytes() == before


def test_an_earlier_report_in_the_draft_is_written_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "drafts" / "sick")
    for _ in range(2):
        assert scan(".", "-o", "report.json", "--format", "json").exit_code == 1
        assert scan(".", "-o", "report.txt").exit_code == 1


def test_a_device_stays_one_and_a_link_too(project: Path) -> None:
    assert scan("drafts/sick", "-o", "/dev/null").exit_code == 1
    assert not Path("/dev/null").is_file()
    (project / "real.txt").write_text("old", encoding="utf-8")
    (project / "real.txt").chmod(0o640)
    (project / "link.txt").symlink_to("real.txt")
    assert scan("drafts/sick", "-o", "link.txt").exit_code == 1
    assert (project / "link.txt").is_symlink()
    assert "VOC001" in (project / "real.txt").read_text(encoding="utf-8")
    assert (project / "real.txt").stat().st_mode & 0o777 == 0o640


def test_a_full_disk_leaves_the_old_report(project: Path) -> None:
    (project / "r.json").write_text("old", encoding="utf-8")
    limited = 'ulimit -f 1; exec "$0" -m ckptdoctor scan drafts/sick -o r.json --format json'
    done = subprocess.run(
        ["bash", "-c", limited, sys.executable], cwd=project, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == "ckptdoctor: r.json: cannot be written (File too large)\n"
    assert (project / "r.json").read_text(encoding="utf-8") == "old"
    assert [p.name for p in project.iterdir() if p.name.startswith(".r")] == []


def test_a_current_folder_that_is_gone_has_no_project(tmp_path: Path, built: Built) -> None:
    (tmp_path / "gone").mkdir()
    command = f'cd "{tmp_path}/gone" && rmdir "{tmp_path}/gone" && exec "$0" -m ckptdoctor scan "$1"'
    draft = str(built.path(RECIPES["specforge-eagle3"]))
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, draft], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_junit_fails_what_fail_on_says(project: Path) -> None:  # noqa: ARG001
    assert 'failures="1"' in scan("drafts/sick", "--format", "junit").stdout
    assert 'failures="2"' in scan("drafts/sick", "--format", "junit", "--fail-on", "note").stdout
    assert 'failures="0"' in scan("drafts/sick", "--format", "junit", "--fail-on", "never").stdout
