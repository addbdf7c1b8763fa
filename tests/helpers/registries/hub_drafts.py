"""What the tests of drafts on the Hub share: what a scan tells, what refuses it, and a large draft."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.findings import Examination
from ckptdoctor.scanning import scan

MEGABYTE = 1_000_000


def told(examination: Examination) -> list[tuple[Any, ...]]:
    return [(f.rule, f.severity, f.confidence, f.message, f.location) for f in examination.findings]


def refusal(path: str, **more: Any) -> str:
    with pytest.raises(CannotExamineError) as caught:
        scan(path, **more)
    return str(caught.value)


def written(path: Path, tensors: dict[str, tuple[str, list[int], bytes | int]]) -> int:
    """A sparse safetensors file; of a tensor given by its size, the bytes are a hole. Its size is returned."""
    entries, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        size = data if isinstance(data, int) else len(data)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as stream:
        stream.write(len(header).to_bytes(8, "little") + header)
        for name, (_, _, data) in tensors.items():
            if isinstance(data, bytes):
                stream.seek(8 + len(header) + entries[name]["data_offsets"][0])
                stream.write(data)
        stream.truncate(8 + len(header) + at)
    return 8 + len(header) + at


def large_draft(folder: Path) -> int:
    """An EAGLE-3 draft of Llama 3.1 8B with its embedding in float32: over 2 GB, of which two maps are no holes."""
    h, v, d, m = 4096, 128256, 32000, 14336
    matrices = {
        "midlayer.self_attn.q_proj": (h, 2 * h), "midlayer.self_attn.k_proj": (1024, 2 * h),
        "midlayer.self_attn.v_proj": (1024, 2 * h), "midlayer.self_attn.o_proj": (h, h), "fc": (h, 3 * h),
        "midlayer.mlp.gate_proj": (m, h), "midlayer.mlp.up_proj": (m, h), "midlayer.mlp.down_proj": (h, m),
        "lm_head": (d, h),
    }  # fmt: skip
    norms = ("midlayer.hidden_norm", "midlayer.input_layernorm", "midlayer.post_attention_layernorm", "norm")
    targets = np.arange(d, dtype=np.int64) * 4
    mask = np.zeros(v, dtype=np.bool_)
    mask[targets] = True
    tensors: dict[str, tuple[str, list[int], bytes | int]] = {
        "embed_tokens.weight": ("F32", [v, h], v * h * 4),
        **{f"{name}.weight": ("BF16", [a, b], a * b * 2) for name, (a, b) in matrices.items()},
        **{f"{name}.weight": ("BF16", [h], h * 2) for name in norms},
        "d2t": ("I64", [d], (targets - np.arange(d)).tobytes()),
        "t2d": ("BOOL", [v], mask.tobytes()),
    }
    folder.mkdir()
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": h, "vocab_size": v,
        "draft_vocab_size": d, "intermediate_size": m, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 1, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "torch_dtype": "bfloat16", "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 15, 28]},
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return written(folder / "model.safetensors", tensors)


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
