"""Latent attention computes what DeepSeek's own does, in a layer of EAGLE-3 and over the steps of a chain."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from builder.container import encode  # noqa: E402
from builder.values import random_tensor  # noqa: E402
from recipe_cases import RECIPES, Built  # noqa: E402

from ckptdoctor.probe.network.anatomy import Anatomy  # noqa: E402
from ckptdoctor.probe.network.anatomy_reading import stated_wiring  # noqa: E402
from ckptdoctor.probe.network.network import Memory, Network, open_draft  # noqa: E402
from tests.conformance.trainers.trainer_compare import TOLERANCE  # noqa: E402

YARN = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16, "mscale": 1.0, "beta_fast": 32}


def states_of(anatomy: Anatomy, length: int) -> Any:
    torch.manual_seed(5)
    return torch.randn(length, anatomy.states, anatomy.target_width)


@pytest.mark.parametrize(
    ("rank", "rope"),
    [
        (48, {"rope_type": "default"}),
        (None, {"rope_type": "default"}),
        (48, {**YARN, "mscale_all_dim": 1.0}),
        (48, {**YARN, "mscale_all_dim": 0.5}),
        (48, {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 16}),
    ],
)
@pytest.mark.parametrize("interleave", [True, False])
def test_latent_attention_is_that_of_deepseek(rank: int | None, rope: dict[str, Any], interleave: bool, built: Built,
                                              tmp_path: Path) -> None:  # fmt: skip
    """A whole first layer with the attention of transformers' DeepSeek-V3, its input widened as Model-Optimizer does it
    (nvidia-modelopt 0.47.0, speculative/plugins/modeling_eagle.py) and composed as in vLLM's deepseek_eagle3.py."""
    folder = latent_draft(built, tmp_path / "draft", rank, rope, interleave)
    network, anatomy, facts = open_draft(str(folder))
    wiring = stated_wiring(facts, anatomy, anatomy.states)
    length = 40
    states = states_of(anatomy, length)
    network.weights["embed_tokens.weight"] = torch.randn(anatomy.vocab_size, anatomy.hidden)
    embedded = network.embed(torch.arange(length))
    fused = network.fuse(states, wiring)
    mine = network.step(fused, embedded, torch.arange(length), Memory(), wiring)
    theirs = first_layer_of_deepseek(network, folder, fused, embedded)
    assert (mine - theirs).abs().max() < TOLERANCE


def latent_draft(built: Built, folder: Path, rank: int | None, rope: dict[str, Any], interleave: bool) -> Path:
    shutil.copytree(built.path(RECIPES["mla-eagle3"]), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"rope_interleave": interleave, "rope_parameters": {"rope_theta": 50.0, **rope}, "q_lora_rank": rank}
    config.pop("rope_theta")
    (folder / "config.json").write_text(json.dumps(config))
    _, anatomy, _ = open_draft(str(built.path(RECIPES["mla-eagle3"])))
    shapes = {name: part.shape for name, part in anatomy.parts.items() if name.endswith(".weight")}
    if rank is None:
        at = "layers.0.self_attn."
        shapes = {name: shape for name, shape in shapes.items() if ".q_" not in name}
        shapes[at + "q_proj.weight"] = (anatomy.heads * anatomy.head_dim, 2 * anatomy.hidden)
    tensors = {}
    for name, shape in shapes.items():
        tensor = random_tensor(name, shape, "F32")
        # Rows of unit length about, so that positions count.
        factor = 1.0 if len(shape) == 1 else 50.0 * 1.5 / math.sqrt(shape[-1])
        tensors[name] = type(tensor)("F32", shape, (np.frombuffer(tensor.data, "<f4") * np.float32(factor)).tobytes())
    (folder / "model.safetensors").write_bytes(encode(tensors))
    return folder


def first_layer_of_deepseek(network: Network, folder: Path, fused: Any, embedded: Any) -> Any:
    deepseek = pytest.importorskip("transformers.models.deepseek_v3.modeling_deepseek_v3")
    from transformers import DeepseekV3Config

    raw = json.loads((folder / "config.json").read_text())
    names = ("hidden_size", "num_attention_heads", "num_key_value_heads", "q_lora_rank", "kv_lora_rank",
             "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "rms_norm_eps", "max_position_embeddings",
             "rope_interleave", "rope_parameters")  # fmt: skip
    config = DeepseekV3Config(**{name: raw[name] for name in names}, attn_implementation="eager")
    module = deepseek.DeepseekV3Attention(config, 0)
    for name in ("q_proj", "q_a_proj", "kv_a_proj_with_mqa"):
        narrow = getattr(module, name)
        if narrow is not None:
            setattr(module, name, torch.nn.Linear(2 * narrow.in_features, narrow.out_features, bias=False))
    at = "layers.0.self_attn."
    own = {name.removeprefix(at): w for name, w in network.weights.items() if name.startswith(at)}
    module.load_state_dict(own)
    for norm in (module.q_a_layernorm, module.kv_a_layernorm):
        if norm is not None:
            norm.variance_epsilon = config.rms_norm_eps  # as vLLM and SGLang have it
    length = len(fused)

    def norm_of(x: Any, name: str) -> Any:
        weight = network.weights[f"layers.0.{name}.weight"]
        return torch.nn.functional.rms_norm(x, weight.shape, weight, config.rms_norm_eps)

    x = torch.cat([norm_of(embedded, "input_layernorm"), norm_of(fused, "hidden_norm")], -1)[None]
    mask = torch.full((length, length), -math.inf).triu(1)[None, None]
    by = deepseek.DeepseekV3RotaryEmbedding(config)(x, torch.arange(length)[None])
    with torch.no_grad():
        hidden = fused + module(x, by, mask)[0][0]
        y = norm_of(hidden, "post_attention_layernorm")
        gate, up, down = (network.weights[f"layers.0.mlp.{n}_proj.weight"] for n in ("gate", "up", "down"))
        return hidden + (torch.nn.functional.silu(y @ gate.T) * (y @ up.T)) @ down.T


def test_steps_of_a_chain_with_latent_attention(built: Built, tmp_path: Path) -> None:
    """At one position: the text up to it, then its own step, as an ordinary causal sequence."""
    folder = latent_draft(built, tmp_path / "draft", 48, {**YARN, "mscale_all_dim": 1.0}, True)
    network, anatomy, facts = open_draft(str(folder))
    wiring = stated_wiring(facts, anatomy, anatomy.states)
    network.weights["embed_tokens.weight"] = torch.randn(anatomy.vocab_size, anatomy.hidden)
    states, tokens, place = states_of(anatomy, 7), torch.arange(10), 4
    memory = Memory()
    first = network.step(network.fuse(states, wiring), network.embed(tokens[:7]), torch.arange(7), memory, wiring)
    second = network.step(first, network.embed(tokens[1:8]), torch.arange(7) + 1, memory, wiring)
    given = torch.cat([network.fuse(states[: place + 1], wiring), first[place : place + 1]])
    beside = network.embed(torch.cat([tokens[: place + 1], tokens[place + 1][None]]))
    alone = network.step(given, beside, torch.arange(place + 2), Memory(), wiring)
    assert torch.allclose(alone[-1], second[place], atol=1e-5)
