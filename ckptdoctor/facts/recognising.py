"""What a draft is recognised by: the evidence of names, shapes and config, against the signs of each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.signs import Evidence
from ckptdoctor.facts.quantisation.store import unpacked

__all__ = ["attention_of", "evidence_of", "hidden_by_shape"]


def evidence_of(checkpoint: Checkpoint, config: Config) -> Evidence:
    # Packed weights count by the matrices that they stand for.
    tensors = unpacked(checkpoint.tensors)
    hidden = hidden_by_shape(tensors)
    queries: set[int] = set()
    fcs: set[int] = set()
    for name, info in tensors.items():
        if len(info.shape) == 2 and hidden and info.shape[1] % hidden == 0:
            if re.search(r"\.(q_proj|q_a_proj|qkv_proj|wq)\.weight$", name):
                queries.add(info.shape[1] // hidden)
            elif re.search(r"(^|\.)fc\.weight$", name):
                fcs.add(info.shape[1] // hidden)
    return Evidence(
        names=tuple(checkpoint.tensors), config=config, attention_inputs=frozenset(queries), fc_inputs=frozenset(fcs),
        files=checkpoint.names_in_folder(), state_keys=checkpoint.state_keys, container=checkpoint.kind,
    )  # fmt: skip


def hidden_by_shape(tensors: Mapping[str, TensorInfo]) -> int | None:
    """The hidden size as most norms and output projections of the layers have it; None without any."""
    votes: dict[int, int] = {}
    for name, info in tensors.items():
        if info.shape and re.search(
            r"(input_layernorm|hidden_norm|post_attention_layernorm|(^|\.)norm|o_proj|down_proj|(^|\.)fc)\.weight$",
            name,
        ):
            votes[info.shape[0]] = votes.get(info.shape[0], 0) + 1
    return max(votes, key=lambda size: votes[size]) if votes else None


def attention_of(tensors: Mapping[str, TensorInfo]) -> str:
    if any(part in name for name in tensors for part in ("kv_a_proj_with_mqa", "kv_b_proj", "q_a_proj")):
        return "mla"
    return (
        "qwen3"
        if any(name.endswith(("self_attn.q_norm.weight", "self_attn.k_norm.weight")) for name in tensors)
        else "llama"
    )
