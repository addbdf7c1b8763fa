"""A layer under a name of its own gets that which most releases read, unless two could be meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from treating.names import renamed
from treatment_cases import answer, draft_of, floats, plan, refusal, renames, write

from ckptdoctor.repair.plan.case import Proposal

LAYER = (
    "hidden_norm", "input_layernorm", "mlp.down_proj", "mlp.gate_proj", "mlp.up_proj", "post_attention_layernorm",
    "self_attn.k_proj", "self_attn.o_proj", "self_attn.q_proj", "self_attn.v_proj",
)  # fmt: skip


@pytest.mark.parametrize("dialect", ["specforge-eagle3", "model-optimizer-eagle3"])
@pytest.mark.parametrize("engines", [(), ("sglang==0.5.9",), ("vllm==0.33.0",), ("sglang==0.5.9", "vllm==0.33.0")])
def test_a_layer_under_its_own_name_gets_the_one_most_releases_read(
    dialect: str, engines: tuple[str, ...], tmp_path: Path
) -> None:
    draft = renamed(renamed(draft_of(dialect), "midlayer.", "decoder."), "layers.0.", "decoder.")
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY005", *engines)
    assert renames(told) == {f"decoder.{n}.weight": f"midlayer.{n}.weight" for n in LAYER}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    after = plan(folder, *engines).after
    assert not {f.rule for f in after.judgement.findings} & {"KEY005", "KEY006", "KEY010", "KEY017", "SRV006"}


def test_a_missing_layer_of_several_gets_its_number(tmp_path: Path) -> None:
    draft = renamed(draft_of("speculators-eagle3", layers=2), "layers.1.", "second.")
    told = renames(answer(write(draft, tmp_path), "KEY005"))
    assert {new.rpartition(".")[0].split(".")[1] for new in told.values()} == {"1"}
    assert all(new.startswith("layers.1.") for new in told.values())


def test_the_prefix_around_the_layer_stays(tmp_path: Path) -> None:
    draft = renamed(draft_of("automodel-eagle3"), "model.layers.0.", "model.block.")
    assert set(renames(answer(write(draft, tmp_path), "KEY005")).values()) == {
        f"model.midlayer.{n}.weight" for n in LAYER
    }


def test_the_order_of_two_lost_layers_is_not_guessed(tmp_path: Path) -> None:
    draft = draft_of("speculators-eagle3", layers=2)
    folder = write(renamed(renamed(draft, "layers.0.", "a."), "layers.1.", "b."), tmp_path)
    told = refusal(answer(folder, "KEY005"))
    assert "guess" in told
    assert "the trainer's own checkpoint" in told


def test_two_stems_for_one_layer_are_not_chosen_from(tmp_path: Path) -> None:
    draft = renamed(draft_of(), "midlayer.", "decoder.")
    draft.tensors |= {n.replace("decoder.", "ema."): t for n, t in draft.tensors.items() if n.startswith("decoder.")}
    assert "decoder, ema lie about" in refusal(answer(write(draft, tmp_path), "KEY005"))


def test_a_layer_with_a_part_missing_is_left_alone(tmp_path: Path) -> None:
    draft = renamed(draft_of(), "midlayer.", "decoder.")
    del draft.tensors["decoder.hidden_norm.weight"]
    assert "would still lack layers.0.hidden_norm.weight" in refusal(answer(write(draft, tmp_path), "KEY005"))


def test_a_layer_of_another_shape_is_left_alone(tmp_path: Path) -> None:
    draft = renamed(draft_of(), "midlayer.", "decoder.")
    draft.tensors["decoder.mlp.down_proj.weight"] = floats(np.zeros((64, 96)))
    told = refusal(answer(write(draft, tmp_path), "KEY005"))
    assert "do not fit" in told
    assert "decoder.mlp.down_proj" not in told  # told by the name it would have
