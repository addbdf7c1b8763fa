"""The parts of the oracles that need neither torch nor an engine."""

from __future__ import annotations

import importlib
import json
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.inside import kernel_stubs, marked_tensors
from tests.conformance.inside import oracle_common as common


def _bfloat16(value: float) -> float:
    (bits,) = struct.unpack(">I", struct.pack(">f", value))
    (back,) = struct.unpack(">f", struct.pack(">I", bits & 0xFFFF0000))
    return float(back)


def test_marks_are_distinct_and_exact_in_every_float_a_checkpoint_has() -> None:
    marks = [marked_tensors.mark(number) for number in range(2000)]
    assert len(set(marks)) == 2000
    assert all(_bfloat16(value) == value for value in marks)
    assert all(struct.unpack("e", struct.pack("e", value))[0] == value for value in marks)
    assert {0.0, 1.0}.isdisjoint(marks)


def test_there_is_no_mark_for_what_is_no_draft() -> None:
    with pytest.raises(ValueError, match="no draft"):
        marked_tensors.mark(5000)


def test_a_missing_part_of_a_fused_parameter_is_named() -> None:
    rows = [False] * 4 + [True] * 2 + [False] * 2
    assert marked_tensors.missing_shards("model.layers.0.self_attn.qkv_proj.weight", [4, 2, 2], rows) == ["k_proj"]


def test_rows_without_names_are_counted() -> None:
    assert marked_tensors.missing_shards("model.fc.weight", [], [True, False, True, True]) == ["rows 0:1", "rows 2:4"]


def test_a_stub_takes_what_engines_do_with_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    kernel_stubs.stub_absent("no_such_kernels", "json")
    kernels: Any = importlib.import_module("no_such_kernels.deep.inside")

    def function(x: int) -> int:
        return x + 1

    assert kernels.jit(function) is function
    assert kernels.jit(num_warps=4)(function) is function
    assert type("Tuned", (kernels.Base,), {})(1, key=2) is not None
    assert not kernels.available
    assert importlib.import_module("json").dumps(1) == "1"
    for name in [name for name in sys.modules if name.startswith("no_such_kernels")]:
        del sys.modules[name]


def _results(tmp_path: Path, load: Any) -> tuple[int, dict[str, Any]]:
    failed = common.run_all("engine", "1.0", tmp_path / "out", [tmp_path / "draft"], load)
    return failed, json.loads((tmp_path / "out" / "draft.json").read_text(encoding="utf-8"))


def test_an_error_of_the_engine_is_an_answer_and_names_its_stage(tmp_path: Path) -> None:
    def load(draft: Path, result: dict[str, Any], stage: common.Stage) -> None:
        stage("construct")
        result["notes"]["seen"] = draft.name
        raise KeyError(f"{draft} has no layer")

    failed, result = _results(tmp_path, load)
    assert failed == 0
    assert result["error"] == {
        "stage": "construct",
        "type": "KeyError",
        "message": "'draft has no layer'",
        "raised_in": "load",
    }
    assert result["notes"] == {"seen": "draft"}


def test_a_child_that_dies_leaves_the_stage_it_died_in(tmp_path: Path) -> None:
    def load(_draft: Path, _result: dict[str, Any], stage: common.Stage) -> None:
        stage("load")
        os._exit(3)

    failed, result = _results(tmp_path, load)
    assert failed == 1
    assert result["error"] == {"stage": "load", "type": "Ended", "message": "exit 3"}


def test_a_child_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "TIME_LIMIT", 0.2)

    def load(_draft: Path, _result: dict[str, Any], stage: common.Stage) -> None:
        stage("construct")
        time.sleep(30)

    _, result = _results(tmp_path, load)
    assert result["error"]["stage"] == "construct"
    assert "time limit" in result["error"]["message"]
