"""`--trained-with` and `--captured-with`, and the same answers in a project file: what the ids of a draft mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from story_drafts import draft, target

from ckptdoctor.cli.main import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    """A draft of a DeepSeek target, whose ids SGLang took for layers up to 0.5.12 and for boundaries since."""
    place = draft(tmp_path / "draft", [2, 30, 58])
    target(place / "target", "DeepseekV3ForCausalLM", 61, "deepseek_v3")
    return place


def scanned(capsys: Capture, place: Path, *args: str) -> dict[str, str]:
    """The findings about captured layers as rule id → severity."""
    run(["scan", str(place), "--target", str(place / "target"), "--format", "json", *args])
    (found,) = json.loads(capsys.readouterr().out)["checkpoints"]
    return {f["rule"]: f["severity"] for f in found["findings"] if f["rule"].startswith("AUX01")}


@pytest.mark.parametrize(
    ("said", "findings"),
    [
        ((), {"AUX014": "warning"}),
        (("--captured-with", "sglang==0.5.14"), {"AUX016": "warning"}),
        (("--captured-with", "sglang==0.5.9"), {}),
        (("--captured-with", "sglang==0.99"), {"AUX014": "warning"}),
        (("--trained-with", "speculators"), {"AUX016": "warning"}),
        (("--trained-with", "specforge"), {"AUX014": "warning"}),
        (("--trained-with", "specforge", "--captured-with", "sglang==0.5.14"), {"AUX016": "warning"}),
    ],
)
def test_a_scan_believes_what_decides(
    capsys: Capture, story: Path, said: tuple[str, ...], findings: dict[str, str]
) -> None:
    assert scanned(capsys, story, "--engine", "sglang==0.5.12", *said) == findings


def test_the_project_file_says_it_as_well_as_the_option(
    capsys: Capture, story: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ckptdoctor.toml").write_text('captured-with = "sglang==0.5.14"\n', encoding="utf-8")
    assert scanned(capsys, story, "--engine", "sglang==0.5.12") == {"AUX016": "warning"}
    # The option outranks the file.
    assert scanned(capsys, story, "--engine", "sglang==0.5.12", "--captured-with", "sglang==0.5.9") == {}


def test_fix_leaves_ids_alone_where_nobody_said_what_they_mean(story: Path, tmp_path: Path) -> None:
    args = ["--target", str(story / "target"), "--engine", "sglang==0.5.12", "--select", "ids-for-engine"]
    assert run(["fix", str(story), "--out", str(tmp_path / "copy"), *args]) == 0
    assert not (tmp_path / "copy").exists()


def test_fix_rewrites_ids_where_somebody_said_what_they_mean(story: Path, tmp_path: Path) -> None:
    args = ["--target", str(story / "target"), "--engine", "sglang==0.5.12", "--select", "ids-for-engine"]
    said = ["--captured-with", "sglang==0.5.14", "--unsafe"]
    assert run(["fix", str(story), "--out", str(tmp_path / "copy"), *args, *said]) == 0
    config = json.loads((tmp_path / "copy" / "config.json").read_text(encoding="utf-8"))
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 29, 57]


def test_compat_takes_the_release_that_captured(capsys: Capture, story: Path) -> None:
    run(
        [
            "compat",
            str(story),
            "--target",
            str(story / "target"),
            "--engine",
            "sglang",
            "--captured-with",
            "sglang==0.5.14",
        ]
    )
    out = capsys.readouterr().out
    assert "captures boundaries [3, 31, 59]; trained on [2, 30, 58]" in out
    assert "0.5.13 and later         served as trained" in out


def test_a_gate_follows_its_policy(capsys: Capture, story: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    lines = f'engines = ["sglang==0.5.12"]\ntarget = {json.dumps(str(story / "target"))}\n'
    policy.write_text(lines, encoding="utf-8")
    run(["gate", "check", str(story), "--policy", str(policy)])
    assert "AUX014" in capsys.readouterr().out
    policy.write_text(lines + 'captured-with = "sglang==0.5.14"\n', encoding="utf-8")
    run(["gate", "check", str(story), "--policy", str(policy)])
    assert "AUX016" in capsys.readouterr().out
