"""One recorded text before it becomes a `Sample`, and how much of it is taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ckptdoctor.text import plural, show

__all__ = [
    "LONGEST",
    "NOTHING_TO_GUESS",
    "Budget",
    "Progress",
    "RecordedText",
    "UnreadableError",
    "as_mask",
    "as_states",
    "as_tokens",
    "whole",
]

LONGEST = 4096
"""Positions of one text that are taken at most: the draft attends over all of them."""

NOTHING_TO_GUESS = "no token of it both counts and could be guessed"

_LEAST_SHARE = 128
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is (0: not known)."""


class UnreadableError(Exception):
    """One file, or one text in it, cannot be taken; the message says why, without its name."""


@dataclass(frozen=True)
class RecordedText:
    """One text with its states as they are stored (memory-mapped where the file can be).

    `tokens` int64 [n], `counted` bool [n], `states` [n, S, T] of any float dtype. `final` [n, T] is the last state of
    the target, before or after its final norm, where the file has it. `boundaries` says of each of the S columns which
    boundary it is, None where the file does not.
    """

    name: str
    form: str
    tokens: Tensor
    counted: Tensor
    states: Tensor
    boundaries: tuple[int | None, ...]
    final: Tensor | None = None

    def cut(self, length: int) -> RecordedText:
        """Its first `length` positions, states as float32 in memory of their own.

        Raises `UnreadableError` when a value is not finite.
        """
        states = self.states[:length].to(torch.float32, copy=True)
        final = None if self.final is None else self.final[:length].to(torch.float32, copy=True)
        for what, values in (("hidden states", states), ("last hidden states", final)):
            if values is not None and not bool(torch.isfinite(values).all()):
                raise UnreadableError(f"its {what} hold values that are not finite (NaN or infinity)")
        tokens, counted = self.tokens[:length].clone(), self.counted[:length].clone()
        return RecordedText(self.name, self.form, tokens, counted, states, self.boundaries, final)


class Budget:
    """How many counted tokens are still wanted, shared out among `texts` texts."""

    def __init__(self, limit: int | None, texts: int) -> None:
        self.limit, self.taken, self.cut = limit, 0, 0
        self._share = None if limit is None else max(_LEAST_SHARE, math.ceil(limit / max(texts, 1)))

    @property
    def full(self) -> bool:
        """Whether there is enough."""
        return self.limit is not None and self.taken >= self.limit

    def room(self, counted: Tensor) -> int:
        """How many positions of a text to keep; `counted` is bool [n]. 0 where none of them could be guessed."""
        places = counted[:LONGEST].nonzero()[:, 0]
        # The first two tokens are never guessed: the first guess of a chain is two tokens ahead.
        if not bool((places >= 2).any()):
            return 0
        room = len(places)
        if self.limit is not None and self._share is not None:
            room = max(1, min(room, self._share, self.limit - self.taken))
        keep = min(len(counted), LONGEST) if room == len(places) else int(places[room - 1]) + 1
        return max(keep, int(places[places >= 2][0]) + 1)

    def add(self, counted: Tensor, keep: int) -> None:
        """Note that the first `keep` positions of a text were taken."""
        self.cut += keep < len(counted)
        self.taken += int(counted[:keep].sum())

    def remarks(self, texts: int, tried: int, there: int, what: str) -> list[str]:
        """What was not taken: of `texts` texts some were cut, of `there` files or texts (`what`) only `tried` read."""
        remarks = []
        if self.cut:
            why = (
                "the limit is shared out" if self.limit is not None else f"at most {LONGEST} tokens of a text are taken"
            )
            remarks.append(f"cut {self.cut} of {plural(texts, 'text')}: {why}")
        if tried < there:
            remarks.append(f"read {tried} of {plural(there, what)}, which was enough for the limit")
        return remarks


def whole(value: Any, what: str) -> Tensor:
    """`value` as a dense tensor on the CPU. Raises `UnreadableError`."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.device.type != "cpu":
        kind = type(value).__name__ if not isinstance(value, Tensor) else "tensor without plain values"
        raise UnreadableError(f"{what} is a {show(kind)}, not a plain tensor")
    return value.detach()


def as_tokens(value: Any, what: str, *, least: int = 1) -> Tensor:
    """int64 [n], n ≥ `least`, from a list of ids or a tensor [n] or [1, n]. Raises `UnreadableError`."""
    if isinstance(value, list) and all(type(token) is int and -(2**63) <= token < 2**63 for token in value):
        value = torch.tensor(value, dtype=torch.int64)
    tokens = _flat(value, what)
    if tokens.dtype not in _INTEGERS:
        raise UnreadableError(f"{what} holds {_dtype(tokens)}, not token ids")
    if not len(tokens):
        raise UnreadableError(f"{what} is empty")
    if len(tokens) < least:
        raise UnreadableError(f"{what} has {plural(len(tokens), 'token')}; the first guess needs {least}")
    tokens = tokens.to(torch.int64)
    if bool((tokens < 0).any()):
        raise UnreadableError(f"{what} holds the id {int(tokens.min())}; token ids are 0 or more")
    return tokens


def as_mask(value: Any, what: str, length: int) -> Tensor:
    """bool [length] from a list or a tensor [n] or [1, n] of any plain dtype. Raises `UnreadableError`."""
    if isinstance(value, list) and all(isinstance(item, (int, float)) for item in value):
        value = torch.tensor([float(item) for item in value])
    mask = _flat(value, what)
    if len(mask) != length:
        raise UnreadableError(f"{what} has {len(mask)} values for {length} tokens")
    return mask != 0


def as_states(value: Any, what: str, length: int) -> Tensor:
    """[length, …] from a tensor of floats, with a batch dimension of one or without. Raises `UnreadableError`."""
    states = whole(value, what)
    if not states.is_floating_point():
        raise UnreadableError(f"{what} holds {_dtype(states)}, not hidden states")
    if states.dim() >= 3 and states.shape[0] == 1 and length != 1:
        states = states[0]
    if states.dim() < 2 or states.shape[0] != length:
        raise UnreadableError(f"{what} is {_shape(states)}, but there are {length} tokens")
    if 0 in states.shape:
        raise UnreadableError(f"{what} is {_shape(states)}, which holds nothing")
    return states


def _flat(value: Any, what: str) -> Tensor:
    tensor = whole(value, what)
    if tensor.dim() == 2 and tensor.shape[0] == 1:
        tensor = tensor[0]
    if tensor.dim() != 1:
        raise UnreadableError(f"{what} is {_shape(tensor)}, not one row of values")
    return tensor


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _shape(tensor: Tensor) -> str:
    return f"[{', '.join(str(size) for size in tensor.shape)}]"
