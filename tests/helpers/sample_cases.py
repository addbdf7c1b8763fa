"""Sample files as their writers write them, and a target of a few weights, for the tests of readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

WIDTH, VOCABULARY, LAYERS, CAPTURED = 16, 50, 4, 3


def features(length: int, seed: int = 0, width: int = WIDTH, captured: int = CAPTURED) -> dict[str, Any]:
    """What SpecForge's prepare_hidden_states.py puts into one file."""
    random = torch.Generator().manual_seed(seed)
    mask = torch.ones(length, dtype=torch.long)
    mask[: length // 3] = 0
    return {
        "input_ids": torch.randint(0, VOCABULARY, (length,), generator=random),
        "loss_mask": mask,
        "hidden_state": torch.randn(1, length, width, generator=random).bfloat16(),
        "aux_hidden_state": torch.randn(1, length, captured * width, generator=random).bfloat16(),
    }


def hidden_states(length: int, seed: int = 0, captured: int = CAPTURED) -> dict[str, torch.Tensor]:
    """What vLLM writes for speculators."""
    random = torch.Generator().manual_seed(seed)
    return {
        "hidden_states": torch.randn(length, captured + 1, WIDTH, generator=random).bfloat16(),
        "token_ids": torch.randint(0, VOCABULARY, (length,), generator=random),
    }


def recorded(positions: list[int], seed: int = 0) -> dict[str, torch.Tensor]:
    """What the recorder writes."""
    random = torch.Generator().manual_seed(seed)
    return {
        "next_token_ids": torch.randint(0, VOCABULARY, (len(positions),), generator=random),
        "position_ids": torch.tensor(positions),
        "hidden_states": torch.randn(len(positions), CAPTURED, WIDTH, generator=random).bfloat16(),
    }


def save_recorded(place: Path, tensors: dict[str, torch.Tensor], **metadata: str) -> None:
    """With the recorder's header."""
    save_file(tensors, place, metadata={"ckptdoctor": "recorded", "engine": "vllm", "version": "0.33.0", **metadata})


def target_folder(place: Path, *, shards: bool = False, tied: bool = False, **config: Any) -> dict[str, torch.Tensor]:
    """A target's config and the three tensors of it that readers look at, in bfloat16; gives them in float32."""
    place.mkdir()
    random = torch.Generator().manual_seed(5)
    kept = {
        "model.embed_tokens.weight": torch.randn(VOCABULARY, WIDTH, generator=random).bfloat16(),
        "model.norm.weight": (torch.rand(WIDTH, generator=random) + 0.5).bfloat16(),
        "lm_head.weight": torch.randn(VOCABULARY, WIDTH, generator=random).bfloat16(),
    }
    if tied:
        del kept["lm_head.weight"]
    values = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "rms_norm_eps": 1e-5,
        "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "tie_word_embeddings": tied, **config,
    }  # fmt: skip
    (place / "config.json").write_text(json.dumps(values), encoding="utf-8")
    if shards:
        files = {name: f"model-0000{i}-of-00003.safetensors" for i, name in enumerate(kept, 1)}
        for name, file in files.items():
            save_file({name: kept[name]}, place / file)
        index = {"metadata": {"total_size": 0}, "weight_map": files}
        (place / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    else:
        save_file(kept, place / "model.safetensors")
    return {name: tensor.float() for name, tensor in kept.items()}


def normed(states: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """The final norm of a Llama."""
    return weight * states * torch.rsqrt(states.square().mean(-1, keepdim=True) + eps)
