"""Recorded texts and states, as engines and our recorder write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
safetensors: Any = pytest.importorskip("safetensors.torch")
from sample_cases import (  # noqa: E402
    CAPTURED,
    WIDTH,
    recorded,
    save_recorded,
    target_folder,
)

from ckptdoctor.probe.samples.files import read_samples  # noqa: E402


def test_recorded_texts_start_where_positions_do_not_go_up_by_one(tmp_path: Path) -> None:
    positions = [0, 1, 2, 3, 4, 0, 1, 2, 3, 9, 20, 21, 22]
    raw = recorded(positions)
    save_recorded(tmp_path / "r.safetensors", raw, boundaries="1,2,3", phase="extend")
    samples = read_samples([str(tmp_path)])
    assert (samples.form, samples.boundaries) == ("recorded", (1, 2, 3))
    # The text of one state at position 9 is too short for a guess.
    assert [len(item.tokens) for item in samples.items] == [5, 4, 3]
    for item, first in zip(samples.items, (0, 5, 10), strict=True):
        n = len(item.tokens)
        assert torch.equal(item.states, raw["hidden_states"][first : first + n].float())
        # The token that stood beside the state of position i is token i + 1 of the text.
        assert torch.equal(item.tokens[1:], raw["next_token_ids"][first : first + n - 1])
        assert item.counted.tolist() == [False] + [True] * (n - 1)
    assert any("left out 1 text: " in remark and "text 3: no token" in remark for remark in samples.remarks)
    assert any("the first token of each recorded text is not known" in remark for remark in samples.remarks)
    assert any("do not say which tokens the target wrote" in remark for remark in samples.remarks)


@pytest.mark.parametrize(("metadata", "columns"), [({"boundaries": "1,2,3"}, 3), ({"states": "3"}, 3), ({}, 1)])
def test_recorded_states_side_by_side(tmp_path: Path, metadata: dict[str, str], columns: int) -> None:
    raw = recorded([0, 1, 2, 3])
    joined = {**raw, "hidden_states": raw["hidden_states"].flatten(1)}
    save_recorded(tmp_path / "r.safetensors", joined, **metadata)
    samples = read_samples([str(tmp_path)])
    assert samples.columns == columns
    assert torch.equal(samples.items[0].states.flatten(1), joined["hidden_states"].float())


def test_the_target_says_how_wide_recorded_states_are(tmp_path: Path) -> None:
    raw = recorded([0, 1, 2, 3])
    save_recorded(tmp_path / "r.safetensors", {**raw, "hidden_states": raw["hidden_states"].flatten(1)})
    target_folder(tmp_path / "target")
    samples = read_samples([str(tmp_path / "r.safetensors")], target=str(tmp_path / "target"))
    assert samples.columns == CAPTURED
    assert any("its last states are not recorded" in remark for remark in samples.remarks)


def test_what_the_recorder_writes_is_read(tmp_path: Path) -> None:
    sampling = pytest.importorskip("ckptdoctor.recorder.sampling")
    raw = recorded([0, 1, 2, 3, 0, 1, 2])
    file = sampling.SampleFile(tmp_path / "samples.safetensors", 7)
    file.describe("vllm", "0.33.0", (1, 2, 3), "extend")
    file.add(raw["next_token_ids"], raw["position_ids"], raw["hidden_states"].flatten(1), WIDTH)
    samples = read_samples([str(tmp_path)])
    assert samples.boundaries == (1, 2, 3)
    assert [len(item.tokens) for item in samples.items] == [4, 3]
    assert torch.equal(samples.items[1].states, raw["hidden_states"][4:].float())
