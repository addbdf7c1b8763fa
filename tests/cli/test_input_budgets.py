"""Files that a person names and that have no end, or numbers without end in them: a sentence and exit 1, 2 or 3."""

from __future__ import annotations

import os
import struct
from io import BytesIO
from pathlib import Path

import pytest
from budget_runs import Run, run_bounded
from treatment_cases import draft_of, write

from ckptdoctor.checkpoint.gguf import read_gguf
from ckptdoctor.limits import GGUF_LISTED_TEXTS, LAUNCH_OPTIONS
from ckptdoctor.named_file import read_named

NUMBERS = {
    "digits": "9" * 5000,
    "sexagesimal": ":".join(["59"] * 5000),
    "sexagesimal fraction": "1:2" + ":59" * 3000 + ".5",
    "hexadecimal": "0x" + "f" * 5000,
    "fraction": "1" * 5000 + ".5",
}


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(draft_of("eagle-eagle3"), tmp_path_factory.mktemp("draft"))


def refused(run: Run) -> str:
    assert run.code in (2, 3), run
    assert run.err.startswith("ckptdoctor: ")
    assert "a log ready" not in run.err
    assert len(run.err) < 1000
    return run.err


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_without_end_in_yaml(kind: str, draft: Path, tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(f"speculative-algorithm: EAGLE3\nspeculative-num-steps: {NUMBERS[kind]}\n")
    assert "this YAML cannot be read" in refused(run_bounded("scan", draft, "--launch", tmp_path / "serve.yaml"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "own.yaml").write_text(f"- id: XX001\n  severity: {NUMBERS[kind]}\n")
    assert "a number of too many digits" in refused(run_bounded("scan", draft, "--rules", tmp_path / "own"))


def test_options_without_end(draft: Path, tmp_path: Path) -> None:
    line = "python -m sglang.launch_server --speculative-algorithm EAGLE3 " + "--speculative-num-steps=3 " * 5000
    (tmp_path / "serve.sh").write_text(line)
    said = refused(run_bounded("scan", draft, "--launch", tmp_path / "serve.sh"))
    assert f"more than {LAUNCH_OPTIONS} options" in said


@pytest.mark.parametrize("option", ["--rules", "--baseline"])
@pytest.mark.parametrize("special", ["device", "pipe", "folder of pipes"])
def test_what_is_no_file_is_refused(option: str, special: str, draft: Path, tmp_path: Path) -> None:
    place = {"device": Path("/dev/zero"), "pipe": tmp_path / "own.yaml", "folder of pipes": tmp_path}[special]
    os.mkfifo(tmp_path / "own.yaml")
    said = refused(run_bounded("scan", draft, option, place))
    assert "it is a " in said or "folder" in said


def test_a_project_that_names_a_device_is_refused(draft: Path, tmp_path: Path) -> None:
    (tmp_path / "ckptdoctor.toml").write_text('baseline = "/dev/zero"\n')
    run = run_bounded("gate", "check", draft, "--policy", tmp_path / "ckptdoctor.toml")
    assert "it is a pipe, socket or device and not a file" in refused(run)
    (tmp_path / "ckptdoctor.toml").write_text(f"deep = {'9' * 5000}\n")
    assert "cannot be read" in refused(run_bounded("gate", "check", draft, "--policy", tmp_path / "ckptdoctor.toml"))


def test_a_named_file_is_regular_and_within_its_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert read_named(tmp_path / "link", 5) == b"12345"
    for place, limit in ((tmp_path / "a", 4), (tmp_path, 5), (Path("/dev/zero"), 5), (tmp_path / "none", 5)):
        with pytest.raises(OSError, match=r"it is|No such file"):
            read_named(place, limit)


def gguf_with_texts(lists: int, each: int, length: int = 0) -> bytes:
    made = b"GGUF" + struct.pack("<IQQ", 3, 0, lists)
    for number in range(lists):
        key = f"k{number}".encode()
        made += struct.pack("<Q", len(key)) + key + struct.pack("<IIQ", 9, 8, each)
        made += (struct.pack("<Q", length) + b"x" * length) * each
    return made + bytes(64)


def test_texts_of_a_gguf_file_are_passed_over(tmp_path: Path) -> None:
    for length in (0, 3, 2_000):
        data = gguf_with_texts(2, 3000, length)
        assert read_gguf(BytesIO(data), "x.gguf", len(data)).faults == ()
        (fault,) = read_gguf(BytesIO(data[:-65]), "x.gguf", len(data) - 65).faults
        assert "ends inside its header" in fault.detail or "longer than the file" in fault.detail
    with (tmp_path / "x.gguf").open("wb") as stream:
        stream.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k")
        stream.write(struct.pack("<IIQ", 9, 8, 20_000_000))
        stream.truncate(200_000_000)
    run = run_bounded("scan", tmp_path, seconds=15)
    assert run.code == 1
    assert f"more than {GGUF_LISTED_TEXTS} texts" in " ".join(run.out.split())
