"""Layers that count: each adds one to the residual stream, so that a captured state is the number of its boundary."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from small_models import (
    DEPTH,
    FIRST,
    WIDTH,
)


def constant(value: float, replaced: Any) -> Any:
    """A module that gives `value` in the width of the model; it has the other attributes of the one it replaces."""
    import torch

    class Constant(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            given = kwargs.get("hidden_states", kwargs.get("x"))
            if given is None:
                given = next(a for a in args if isinstance(a, torch.Tensor) and a.is_floating_point())
            made = torch.full((*given.shape[:-1], WIDTH), value, dtype=given.dtype)
            if isinstance(kwargs.get("output"), torch.Tensor):
                kwargs["output"].copy_(made)
            return made

        def __getattr__(self, name: str) -> Any:
            return getattr(replaced, name)

    return Constant()


ATTENTION = ("self_attn", "attn", "attention", "linear_attn")


MLP = ("mlp", "block_sparse_moe", "feed_forward", "ffn")


def count_layers(decoder: Any) -> None:
    """Makes each decoder layer add one to the residual stream, and the embedding zero."""
    import torch

    for layer in decoder.layers:
        replaced = 0
        for names in (ATTENTION, MLP):
            for name in names:
                part = getattr(layer, name, None)
                if isinstance(part, torch.nn.Module):
                    setattr(layer, name, constant(0.5, part))
                    replaced += 1
        if replaced != 2:
            raise RuntimeError(f"{type(layer).__name__} has other parts than attention and MLP")
    for module in decoder.modules():
        if hasattr(module, "forward_native"):
            if hasattr(module, "_forward_method"):
                module._forward_method = module.forward_native
            else:
                module.forward = module.forward_native
    for parameter in decoder.parameters():
        with contextlib.suppress(Exception):
            parameter.data = torch.ones_like(parameter.data)


def boundaries(captured: Any) -> list[Any]:
    """Captured states as numbers."""
    import torch

    found = []
    if isinstance(captured, torch.Tensor):  # states side by side, from 0.5.17 of SGLang for some classes
        captured = captured.split(WIDTH, dim=-1)
    for state in captured:
        mean = float(state.float().mean())
        if not torch.allclose(state.float(), torch.full_like(state.float(), mean), atol=1e-3):
            raise RuntimeError("a captured state is no multiple of ones")
        found.append(int(mean) if mean == int(mean) else mean)
    return found


def observe(choose: Callable[[list[int] | None], None], run: Callable[[], list[Any]]) -> list[dict[str, Any]]:
    """What arrives for no ids, and for lists with each id from below zero to above the last layer."""
    lists: list[list[int] | None] = [None, [1, FIRST, 8], [2, FIRST, 9]]
    lists += [[FIRST, x] for x in range(-3, DEPTH + 3) if x != FIRST]
    seen: list[dict[str, Any]] = []
    for ids in lists:
        row: dict[str, Any] = {"ids": ids}
        try:
            choose(ids)
        except (IndexError, KeyError, ValueError, AssertionError, TypeError) as error:
            seen.append({**row, "refused": "start", "reason": repr(error)[:120]})
            continue
        try:
            row["captured"] = run()
        except (IndexError, KeyError, ValueError, AssertionError, TypeError, RuntimeError) as error:
            row.update(refused="first_forward", reason=repr(error)[:120])
        seen.append(row)
    return seen


def in_child(work: Callable[[], Any]) -> Any:
    """The result of `work` in a process of its own, or the error as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            answer: dict[str, Any] = {"seen": work()}
        except BaseException as error:  # noqa: BLE001  # SystemExit too: the child reports and ends here
            frame = error.__traceback__
            while frame is not None and frame.tb_next is not None:
                frame = frame.tb_next
            where = f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame is not None else ""
            answer = {"error": f"{type(error).__name__}: {str(error)[:160]} ({where})"}
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "the process ended"}
