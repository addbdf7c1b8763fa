"""Samples: texts of a target with the hidden states that were recorded at each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Sample", "Samples"]


@dataclass(frozen=True)
class Sample:
    """One text of n tokens.

    `tokens`: int64 [n], ids of the target. `counted`: bool [n], whether the target wrote this token itself (the loss
    mask); only predictions of such tokens are counted. `states`: float32 [n, S, T], S recorded states of the target's
    width T at each token. `answers`: int64 [n], the target's own greedy next token after each position, None where it
    is not known and the text itself is the answer. `name` says where the text comes from, for messages.
    """

    name: str
    tokens: Tensor
    counted: Tensor
    states: Tensor
    answers: Tensor | None = None


@dataclass(frozen=True)
class Samples:
    """Texts of one target, all with the same columns of states.

    `form` is `specforge`, `speculators`, `target` (made on the spot) or `recorded` (by the recorder, in an engine).
    `boundaries` says for each column which boundary it is, None where the file does not. `embedding` is the target's
    embedding matrix, float32 [V, T], where its weights are at hand. `remarks` are things that a person should know
    about the samples (files left out, texts cut), as sentences without a stop.
    """

    form: str
    items: tuple[Sample, ...]
    boundaries: tuple[int | None, ...]
    embedding: Tensor | None = None
    remarks: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """T, the width of one state."""
        return int(self.items[0].states.shape[2])

    @property
    def columns(self) -> int:
        """S, the number of states recorded at each token."""
        return len(self.boundaries)

    @property
    def counted(self) -> int:
        """Tokens that the target wrote itself."""
        return sum(int(item.counted.sum()) for item in self.items)
