"""The same draft gives the same bytes and an empty stderr, whatever the machine is like."""

from __future__ import annotations

import math
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from builder.draft import Draft, Tensor
from extremes.edge_drafts import draft_of, written

VALUES = (
    struct.pack("<f", 3.4e38),
    struct.pack("<f", -3.4e38),
    struct.pack("<I", 0x7FA00000),  # a signalling NaN
    struct.pack("<I", 0xFF800000),  # minus infinity
    struct.pack("<f", 1e-45),
)


def hurt(kind: str, *, maps: bool = False) -> Draft:
    """A draft of values that make numpy warn: sums and squares that overflow, numbers that are none."""
    draft = draft_of(kind)
    for number, (name, tensor) in enumerate(list(draft.tensors.items())):
        if name in ("d2t", "t2d") and not maps:
            continue
        size = math.prod(tensor.shape) * 4
        order = [VALUES[(number + n) % 5] for n in range(5)] if number % 3 else [VALUES[0], VALUES[1], VALUES[0]]
        pattern = b"".join(order)
        draft.tensors[name] = Tensor("F32", tensor.shape, (pattern * (size // len(pattern) + 1))[:size])
    return draft


@pytest.fixture(scope="module")
def sick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sick")
    written(hurt("specforge-eagle3"), folder / "a")
    written(hurt("specforge-eagle3"), folder / "other")
    written(hurt("specforge-eagle3", maps=True), folder / "maps")
    return folder


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def scanned(
    sick: Path,
    *flags: str,
    name: str = "a",
    env: Mapping[str, str | None] = {},  # never changed
    limited: bool = False,
) -> bytes:
    """The JSON report as bytes; stderr is empty."""
    place = {**os.environ, **env}
    made = subprocess.run(
        [sys.executable, *flags, "-m", "ckptdoctor", "scan", name, "--target", f"{name}/target", "--against", "other",
         "--format", "json"],
        cwd=sick, capture_output=True, check=False, env={k: v for k, v in place.items() if v is not None},
        preexec_fn=few_files if limited else None,  # no threads here
    )  # fmt: skip
    assert made.stderr == b""
    assert made.returncode == 1
    return made.stdout


def test_the_machine_changes_nothing(sick: Path) -> None:
    usual = scanned(sick)
    assert scanned(sick, "-W", "error") == usual
    assert scanned(sick, "-O", env={"LC_ALL": "C", "TZ": "Pacific/Kiritimati", "COLUMNS": "20"}) == usual
    assert scanned(sick, env={"HOME": None, "PYTHONHASHSEED": "7", "LANG": "tr_TR.UTF-8"}, limited=True) == usual


def test_maps_of_strange_numbers_do_not_warn(sick: Path) -> None:
    assert scanned(sick, "-W", "error", name="maps") == scanned(sick, "-W", "always", name="maps")


def test_without_a_stdout_the_report_is_written_all_the_same(sick: Path) -> None:
    command = f"{sys.executable} -m ckptdoctor scan a --target a/target --against other --format json --output"
    made = subprocess.run(["sh", "-c", f"{command} ../report.json >&-"], cwd=sick, capture_output=True, check=False)
    assert made.stderr.startswith(b"ckptdoctor: ")
    assert made.stderr.count(b"\n") == 1  # where the report is
    assert made.returncode == 1
    assert (sick.parent / "report.json").read_bytes() == scanned(sick)
