"""A release that nobody has read: the same sentence in every command and format, and a slip of the pen is told."""

from __future__ import annotations

import html
import sys
from pathlib import Path

import pytest

from ckptdoctor.cli.main import run
from ckptdoctor.policy import load_policy
from ckptdoctor.registry import judge_tree
from ckptdoctor.serving.contract.contracts import Release
from ckptdoctor.serving.contract.releases import choose, remark_on

DRAFT = Path(__file__).parents[2] / "fixtures" / "trainers" / "sf_eagle3_llama_sglang"
TARGET = DRAFT / "target"
UNREAD = ["vllm==9.9", "vllm==0.34.0", "sglang==0.5.24", "sglang==0.5.13.dev3+gabc"]
FORMATS = ("text", "json", "sarif", "junit", "github", "markdown", "html")
COMMANDS = [
    *(("scan", fmt) for fmt in FORMATS),
    *((command, fmt) for command in ("plan", "compat", "fix") for fmt in ("text", "json")),
    *(("audit", fmt) for fmt in ("text", "jsonl", "html")),
    *(("upload", fmt) for fmt in FORMATS if fmt != "html"),
]
ENDINGS = {"fix": ["--dry-run"], "audit": ["--jobs", "1"]}
Capture = pytest.CaptureFixture[str]


def sentence(engine: str) -> str:
    """What has to be said of this release: it is made in one place."""
    remark = remark_on(Release(*choose(engine)))
    assert remark is not None
    return remark


def plain(output: str, fmt: str) -> str:
    """The output without what its format does to a sentence: line ends, escapes."""
    if fmt == "markdown":
        output = output.replace("\\", "")
    return " ".join(html.unescape(output).split())


def words(command: str, fmt: str, engine: str) -> list[str]:
    where = ["nobody/nothing", "--dry-run"] if command == "upload" else []
    return [
        command, str(DRAFT), *where, "--engine", engine, "--target", str(TARGET), "--format", fmt,
        *ENDINGS.get(command, []),
    ]  # fmt: skip


@pytest.mark.parametrize(("command", "fmt"), COMMANDS)
def test_every_command_and_format_says_it_once_and_first(capsys: Capture, command: str, fmt: str) -> None:
    if fmt == "html":
        pytest.importorskip("jinja2")
    assert run(words(command, fmt, "vllm==9.9")) == 0
    out = plain(capsys.readouterr().out, fmt)
    said = sentence("vllm==9.9")
    assert said in out
    if fmt in ("text", "markdown", "github"):
        start = {"github": "::warning title=ckptdoctor::", "markdown": "> "}.get(fmt, "")
        assert out.startswith(f"{start}{said}")
        assert out.count(said) == 1


@pytest.mark.parametrize("engine", UNREAD)
@pytest.mark.parametrize("command", ["scan", "plan"])
def test_newer_releases_development_versions_and_forks(capsys: Capture, command: str, engine: str) -> None:
    assert run(words(command, "text", engine)) == 0
    assert plain(capsys.readouterr().out, "text").startswith(sentence(engine))


@pytest.mark.parametrize("command", ["scan", "plan", "compat", "fix"])
def test_a_build_for_other_hardware_is_the_release_itself(capsys: Capture, command: str) -> None:
    assert run(words(command, "text", "vllm==0.33.0+cu128")) == 0
    assert "not read" not in plain(capsys.readouterr().out, "text")


@pytest.mark.parametrize("command", ["scan", "plan", "compat", "fix", "audit", "upload"])
def test_a_slip_of_the_pen_is_told(capsys: Capture, command: str) -> None:
    assert run(words(command, "text", "sglang==5.12")) == 2
    told = capsys.readouterr()
    assert "there is no SGLang 5.12; did you mean 0.5.12?" in told.err
    assert told.out == ""


@pytest.mark.parametrize("command", ["scan", "audit"])
def test_a_project_file_may_name_it(capsys: Capture, tmp_path: Path, command: str) -> None:
    policy = tmp_path / "ckptdoctor.toml"
    policy.write_text(f'engines = ["sglang==0.5.24"]\ntarget = "{TARGET}"\n', encoding="utf-8")
    assert run([command, str(DRAFT), "--policy", str(policy), *ENDINGS.get(command, [])]) == 0
    assert plain(capsys.readouterr().out, "text").startswith(sentence("sglang==0.5.24"))
    policy.write_text('engines = ["sglang==5.12"]\n', encoding="utf-8")
    assert run([command, str(DRAFT), "--policy", str(policy), *ENDINGS.get(command, [])]) == 2
    assert "did you mean 0.5.12?" in capsys.readouterr().err


def test_a_gate_lets_it_pass_and_not_in_silence(capsys: Capture, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(f'engines = ["vllm==9.9"]\ntarget = "{TARGET}"\n', encoding="utf-8")
    verdict = judge_tree(DRAFT, load_policy(policy), "org/name")
    assert verdict.outcome == "warned"
    assert sentence("vllm==9.9").rstrip(".") in verdict.sentence
    assert run(["gate", "check", str(DRAFT), "--policy", str(policy)]) == 0
    assert plain(capsys.readouterr().out, "text").startswith(sentence("vllm==9.9"))


def test_what_is_installed_may_be_one(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "vllm-0.34.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.34.0\n", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert run(words("scan", "text", "installed")) == 0
    assert plain(capsys.readouterr().out, "text").startswith(sentence("vllm==0.34.0"))
