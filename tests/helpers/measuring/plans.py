"""What the tests of plans share: shapes of small drafts, and looks at a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe, read_target
from ckptdoctor.serving import contracts, load_plan
from ckptdoctor.serving.plan import LoadPlan, Parameter

H, MLP, Q, KV, V, D = 64, 96, 64, 32, 512, 128
Make = Callable[..., Path]
Shapes = Mapping[str, tuple[int, ...]]
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": H,
    "intermediate_size": MLP,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": V,
    "draft_vocab_size": D,
    "num_hidden_layers": 1,
    "tie_word_embeddings": False,
}


def layer(
    prefix: str, width: int = 2 * H, *, norms: tuple[str, ...] = ("input_layernorm", "hidden_norm")
) -> dict[str, tuple[int, ...]]:
    """A decoder layer as EAGLE-3 stores it: ten tensors."""
    found: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (Q, width),
        "self_attn.k_proj.weight": (KV, width),
        "self_attn.v_proj.weight": (KV, width),
        "self_attn.o_proj.weight": (H, Q),
        "mlp.gate_proj.weight": (MLP, H),
        "mlp.up_proj.weight": (MLP, H),
        "mlp.down_proj.weight": (H, MLP),
        "post_attention_layernorm.weight": (H,),
    }
    found |= {f"{norm}.weight": (H,) for norm in norms}
    return {prefix + name: shape for name, shape in found.items()}


OUTSIDE: Shapes = {"fc.weight": (H, 3 * H), "norm.weight": (H,), "lm_head.weight": (D, H), "d2t": (D,)}
MIDLAYER: Shapes = {**OUTSIDE, **layer("midlayer.")}


def plan(folder: Path, release: str, engine: str = "sglang") -> LoadPlan:
    target = folder / "target"
    facts = describe(open_checkpoint(str(folder)), read_target(str(target)) if target.is_dir() else None)
    return load_plan(facts, contracts()[engine], release)


def parameter(found: LoadPlan, name: str) -> Parameter:
    return next(p for p in found.parameters if p.name == name)


def left(found: LoadPlan) -> list[str]:
    return [p.name for p in found.parameters if not p.keys and not p.shared]


def stages(found: LoadPlan) -> list[str]:
    return [e.stage for e in found.errors]


def fates(found: LoadPlan, prefix: str) -> set[str]:
    return {s.fate for s in found.stored if s.name.startswith(prefix)}
