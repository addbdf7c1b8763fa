"""The single faults whose cost effect_sizes.py measures: each is the right draft with one thing changed."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ckptdoctor.probe.network.anatomy import Anatomy
from ckptdoctor.probe.network.chains import target_ids
from ckptdoctor.probe.network.network import Network
from ckptdoctor.probe.samples.samples import Samples
from ckptdoctor.probe.wiring import Wiring

__all__ = ["FAULTS", "Bench", "Fault"]

_LAYER = "layers.0."
_QKV = {"q": f"{_LAYER}self_attn.q_proj.weight", "k": f"{_LAYER}self_attn.k_proj.weight"}
_QKV["v"] = f"{_LAYER}self_attn.v_proj.weight"
_O, _MLP = f"{_LAYER}self_attn.o_proj.weight", f"{_LAYER}mlp."
_GATE, _UP, _DOWN = (f"{_MLP}{name}_proj.weight" for name in ("gate", "up", "down"))
_MATRICES = (*_QKV.values(), _O, _GATE, _UP, _DOWN)
_FC, _HEAD, _EMBEDDING = "fc.weight", "lm_head.weight", "embed_tokens.weight"
_INPUT, _HIDDEN, _POST = (
    f"{_LAYER}{name}.weight" for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm")
)
_STATES = tuple(f"fc_norm.{n}.weight" for n in range(3))
_NORMS = (*_STATES, _INPUT, _HIDDEN, _POST, "norm.weight")


@dataclass(frozen=True)
class Bench:
    """The draft as it is right, the texts with the states of all boundaries, and the target's matrices."""

    weights: dict[str, Tensor]
    anatomy: Anatomy
    wiring: Wiring
    samples: Samples
    target_head: Tensor
    draw: torch.Generator

    @property
    def network(self) -> Network:
        """The network to be run."""
        return Network(self.weights, self.anatomy)

    def with_weights(self, **changed: Tensor) -> Bench:
        """The same with some weights exchanged; `__` stands for the dot of a name."""
        return replace(self, weights={**self.weights, **{k.replace("__", "."): v for k, v in changed.items()}})

    def put(self, change: Callable[[Bench, Tensor], Tensor], *names: str) -> Bench:
        """The same with `change` made to each of the weights."""
        return replace(self, weights={**self.weights, **{name: change(self, self.weights[name]) for name in names}})

    def wired(self, **parts: object) -> Bench:
        """The same under another wiring."""
        return replace(self, wiring=replace(self.wiring, **parts))

    def stated(self, change: Callable[[Tensor], Tensor]) -> Bench:
        """The same with `change` made to the states [n, S, T] of each text."""
        items = tuple(replace(item, states=change(item.states)) for item in self.samples.items)
        return replace(self, samples=replace(self.samples, items=items))


Fault = Callable[[Bench], Bench]


def _random(bench: Bench, weight: Tensor) -> Tensor:
    """As torch's Linear starts: uniform within 1/sqrt of the number of inputs."""
    return (torch.rand(weight.shape, generator=bench.draw) * 2 - 1) / math.sqrt(weight.shape[-1])


def _zeros(_: Bench, weight: Tensor) -> Tensor:
    return torch.zeros_like(weight)


def _ones(_: Bench, weight: Tensor) -> Tensor:
    return torch.ones_like(weight)


def _shuffled(bench: Bench, weight: Tensor) -> Tensor:
    return weight[torch.randperm(len(weight), generator=bench.draw)]


def _next(_: Bench, weight: Tensor) -> Tensor:
    return weight.roll(1, 0)


def _codes(_: Bench, weight: Tensor) -> Tensor:
    """What stands in the file of a matrix quantised to eight bits by rows, read without its scales."""
    return (weight / (weight.abs().amax(1, keepdim=True) / 127)).round()


def _same_rows(_: Bench, weight: Tensor) -> Tensor:
    """Three rows in four are the first one."""
    return torch.where(torch.arange(len(weight))[:, None] % 4 > 0, weight[:1], weight)


def _times(factor: float) -> Callable[[Bench, Tensor], Tensor]:
    return lambda _, weight: weight * factor


def _part_zero(share: float) -> Callable[[Bench, Tensor], Tensor]:
    """The last rows zero."""
    return lambda _, weight: torch.where(torch.arange(len(weight))[:, None] < len(weight) * (1 - share), weight, 0.0)


def _halves(bench: Bench, weight: Tensor) -> Tensor:
    """The rows of each head in the order in which the two rotary halves are interleaved."""
    size = bench.anatomy.head_dim
    order = torch.arange(size).reshape(2, size // 2).T.reshape(-1)
    return weight.reshape(-1, size, weight.shape[1])[:, order].reshape(weight.shape)


def _turned(bench: Bench, width: int) -> Tensor:
    """A random rotation."""
    return torch.linalg.qr(torch.randn(width, width, generator=bench.draw))[0]


def _rotated_states(bench: Bench) -> Bench:
    """All states turned by one rotation, as those of a target that was rotated for its quantisation."""
    by = _turned(bench, bench.anatomy.target_width)
    return bench.stated(lambda states: states @ by)


def _bias(*names: str) -> Fault:
    """Biases that start as torch's Linear has them, where none was trained."""

    def fault(bench: Bench) -> Bench:
        added = {
            name.replace("weight", "bias"): (torch.rand(len(of := bench.weights[name]), generator=bench.draw) * 2 - 1)
            / math.sqrt(of.shape[1])
            for name in names
        }
        return replace(bench, weights={**bench.weights, **added})

    return fault


def _swap(one: str, other: str) -> Fault:
    return lambda bench: replace(bench, weights={**bench.weights, one: bench.weights[other], other: bench.weights[one]})


def _second_layer(bench: Bench) -> Bench:
    """A layer more than was trained: its matrices as they start, its norms ones."""
    hidden = bench.anatomy.hidden
    added = {}
    for name in _MATRICES:
        weight = bench.weights[name]
        width = hidden if name in _QKV.values() else weight.shape[1]
        added[name.replace("layers.0", "layers.1")] = _random(bench, torch.empty(len(weight), width))
    for name in (_INPUT, _POST):
        added[name.replace("layers.0", "layers.1")] = torch.ones(hidden)
    anatomy = replace(bench.anatomy, layers=2, windows=(None, None), first_norms=("input_layernorm",))
    return replace(bench, weights={**bench.weights, **added}, anatomy=anatomy)


def _layer_at_start(bench: Bench) -> Bench:
    return bench.put(_random, *_MATRICES).put(_ones, _INPUT, _HIDDEN, _POST)


def _all_at_start(bench: Bench) -> Bench:
    return _layer_at_start(bench).put(_random, _FC, _HEAD).put(_ones, *_NORMS)


def _larger(bench: Bench, layer: str) -> Bench:
    """The same with all matrices of a layer ten times larger."""
    return bench.put(_times(10), *(n for n, w in bench.weights.items() if n.startswith(layer) and w.dim() == 2))


def _weights(change: Callable[[Bench, Tensor], Tensor], *names: str) -> Fault:
    return lambda bench: bench.put(change, *names)


def _wiring(**parts: object) -> Fault:
    return lambda bench: bench.wired(**parts)


def _blank(column: int) -> Callable[[Tensor], Tensor]:
    return lambda states: states * (torch.arange(states.shape[1]) != column)[:, None]


def _faults() -> Iterator[tuple[str, str, Fault]]:
    """Group, name and fault. The draft was trained on boundaries 0, 2 and 4 of 5."""
    group = "Captured states"
    yield group, "both layers one too high", _wiring(states=(0, 3, 5))
    yield group, "both layers one too low", _wiring(states=(0, 1, 3))
    yield group, "all states one too high, embedding lost", _wiring(states=(1, 3, 5))
    yield group, "other layers, embedding lost", _wiring(states=(2, 4, 5))
    yield group, "a layer in place of the embedding", _wiring(states=(1, 2, 4))
    yield group, "the embedding in place of the first layer", _wiring(states=(0, 0, 4))
    yield group, "the embedding in place of the second layer", _wiring(states=(0, 2, 0))
    yield group, "the embedding in place of both layers", _wiring(states=(0, 0, 0))
    yield group, "the last layer in place of all", _wiring(states=(5, 5, 5))
    yield group, "two states swapped", _wiring(states=(0, 4, 2))
    yield group, "states in reverse", _wiring(states=(4, 2, 0))
    for column, name in ((0, "first"), (2, "second"), (4, "third")):
        yield group, f"the {name} state zero", lambda b, c=column: b.stated(_blank(c))  # type: ignore[misc]
    yield group, "all states zero", lambda b: b.stated(torch.zeros_like)
    yield group, "states one token late", _wiring(token=0)
    yield group, "states one token early", _wiring(token=2)
    yield group, "states in a rotated basis", _rotated_states
    yield group, "states ten times larger", lambda b: b.stated(lambda s: 10 * s)
    group = "fc"
    yield group, "fc skipped, first layer goes in", _wiring(fc=False, fc_norm=False, states=(2,))
    yield group, "fc skipped, last layer goes in", _wiring(fc=False, fc_norm=False, states=(5,))
    yield group, "fc random", _weights(_random, _FC)
    yield group, "fc zeros", _weights(_zeros, _FC)
    yield group, "fc one number throughout", _weights(lambda _, w: torch.full_like(w, float(w.mean())), _FC)
    yield group, "fc with a random bias", _bias(_FC)
    group = "Vocabulary map"
    yield group, "d2t read as absolute ids", _wiring(map=0)
    yield group, "d2t added twice", _wiring(map=2)
    yield group, "d2t zeros or absent", lambda b: b.with_weights(d2t=torch.zeros_like(b.weights["d2t"]))
    yield group, "d2t one row off", lambda b: b.with_weights(d2t=target_ids(b.network, 1).roll(1) - torch.arange(96))
    yield group, "d2t one too high", lambda b: b.with_weights(d2t=b.weights["d2t"] + 1)
    group = "Head and embedding"
    yield group, "head random", _weights(_random, _HEAD)
    yield group, "head zeros", _weights(_zeros, _HEAD)
    yield group, "head shifted by one row", _weights(_next, _HEAD)
    yield group, "rows of the head shuffled", _weights(_shuffled, _HEAD)
    yield group, "a third of the head zero", _weights(_part_zero(1 / 3), _HEAD)
    yield group, "the first rows of the target's head", lambda b: b.with_weights(lm_head__weight=b.target_head[:96])
    yield (
        group,
        "the target's head by the map",
        lambda b: b.with_weights(lm_head__weight=b.target_head[target_ids(b.network, 1)]),
    )
    yield group, "the embedding as head", lambda b: b.with_weights(lm_head__weight=b.weights[_EMBEDDING][:96])
    yield group, "most rows of the head the same", _weights(_same_rows, _HEAD)
    yield group, "embedding random", _weights(_random, _EMBEDDING)
    yield group, "embedding zeros", _weights(_zeros, _EMBEDDING)
    yield group, "rows of the embedding shuffled", _weights(_shuffled, _EMBEDDING)
    yield group, "embedding in a rotated basis", lambda b: b.put(lambda b, w: w @ _turned(b, 64), _EMBEDDING)
    group = "The layer"
    yield group, "layer random, norms at ones", _layer_at_start
    yield group, "all matrices of the layer zero", _weights(_zeros, *_MATRICES)
    yield (
        group,
        "everything random, norms at ones",
        lambda b: b.put(_random, _FC, _HEAD, *_MATRICES).put(_ones, *_NORMS),
    )
    for name, weight in _QKV.items():
        yield group, f"{name} random", _weights(_random, weight)
        yield group, f"{name} zeros", _weights(_zeros, weight)
    for name, weight in (("o_proj", _O), ("gate", _GATE), ("up", _UP), ("down", _DOWN)):
        yield group, f"{name} random", _weights(_random, weight)
        yield group, f"{name} zeros", _weights(_zeros, weight)
    yield group, "gate and up swapped", _swap(_GATE, _UP)
    yield group, "o_proj transposed", _weights(lambda _, w: w.T, _O)
    yield group, "rotary halves of q and k in another order", _weights(_halves, _QKV["q"], _QKV["k"])
    yield group, "random biases of q, k and v", _bias(*_QKV.values())
    yield group, "random biases of q, k, v and o_proj", _bias(*_QKV.values(), _O)
    yield group, "a second layer, random", _second_layer
    yield group, "a second layer, random and ten times larger", lambda b: _larger(_second_layer(b), "layers.1")
    yield (
        group,
        "norms of q and k added, at ones",
        lambda b: b.with_weights(
            **{f"layers__0__self_attn__{name}_norm__weight": torch.ones(b.anatomy.head_dim) for name in "qk"}
        ),
    )
    yield group, "codes of the layer read as weights", _weights(_codes, *_MATRICES)
    yield group, "codes of fc read as weights", _weights(_codes, _FC)
    yield group, "v twice as large", _weights(_times(2), _QKV["v"])
    yield group, "o_proj ten times larger", _weights(_times(10), _O)
    group = "Norms"
    for name, norms in (("input_layernorm", (_INPUT,)), ("hidden_norm", (_HIDDEN,)), ("norm", ("norm.weight",))):
        yield group, f"{name} at ones", _weights(_ones, *norms)
    yield group, "post_attention_layernorm at ones", _weights(_ones, _POST)
    yield group, "norms of the states at ones", _weights(_ones, *_STATES)
    yield group, "all norms at ones", _weights(_ones, *_NORMS)
    yield group, "one norm of the states at ones", _weights(_ones, _STATES[1])
    yield group, "norms of the states left out", _wiring(fc_norm=False)
    yield group, "last norm left out before the head", _wiring(head_norm=False)
    yield group, "input_layernorm and hidden_norm swapped", _swap(_INPUT, _HIDDEN)
    yield group, "one norm zero", _weights(_zeros, _POST)
    yield group, "one norm NaN", _weights(lambda _, w: torch.full_like(w, math.nan), _POST)
    group = "Flags and positions"
    yield group, "norm_before_residual the other way", _wiring(residual_after_norm=False)
    yield group, "norm_output the other way", _wiring(norm_output=False)
    for base in (1000, 5000, 10000, 1000000):
        yield group, f"rope base {base} for 500", _wiring(rope_base=float(base))
    yield group, "attention sees the last 4 tokens only", lambda b: replace(b, anatomy=replace(b.anatomy, windows=(4,)))


FAULTS: dict[str, tuple[str, Fault]] = {name: (group, fault) for group, name, fault in _faults()}
"""Each fault by its name: its group, and the change."""
