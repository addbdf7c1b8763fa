"""`Network`: a draft's own forward in plain torch, under any wiring. The reference that readings are judged with.

As SpecForge 0.2.0 (modeling/draft/llama3_eagle.py, peagle.py) and speculators 0.9.0 (models/eagle3, models/peagle)
compute it, in float32, to 1e-5. MLA is that of DeepSeek as vLLM 0.33.0 has it in EAGLE-3 (models/deepseek_eagle3.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from ckptdoctor.checkpoint import Checkpoint, open_checkpoint
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts import Facts
from ckptdoctor.facts.describe import describe
from ckptdoctor.facts.target import read_target
from ckptdoctor.probe.network.anatomy import Anatomy
from ckptdoctor.probe.network.anatomy_reading import anatomy_of
from ckptdoctor.probe.network.attention import Kept, Memory, attend
from ckptdoctor.probe.network.mla import latent_attention
from ckptdoctor.probe.network.rotary import Angles, angles, turned
from ckptdoctor.probe.network.weights import read_weights, target_matrices
from ckptdoctor.probe.wiring import Wiring

__all__ = ["Memory", "Network", "open_draft"]

_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "swish": functional.silu,
    "gelu": functional.gelu,
    "gelu_new": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu_fast": lambda x: functional.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "relu2": lambda x: functional.relu(x).square(),
}


class Network:
    """The network of a draft: `weights` by canonical name (see `read_weights`) in the shape of `anatomy`.

    Works on one text at a time, without a batch dimension. Everything is differentiable in the weights. A weight that a
    wiring asks for and that is not there raises `CannotExamineError`.
    """

    def __init__(self, weights: Mapping[str, Tensor], anatomy: Anatomy) -> None:
        self.weights = dict(weights)
        self.anatomy = anatomy

    def embed(self, tokens: Tensor) -> Tensor:
        """[n, H]: the embedding of `tokens` (int64 [n], ids of the target): the draft's own, else the target's."""
        table = self.weights.get("embed_tokens.weight")
        if table is None:
            raise CannotExamineError(
                "the draft stores no embedding and takes the target's: give the target with its weights (--target)"
            )
        if len(tokens) and not 0 <= int(tokens.min()) <= int(tokens.max()) < len(table):
            raise CannotExamineError(
                f"a token {int(tokens.max())} of the text is outside of the embedding of {len(table)} tokens;"
                " the text is of another target"
            )
        return functional.embedding(tokens, table)

    def fuse(self, states: Tensor, wiring: Wiring) -> Tensor:
        """[n, H] from the target's states [n, K, T] in the order in which they are joined.

        Without fc one state, of the draft's width, goes straight in.
        """
        if not wiring.fc:
            return states[:, 0]
        joined = states.flatten(1)
        if wiring.norm_before_fc:
            joined = self._norm(joined, "input_norm")
        if wiring.fc_norm:
            each = joined.unflatten(1, (self.anatomy.states, self.anatomy.target_width)).unbind(1)
            joined = torch.cat([self._norm(state, f"fc_norm.{j}") for j, state in enumerate(each)], -1)
        return self._linear(joined, "fc")

    def masked(self, n: int, wiring: Wiring) -> tuple[Tensor, Tensor]:
        """What goes in at masked positions (P-EAGLE), [n, H] each: mask_hidden fused, the mask token's embedding."""
        anatomy = self.anatomy
        if anatomy.mask_token is None:
            raise CannotExamineError(
                "the config names no mask token (pard_token or mask_token_id), and P-EAGLE cannot be run without it"
            )
        state = self._weight("mask_hidden").reshape(1, anatomy.states, anatomy.target_width)
        token = self.embed(torch.tensor([anatomy.mask_token], device=state.device))
        return self.fuse(state, wiring).expand(n, -1), token.expand(n, -1)

    def step(self, hidden: Tensor, embedded: Tensor, positions: Tensor, memory: Memory, wiring: Wiring) -> Tensor:
        """[n, H]: all layers once over `hidden` and `embedded`, [n, H] each, at `positions` (int64 [n]).

        With an empty memory this is the pass over the text, where each position sees itself and those before it. Each
        later call is the next step of every position's own chain at once, at positions that the caller has increased
        by one for each step: it sees the keys of the first pass up to its own position, and its own of the steps since.
        """
        anatomy = self.anatomy
        turning = anatomy.turning
        by = angles(turning, positions, wiring.rope_base, scaled=wiring.rope_scaling)
        for layer in range(anatomy.layers):
            at = f"layers.{layer}."
            residual = hidden
            if layer:
                x = self._norm(hidden, at + anatomy.first_norms[layer - 1])
            else:
                normed = self._norm(hidden, at + "input_layernorm") if wiring.normed_twice else hidden
                normed = self._norm(normed, at + "hidden_norm") if anatomy.hidden_norm else normed
                beside = self._norm(embedded, at + "input_layernorm") if anatomy.input_layernorm else embedded
                x = torch.cat([beside, normed], -1)
                residual = normed if wiring.residual_after_norm else hidden
            hidden = residual + self._attention(x, layer, by, memory, wiring)
            hidden = hidden + self._feed_forward(self._norm(hidden, at + "post_attention_layernorm"), at)
        memory.steps += 1
        return hidden

    def logits(self, hidden: Tensor, wiring: Wiring) -> Tensor:
        """[n, D]: what the head gives for `hidden` [n, H], as `step` returns it."""
        x = self._norm(hidden, "norm") if wiring.head_norm else hidden
        return self._linear(x, "embed_tokens" if self._tied else "lm_head")

    def handed_on(self, hidden: Tensor, wiring: Wiring) -> Tensor:
        """[n, H]: what the next step of the chain takes as its state."""
        return self._norm(hidden, "norm") if wiring.norm_output else hidden

    @property
    def _tied(self) -> bool:
        return "lm_head.weight" not in self.weights and self.anatomy.tied

    def _attention(self, x: Tensor, layer: int, by: Angles, memory: Memory, wiring: Wiring) -> Tensor:
        anatomy, at = self.anatomy, f"layers.{layer}.self_attn."
        scale = 1 / math.sqrt(anatomy.head_dim)
        if anatomy.latent is not None:
            query, key, value = latent_attention(x, anatomy, at, by, self._linear, self._norm)
            scale *= anatomy.turning.scores if wiring.rope_scaling else 1.0
        else:
            shape = (-1, anatomy.head_dim)
            query, key, value = (self._linear(x, f"{at}{name}_proj").unflatten(-1, shape) for name in "qkv")
            if at + "q_norm.weight" in self.weights:
                query, key = self._norm(query, at + "q_norm"), self._norm(key, at + "k_norm")
            query, key = (turned(part, by, interleaved=False) for part in (query, key))
        if len(memory.layers) == layer:
            memory.layers.append(Kept(key, value))
        else:
            memory.layers[layer].chain_keys.append(key)
            memory.layers[layer].chain_values.append(value)
        mixed = attend(query, memory.layers[layer], scale, anatomy.windows[layer], anatomy.parallel)
        return self._linear(mixed.flatten(1), at + "o_proj")

    def _feed_forward(self, x: Tensor, at: str) -> Tensor:
        gate = _ACTIVATIONS[self.anatomy.activation](self._linear(x, at + "mlp.gate_proj"))
        return self._linear(gate * self._linear(x, at + "mlp.up_proj"), at + "mlp.down_proj")

    def _norm(self, x: Tensor, name: str) -> Tensor:
        """RMSNorm over the last dimension."""
        weight = self._weight(name + ".weight")
        return weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.anatomy.eps))

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self._weight(name + ".weight"), self.weights.get(name + ".bias"))

    def _weight(self, name: str) -> Tensor:
        weight = self.weights.get(name)
        if weight is None:
            where = "; the target with its weights may have one (--target)" if name == "lm_head.weight" else ""
            raise CannotExamineError(f"the draft has no {name}, which this reading needs{where}")
        return weight


def open_draft(path: str | Checkpoint, target: str | None = None) -> tuple[Network, Anatomy, Facts]:
    """Open the draft at `path` for running; `target` is the path of its target.

    What the draft does not store itself (the embedding, and the head of a full vocabulary) is taken from the target's
    weights where they are on this machine. Raises `CannotExamineError` where the draft cannot be run.
    """
    checkpoint = open_checkpoint(path) if isinstance(path, str) else path
    facts = describe(checkpoint, None if target is None else read_target(target))
    anatomy = anatomy_of(facts)
    weights = read_weights(checkpoint, facts, anatomy)
    if target is not None:
        root = facts.target.root if facts.target is not None else None
        for name, matrix in (target_matrices(str(root), anatomy) if root is not None else {}).items():
            weights.setdefault(name, matrix)
    return Network(weights, anatomy), anatomy, facts
