"""The entry points: nothing is imported, and nothing raised, whatever the environment says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ckptdoctor.recorder.settings import settings_of


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": "", "PYTHONPATH": root, **variables}
    )


@pytest.mark.parametrize("value", [None, "", "0"])
def test_off_is_off(value: str | None) -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from ckptdoctor.recorder.entry import in_sglang, in_vllm\n"
        "in_vllm(); in_sglang()\n"
        "heavy = {'torch', 'yaml', 'numpy', 'packaging', 'logging', 'sglang', 'vllm'} & (set(sys.modules) - before)\n"
        "ours = [m for m in sys.modules if m.startswith('ckptdoctor')]\n"
        "assert not heavy, heavy\n"
        "light = ['ckptdoctor', 'ckptdoctor.recorder', 'ckptdoctor.recorder.entry', 'ckptdoctor.recorder.variables']\n"
        "assert sorted(ours) == light, ours\n"
    )
    done = run(code, **({} if value is None else {"CKPTDOCTOR_RECORD": value}))
    assert (done.returncode, done.stderr) == (0, "")


def test_what_goes_wrong_becomes_a_sentence() -> None:
    # vLLM does not catch what a plugin raises; here no engine is installed at all.
    done = run("from ckptdoctor.recorder.entry import in_vllm; in_vllm()", CKPTDOCTOR_RECORD="1")
    assert done.returncode == 0
    assert done.stderr.startswith("ckptdoctor: the recorder is off: PackageNotFoundError")
    assert "Traceback" not in done.stderr


def test_settings(tmp_path: Path) -> None:
    assert settings_of({"CKPTDOCTOR_RECORD": "1"}).folder is None
    asked = settings_of({"CKPTDOCTOR_RECORD": str(tmp_path / "a" / "b"), "CKPTDOCTOR_RECORD_SAMPLES": " 4096 "})
    assert (asked.folder, asked.tokens, asked.remarks) == (tmp_path / "a" / "b", 4096, ())
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("value", ["many", "-1", "2000000", "9" * 5000, "１２"])
def test_a_number_of_tokens_that_is_none(value: str, tmp_path: Path) -> None:
    asked = settings_of({"CKPTDOCTOR_RECORD": str(tmp_path), "CKPTDOCTOR_RECORD_SAMPLES": value})
    assert asked.tokens == 0
    assert "which is no number of tokens up to a million" in asked.remarks[0]


def test_samples_without_a_folder() -> None:
    asked = settings_of({"CKPTDOCTOR_RECORD": "1", "CKPTDOCTOR_RECORD_SAMPLES": "100"})
    assert asked.tokens == 0
    assert asked.remarks[0].endswith("names no folder; no samples are saved")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    asked = settings_of({"CKPTDOCTOR_RECORD": str(tmp_path / "file" / "x")})
    assert asked.folder is None
    assert "only writes to the log" in asked.remarks[0]
