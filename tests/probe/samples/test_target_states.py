"""Answers of the target from its states, its norm and its head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")
safetensors: Any = pytest.importorskip("safetensors.torch")
from sample_cases import (  # noqa: E402
    CAPTURED,
    LAYERS,
    WIDTH,
    features,
    hidden_states,
    normed,
    recorded,
    save_recorded,
    target_folder,
)

from ckptdoctor.probe.samples.files import read_samples  # noqa: E402


@pytest.mark.parametrize("shards", [False, True])
def test_answers_of_specforge_come_from_the_head(tmp_path: Path, shards: bool) -> None:
    weights = target_folder(tmp_path / "target", shards=shards)
    raw = features(20)
    final = normed(raw["hidden_state"].float(), weights["model.norm.weight"])
    raw["hidden_state"] = final.bfloat16()
    torch.save(raw, tmp_path / "data_0.ckpt")
    samples = read_samples([str(tmp_path / "data_0.ckpt")], target=str(tmp_path / "target"))
    (item,) = samples.items
    best = (raw["hidden_state"][0].float() @ weights["lm_head.weight"].T).argmax(-1)
    next_counts = torch.cat([item.counted[1:], torch.tensor([False])])
    assert torch.equal(item.answers[next_counts], best[next_counts])
    assert item.answers[~next_counts].unique().tolist() == [-1]
    assert torch.equal(samples.embedding, weights["model.embed_tokens.weight"])
    assert samples.remarks == ()


@pytest.mark.parametrize("tied", [False, True])
def test_answers_of_speculators_go_over_the_norm_first(tmp_path: Path, tied: bool) -> None:
    weights = target_folder(tmp_path / "target", tied=tied)
    raw = hidden_states(20)
    safetensors.save_file(raw, tmp_path / "hs_0.safetensors")
    samples = read_samples([str(tmp_path / "hs_0.safetensors")], target=str(tmp_path / "target"))
    (item,) = samples.items
    head = weights["model.embed_tokens.weight" if tied else "lm_head.weight"]
    best = (normed(raw["hidden_states"][:, -1].float(), weights["model.norm.weight"]) @ head.T).argmax(-1)
    assert torch.equal(item.answers[:-1], best[:-1])
    assert samples.boundaries == (None,) * CAPTURED + (LAYERS,)


def test_gemmas_norm_adds_one(tmp_path: Path) -> None:
    weights = target_folder(tmp_path / "target", model_type="gemma2")
    raw = hidden_states(20)
    safetensors.save_file(raw, tmp_path / "hs_0.safetensors")
    samples = read_samples([str(tmp_path / "hs_0.safetensors")], target=str(tmp_path / "target"))
    norm = normed(raw["hidden_states"][:, -1].float(), weights["model.norm.weight"] + 1)
    best = (norm @ weights["lm_head.weight"].T).argmax(-1)
    assert torch.equal(samples.items[0].answers[:-1], best[:-1])


def test_a_target_that_is_only_a_config_gives_no_answers(tmp_path: Path) -> None:
    target_folder(tmp_path / "target")
    (tmp_path / "target" / "model.safetensors").unlink()
    torch.save(features(20), tmp_path / "data_0.ckpt")
    samples = read_samples([str(tmp_path / "data_0.ckpt")], target=str(tmp_path / "target"))
    assert samples.items[0].answers is None
    assert samples.embedding is None
    assert "has no safetensors weights that can be read" in samples.remarks[0]


def test_states_after_the_final_norm_do_not_go_over_it_again(tmp_path: Path) -> None:
    weights = target_folder(tmp_path / "target")
    before = [torch.randn(12, WIDTH) for _ in range(4)]
    after = [*before[:-1], normed(before[-1], weights["model.norm.weight"])]
    for number, layers in enumerate((before, after)):
        raw = {"input_ids": torch.arange(12), "hidden_states": layers, "loss_mask": torch.ones(12)}
        torch.save(raw, tmp_path / f"data_{number}.pt")
    paths = [str(tmp_path / f"data_{number}.pt") for number in range(2)]
    one, other = read_samples(paths, target=str(tmp_path / "target")).items
    assert torch.equal(one.answers, other.answers)
    assert len(one.answers.unique()) > 3


def test_recorded_states_of_the_last_boundary_have_answers(tmp_path: Path) -> None:
    weights = target_folder(tmp_path / "target")
    raw = recorded([0, 1, 2, 3, 4])
    save_recorded(tmp_path / "r.safetensors", raw, boundaries=f"[0, 2, {LAYERS}]")
    samples = read_samples([str(tmp_path / "r.safetensors")], target=str(tmp_path / "target"))
    final = normed(raw["hidden_states"][:, -1].float(), weights["model.norm.weight"])
    assert torch.equal(samples.items[0].answers[:-1], (final @ weights["lm_head.weight"].T).argmax(-1)[:-1])
