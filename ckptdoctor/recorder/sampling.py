"""Samples for `ckptdoctor probe`: states as the draft received them, beside the next tokens and their positions."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["SampleFile", "side_by_side", "whole_texts"]


class SampleFile:
    """Collects tokens until there are `wanted`, and writes them.

    The file is a safetensors file with `next_token_ids` int64 [n], `position_ids` int64 [n] and `hidden_states`
    [n, S, T] as received, before fc, and the metadata `ckptdoctor` (`recorded`), `engine`, `version`, `boundaries`
    (a JSON list, or null) and `phase`. Texts follow one another; each begins at position 0. It is written beside its
    place and moved there, whenever it has doubled, so that an engine that is killed leaves what there was.
    """

    def __init__(self, path: Path, wanted: int) -> None:
        self.path = path
        self.wanted = wanted
        self.metadata: dict[str, str] = {}
        self.tokens = 0
        self.full = False
        self._parts: list[tuple[Any, Any, Any]] = []
        self._written = 0

    def describe(
        self, engine: str | None, version: str | None, boundaries: Sequence[int] | None, phase: str | None
    ) -> None:
        """Sets the metadata."""
        self.metadata = {
            "ckptdoctor": "recorded", "engine": engine or "", "version": version or "",
            "boundaries": json.dumps(list(boundaries) if boundaries else None), "phase": phase or "",
        }  # fmt: skip

    def add(self, ids: Any, positions: Any, states: Any, state: int) -> bool:
        """Adds the whole texts of one pass: ids [n], positions [n], states [n, S·state], all on the host.

        Returns whether there are enough tokens now. Raises `OSError`.
        """
        for begin, end in whole_texts(positions.tolist()):
            count = min(end - begin, self.wanted - self.tokens)
            if count < 2:
                continue
            here = slice(begin, begin + count)
            part = states[here].reshape(count, -1, state).contiguous()
            self._parts.append((ids[here].long(), positions[here].long(), part))
            self.tokens += count
        # Within a token of what is wanted is enough: a text of one token is none.
        self.full = self.tokens >= self.wanted - 1
        if self.full or self.tokens >= 2 * self._written:
            self.write()
        return self.full

    def write(self) -> None:
        """Writes what there is. Raises `OSError`."""
        import torch
        from safetensors.torch import save_file

        if self.tokens == self._written:
            return
        names = ("next_token_ids", "position_ids", "hidden_states")
        tensors = {name: torch.cat([part[i] for part in self._parts]) for i, name in enumerate(names)}
        handle, temporary = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        os.close(handle)
        try:
            save_file(tensors, temporary, metadata=self.metadata)
            Path(temporary).replace(self.path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        self._written = self.tokens


def side_by_side(ids: Any, positions: Any, count: int) -> tuple[Any, Any] | None:
    """Ids and positions of the first `count` tokens, each [count], or None where they do not stand beside the states.

    Engines pad ids and positions [n]; programs may have [texts, n], and no positions where each text is whole.
    Positions in several dimensions (of pictures) are none of a text.
    """
    import torch

    if not isinstance(ids, torch.Tensor) or ids.dim() not in (1, 2):
        return None
    if positions is None:
        positions = torch.arange(ids.shape[-1], device=ids.device).expand(ids.shape)
    elif positions.dim() == 1 and ids.dim() == 2:
        positions = positions.expand(ids.shape)
    if positions.dim() != ids.dim() or positions.numel() < count or ids.numel() < count:
        return None
    return ids.reshape(-1)[:count], positions.reshape(-1)[:count]


def whole_texts(positions: Sequence[int]) -> list[tuple[int, int]]:
    """The ranges of a pass that begin at position 0 and go on one by one.

    A pass holds the tokens of several requests one after the other. What begins later needs states that are not in
    this pass: the rest of a long prompt, what a prefix cache has left out, the tokens of a verification.
    """
    found: list[tuple[int, int]] = []
    begin: int | None = None
    for i, position in enumerate(positions):
        if begin is not None and position != positions[i - 1] + 1:
            found.append((begin, i))
            begin = None
        if position == 0 and begin is None:
            begin = i
    if begin is not None:
        found.append((begin, len(positions)))
    return found
