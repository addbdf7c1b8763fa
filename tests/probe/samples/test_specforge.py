"""Features as SpecForge writes them."""

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
    features,
)

from ckptdoctor.probe.samples.files import read_samples  # noqa: E402


def _save_many(folder: Path, lengths: list[int]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, length in enumerate(lengths):
        torch.save(features(length, number), folder / f"data_{number}.ckpt")


def test_specforge_features_give_their_states_side_by_side(tmp_path: Path) -> None:
    raw = features(20)
    torch.save(raw, tmp_path / "data_0.ckpt")
    samples = read_samples([str(tmp_path)])
    (item,) = samples.items
    assert (samples.form, samples.boundaries, samples.width) == ("specforge", (None,) * CAPTURED, WIDTH)
    assert item.name == str(tmp_path / "data_0.ckpt")
    assert torch.equal(item.tokens, raw["input_ids"])
    assert torch.equal(item.counted, raw["loss_mask"].bool())
    assert item.states.dtype == torch.float32
    # Captured state k is columns k·T … (k + 1)·T of what the trainer gives fc.
    assert torch.equal(item.states.flatten(1), raw["aux_hidden_state"][0].float())
    assert item.answers is None
    assert samples.embedding is None
    assert samples.remarks == ()


def test_specforge_takes_rows_by_number_and_subfolders_in_order(tmp_path: Path) -> None:
    _save_many(tmp_path / "rows_0-5000", [12] * 11)
    names = [Path(item.name).name for item in read_samples([str(tmp_path)]).items]
    assert names == [f"data_{i}.ckpt" for i in range(11)]


def test_features_of_a_server_lack_the_batch_dimension_and_have_more_keys(tmp_path: Path) -> None:
    raw = features(20)
    bare = {**raw, "hidden_state": raw["hidden_state"][0], "aux_hidden_state": raw["aux_hidden_state"][0]}
    bare |= {"input_ids": raw["input_ids"].int(), "loss_mask": raw["loss_mask"].float(), "rid": "r1", "prompt_len": 3}
    torch.save(raw, tmp_path / "a.ckpt")
    torch.save(bare, tmp_path / "b.ckpt")
    one, other = read_samples([str(tmp_path)]).items
    assert torch.equal(one.states, other.states)
    assert torch.equal(one.tokens, other.tokens)
    assert torch.equal(one.counted, other.counted)
