"""`Wiring`: one reading of how a draft is fed and computed. What the network is made of is its `Anatomy`."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EMBEDDING", "Wiring"]

EMBEDDING = -1
"""In `Wiring.states`: the embedding output of the state's own token (boundary 0), computed from the embedding."""


@dataclass(frozen=True)
class Wiring:
    """One reading of a draft: which states go in, in which order, and what happens to them on the way.

    `states` are columns of the samples' states (or `EMBEDDING`), in the order in which they are joined for fc.
    `token` says which token's embedding stands beside the state of position i: that of position i + `token` (1 as
    every EAGLE-3 trainer has it). `map` is k in target id = d2t[i] + k·i: 1 offsets, 0 absolute ids, 2 offset
    twice. `fc` is False where it is skipped and one state of the draft's own width goes straight in.
    `norm_before_fc` (input_norm over the joined states) and `fc_norm` (a norm for each state) are flags of the
    config. `residual_after_norm` is norm_before_residual: the residual of the first layer is what hidden_norm
    gives. `normed_twice`: hidden_norm gets what input_layernorm gives for the state, and not the state itself (as
    Model-Optimizer 0.41.0 to 0.47.0 trains, modeling_eagle.py: the layer's own norm stays on where 0.40.0 had taken it
    out). `norm_output` hands the normed state on to the next step, `head_norm` is False where the head sees the
    state without the last norm (what SpecForge 0.2.0, modeling/draft/llama3_eagle.py compute_logits, means by its
    norm_output false). `rope_base` is the base of the rotary embedding, `rope_scaling` whether the config's scaling
    of it is applied.
    """

    states: tuple[int, ...]
    token: int = 1
    map: int = 1
    fc: bool = True
    norm_before_fc: bool = False
    fc_norm: bool = False
    residual_after_norm: bool = False
    normed_twice: bool = False
    norm_output: bool = False
    head_norm: bool = True
    rope_base: float = 10000.0
    rope_scaling: bool = True
