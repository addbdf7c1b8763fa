"""The recorder in a process of an engine, from the plugin to the last hook taken away.

The engine is an imitation in plain torch (`imitation/`); `python -m tests.conformance.recorder_run` does the same with
the real classes of SGLang and vLLM.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DRAFT = ROOT / "fixtures" / "trainers" / "sf_eagle3_llama_sglang"


@dataclass
class Served:
    """What a process printed, wrote to the log, and put into the folder."""

    printed: dict[str, Any]
    log: str
    folder: Path

    @property
    def lines(self) -> list[str]:
        return [line for line in self.log.splitlines() if line.startswith("ckptdoctor")]

    @property
    def report(self) -> dict[str, Any]:
        (path,) = self.folder.glob("record-*.json")
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


def serve(tmp_path: Path, case: str, draft: Path = DRAFT, **variables: str) -> Served:
    """One run of the imitated engine, in a process of its own."""
    home = tmp_path / "site"
    shutil.copytree(HERE / "imitation", home)
    info = home / "sglang-0.5.23.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.23\n", encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CKPTDOCTOR")}
    environment |= {"PYTHONPATH": os.pathsep.join((str(home), str(ROOT))), "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "tests" / "helpers" / "served.py"), str(draft), case],
        capture_output=True, text=True, env=environment, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Served(json.loads(done.stdout), done.stderr, tmp_path / "out")


def recorded(tmp_path: Path, case: str, draft: Path = DRAFT, **more: str) -> Served:
    return serve(tmp_path, case, draft, CKPTDOCTOR_RECORD=str(tmp_path / "out"), **more)


def assert_nothing_is_left(served: Served) -> None:
    assert served.printed["was_hooked"]
    assert served.printed["left"] == []
    assert served.printed["finders"] == []
    assert served.printed["hooks"] == 0
    assert served.printed["same"]


def test_draft_that_is_fed_as_planned(tmp_path: Path) -> None:
    served = recorded(tmp_path, "as served")
    assert served.lines[-2] == (
        "ckptdoctor: all is as planned for sglang 0.5.23: fc took 3 states of width 64, boundaries [2, 4, 5], "
        "hot_token_id in use"
    )
    seen = served.report["seen"]
    assert (seen["width"], seen["states"], seen["fc_takes"], seen["fc_ran"]) == (192, 3, 192, True)
    assert (seen["embedding"], seen["head"], seen["unwritten"]) == ("shared", "own", {})
    assert seen["captured"] == {"extend": [2, 4, 5], "verify": [2, 4, 5], "verify_graph": [2, 4, 5]}
    assert seen["tokens"] == 8
    assert seen["phase"] == "extend"
    assert seen["map"]["holds"] == "absolute"
    assert_nothing_is_left(served)


def test_one_state_goes_past_fc(tmp_path: Path) -> None:
    served = recorded(tmp_path, "one layer")
    assert served.lines[-2] == (
        "ckptdoctor: fc did not run: the draft got states of width 64, one layer, where fc.weight takes 192 "
        "(3 states); the plan for sglang 0.5.23 expects boundaries [2, 4, 5]; the target captures no states; "
        "the draft accepts next to nothing this way"
    )
    assert served.report["good"] is False
    assert_nothing_is_left(served)


def test_graph_was_recorded_with_other_layers(tmp_path: Path) -> None:
    served = recorded(tmp_path, "late graph")
    assert served.report["seen"]["captured"]["verify_graph"] == [1, 2, 3]
    assert served.lines[-2] == (
        "ckptdoctor: the target captures boundaries [1, 2, 3] (verify graph) and the plan for sglang 0.5.23 "
        "expects [2, 4, 5]"
    )


def test_tensors_that_the_file_lacks(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    draft = tmp_path / "draft"
    shutil.copytree(DRAFT, draft)
    tensors = load_file(draft / "model.safetensors")
    for name in ("midlayer.mlp.gate_proj.weight", "fc.weight"):
        del tensors[name]
    save_file(tensors, draft / "model.safetensors")
    served = recorded(tmp_path, "as served", draft)
    seen = served.report["seen"]
    assert seen["unwritten"] == {"model.fc.weight": "never", "model.layers.0.mlp.gate_up_proj.weight": "partly"}
    assert "the loader" in served.lines[-2]
    assert "model.fc.weight" in served.lines[-2]


def test_nothing_happens_unless_it_is_switched_on(tmp_path: Path) -> None:
    served = serve(tmp_path, "as served")
    assert served.lines == []
    assert not served.printed["was_hooked"]
    assert served.printed["left"] == served.printed["finders"] == []


def test_log_alone(tmp_path: Path) -> None:
    served = serve(tmp_path, "one layer", CKPTDOCTOR_RECORD="1")
    assert served.lines[-1].startswith("ckptdoctor: fc did not run")
    assert not served.folder.exists()


def test_nothing_is_written_into_the_folder_of_the_draft(tmp_path: Path) -> None:
    draft = Path(shutil.copytree(DRAFT, tmp_path / "draft"))
    (tmp_path / "out").symlink_to("draft")
    before = {path.name: path.read_bytes() for path in draft.iterdir() if path.is_file()}
    served = recorded(tmp_path, "as served", draft, CKPTDOCTOR_RECORD_SAMPLES="13")
    assert "is the folder of the draft, where engines look for weights" in served.log
    assert {path.name: path.read_bytes() for path in draft.iterdir() if path.is_file()} == before


def test_samples_are_the_whole_texts_of_prefills(tmp_path: Path) -> None:
    import torch
    from safetensors import safe_open

    served = recorded(tmp_path, "as served", CKPTDOCTOR_RECORD_SAMPLES="13")
    (path,) = served.folder.glob("samples-*.safetensors")
    with safe_open(path, "pt") as file:
        kept = {name: file.get_tensor(name) for name in ("next_token_ids", "position_ids", "hidden_states")}
        metadata = file.metadata()
    assert metadata == {
        "ckptdoctor": "recorded", "engine": "sglang", "version": "0.5.23", "boundaries": "[2, 4, 5]", "phase": "extend",
    }  # fmt: skip
    assert kept["next_token_ids"].tolist() == [5, 6, 7, 8, 9, 1, 2, 3, 5, 6, 7, 8, 9]
    assert kept["position_ids"].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4]
    assert kept["hidden_states"].shape == (13, 3, 64)
    assert torch.allclose(kept["hidden_states"][:, 1] - kept["hidden_states"][:, 0], torch.tensor(2.0))
    assert_nothing_is_left(served)
    assert [p.name for p in served.folder.iterdir() if p.name.startswith(".")] == []


def test_a_recorder_that_fails_says_so_once_and_is_gone(tmp_path: Path) -> None:
    served = recorded(tmp_path, "broken recorder")
    assert served.lines[1:] == [
        "ckptdoctor: the recorder stopped and took its hooks away: ZeroDivisionError: division by zero"
    ]
    assert_nothing_is_left(served)
