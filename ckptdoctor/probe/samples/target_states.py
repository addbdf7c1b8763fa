"""What a target's weights add to recorded states: its embedding, and its own next token after each state.

Only the embedding, the final norm and the head are read from the safetensors files, part by part; the target itself is
not run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.target import Target, read_target
from ckptdoctor.facts.target_weights import TargetWeights, find_target_weights
from ckptdoctor.probe.samples.recorded_text import Progress
from ckptdoctor.resources import shipped
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown, known_or

__all__ = ["FinalNorm", "TargetStates", "best_tokens", "open_target"]

_ROWS = 4096
_STATES = 2048
_DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
_NORMED_WITHIN = 0.05


@dataclass(frozen=True)
class FinalNorm:
    """The target's last norm: `weight` float32 [T] as it multiplies, `bias` [T] or None, `centred`: the mean goes."""

    weight: Tensor
    bias: Tensor | None
    eps: float
    centred: bool

    def __call__(self, states: Tensor) -> Tensor:
        """float32 [n, T] of the same."""
        if self.centred:
            states = states - states.mean(-1, keepdim=True)
        states = states * torch.rsqrt(states.square().mean(-1, keepdim=True) + self.eps) * self.weight
        return states if self.bias is None else states + self.bias

    def already(self, states: Tensor) -> bool:
        """Whether states [n, T] came out of this norm: divided by its weight, every row is of length one again."""
        sound = self.weight.abs() > 1e-3 * self.weight.abs().max()
        if not bool(sound.any()):
            return False
        bare = ((states if self.bias is None else states - self.bias) / self.weight)[:, sound]
        sizes = bare.square().mean(-1).sqrt()
        return bool(((sizes - 1).abs() < _NORMED_WITHIN).float().mean() > 0.9)


@dataclass(frozen=True)
class TargetStates:
    """A target beside recorded samples. `width` and `layers` are None where its config does not say.

    `weights` is None where only a config is there. `problem` says why its answers cannot be computed, None if they can.
    """

    target: Target
    weights: TargetWeights | None
    norm: FinalNorm | None
    problem: str | None

    @property
    def width(self) -> int | None:
        """T, the width of a state."""
        size = self.target.hidden_size
        if isinstance(size, Unknown):
            return None if self.norm is None else len(self.norm.weight)
        return size

    @property
    def layers(self) -> int | None:
        """L, the number of decoder layers; boundary L comes after the last."""
        return known_or(self.target.num_layers, None)

    @property
    def vocabulary(self) -> int | None:
        """V, the rows of the embedding, or what the config says."""
        if self.weights is not None and self.weights.embedding is not None:
            return self.weights.embedding.shape[0]
        return known_or(self.target.vocab_size, None)

    def embedding(self, tell: Progress | None = None) -> Tensor | None:
        """float32 [V, T]; None where it is not at hand. Raises `CannotExamineError` where its bytes cannot be read."""
        if self.weights is None or self.weights.embedding is None:
            return None
        info = self.weights.embedding
        matrix = torch.empty(info.shape, dtype=torch.float32)
        for first, rows in _parts(self.weights.checkpoint, info):
            matrix[first : first + len(rows)] = rows
            if tell is not None:
                tell("reading the embedding", first + len(rows), info.shape[0])
        return matrix

    def answers(self, final: Sequence[Tensor], tell: Progress | None = None) -> list[Tensor]:
        """For each [n, T] of last states its int64 [n] of best next tokens.

        A state may come from before or after the final norm: states that it has gone over already are left as they are.
        """
        if self.weights is None or self.weights.head is None or self.norm is None:
            raise ValueError("a target without answers")
        head, norm = self.weights.head, self.norm
        normed = torch.cat([states if norm.already(states) else norm(states) for states in final])
        found = best_tokens(normed, _parts(self.weights.checkpoint, head), head.shape[0], tell)
        return list(found.split([len(states) for states in final]))


def open_target(path: str) -> TargetStates:
    """The target at `path`, its matrices by their headers. Raises `CannotExamineError` where there is no config."""
    target, weights = read_target(path), find_target_weights(path)
    shown = show(path)
    if weights is None:
        return TargetStates(target, None, None, f"{shown} has no safetensors weights that can be read")
    if target.is_quantised:
        return TargetStates(target, weights, None, f"the target {shown} is quantised")
    norm = _final_norm(weights.checkpoint, target)
    problem = None
    if weights.head is None:
        problem = f"no head as BF16, F16 or F32 is among the weights of {shown}"
    elif norm is None:
        problem = f"no final norm that is known by name is among the weights of {shown}"
    found = TargetStates(target, weights, norm, problem)
    if norm is not None and weights.head is not None and not found.width == len(norm.weight) == weights.head.shape[1]:
        problem = f"the hidden size, the final norm and the head of {shown} are of different widths"
    return replace(found, problem=problem)


def best_tokens(states: Tensor, head: Iterator[tuple[int, Tensor]], rows: int, tell: Progress | None = None) -> Tensor:
    """int64 [n]: the row of the head that each of the states [n, T] agrees with most.

    `head` gives some rows at a time, with the number of the first; `rows` is how many there are, for `tell`.
    """
    best = torch.full((len(states),), -math.inf)
    token = torch.zeros(len(states), dtype=torch.int64)
    for first, part in head:
        for start in range(0, len(states), _STATES):
            place = slice(start, start + _STATES)
            value, row = (states[place] @ part.T).max(-1)
            better = value > best[place]
            best[place] = torch.where(better, value, best[place])
            token[place] = torch.where(better, row + first, token[place])
        if tell is not None:
            tell("asking the target's head", first + len(part), rows)
    return token


def _final_norm(checkpoint: Checkpoint, target: Target) -> FinalNorm | None:
    words: Mapping[str, Any] = shipped("probe/samples")["norm"]
    names = [name for name in words["names"] if name in checkpoint.tensors]
    if not names:
        return None
    weight = _vector(checkpoint, names[0])
    bias = _vector(checkpoint, f"{names[0].removesuffix('weight')}bias")
    if weight is None or (bias is not None and bias.shape != weight.shape):
        return None
    if target.model_type in words["adds_one"]:
        weight = weight + 1
    given = [target.config.get(key) for key in words["eps"]]
    eps = next((float(e) for e in given if isinstance(e, float) and 0 < e < 1), 1e-6)
    return FinalNorm(weight, bias, eps, bias is not None or target.model_type in words["centred"])


def _vector(checkpoint: Checkpoint, name: str) -> Tensor | None:
    info = checkpoint.tensors.get(name)
    if info is None or info.dtype not in _DTYPES or len(info.shape) != 1 or not info.elements:
        return None
    return torch.cat([rows for _, rows in _parts(checkpoint, info)])


def _parts(checkpoint: Checkpoint, info: TensorInfo) -> Iterator[tuple[int, Tensor]]:
    """The tensor in parts of some rows, as float32, each with the number of its first row."""
    dtype = _DTYPES[info.dtype]
    row = math.prod(info.shape[1:]) * dtype.itemsize
    damaged = CannotExamineError(f"{show(checkpoint.path)}: the values of {show(info.name)} cannot be read")
    if info.start is None or info.end is None or info.end - info.start != row * info.shape[0]:
        raise damaged
    with checkpoint.reading(info.file) as stream:
        stream.seek(info.start)
        for first in range(0, info.shape[0], _ROWS):
            count = min(_ROWS, info.shape[0] - first)
            raw = bytearray(stream.read(count * row))
            if len(raw) != count * row:
                raise damaged
            yield first, torch.frombuffer(raw, dtype=dtype).reshape(count, *info.shape[1:]).float()
