"""Drafts of each kind with one thing of them at an edge: a scalar, an empty shape, zero, nothing, a huge number."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builder.building import build_draft
from builder.container import ITEM_SIZE, encode
from builder.draft import Draft, Tensor
from builder.mutations.config import config_to_text
from recipe_cases import RECIPES

__all__ = ["KINDS", "SHAPES", "VALUES", "Change", "changes_of", "draft_of", "with_changes", "written"]

KINDS = (
    "speculators-eagle3", "specforge-eagle3", "speculators-peagle", "speculators-dflash", "speculators-dspark",
    "deepspec-dspark", "k3-dspark", "jetspec", "eagle1-wrapped", "medusa-for-vllm", "mtp-qwen", "mtp-deepseek",
    "mtp-assistant", "quantised-fp8-blocks", "quantised-modelopt-nvfp4", "mla-eagle3", "rope-scaling-with-both-kinds",
)  # fmt: skip
"""Recipes of well drafts, one or more of each kind."""

ABSENT = object()
VALUES: tuple[Any, ...] = (
    ABSENT, None, 0, -1, 1, 2**31, 2**63, 10**400, 0.0, 1e308, float("nan"), True, "", "0", "x" * 3000, [], [[]], [0],
    [-1, None, "a"], {}, {"": None},
)  # fmt: skip
"""What a value of a config may be instead."""

SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (0, 0), (1, 0), (1, 1), (1, 1, 1), (0, 1, 0, 1))
"""Shapes that a tensor may have instead."""


@dataclass(frozen=True)
class Change:
    """One thing at an edge: `where` is `config`, `target` or `tensors`, `at` the keys that lead there."""

    where: str
    at: tuple[Any, ...]
    value: Any

    def __str__(self) -> str:
        value = "absent" if self.value is ABSENT else repr(self.value)[:40]
        return f"{self.where} {'.'.join(map(str, self.at))} = {value}"


def draft_of(kind: str) -> Draft:
    """The well draft of a recipe."""
    return build_draft(RECIPES[kind])


def changes_of(draft: Draft) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every place of a draft where something can be put to an edge."""
    for where, value in (("config", draft.config), ("target", draft.target)):
        yield from ((where, path) for path in _paths(value) if path)
    yield from (("tensors", (name,)) for name in draft.tensors)


def _paths(value: Any, depth: int = 5) -> Iterator[tuple[Any, ...]]:
    yield ()
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in inner:
        yield from ((key, *rest) for rest in _paths(item, depth - 1))


def with_changes(draft: Draft, *changes: Change) -> Draft:
    """A copy of the draft with these changes. What an earlier one took away is passed over."""
    changed = copy.deepcopy(draft)
    for change in changes:
        if change.where == "tensors":
            _tensor(changed.tensors, str(change.at[0]), change.value)
        else:
            _put(getattr(changed, change.where), change.at, change.value)
    return changed


def _tensor(tensors: dict[str, Tensor], name: str, shape: Any) -> None:
    old = tensors.pop(name, None)
    if old is None or shape is ABSENT:
        return
    tensors[name] = Tensor(old.dtype, tuple(shape), bytes(math.prod(shape) * ITEM_SIZE[old.dtype]))


def _put(held: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        try:
            held = held[key]
        except (KeyError, IndexError, TypeError):
            return
    last = path[-1]
    if isinstance(held, dict):
        held.pop(last, None) if value is ABSENT else held.__setitem__(last, value)
    elif isinstance(held, list) and isinstance(last, int) and last < len(held):
        held.pop(last) if value is ABSENT else held.__setitem__(last, value)


def written(draft: Draft, folder: Path) -> Path:
    """The draft as files in `folder`, which may hold an earlier one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(encode(draft.tensors, draft.metadata))
    (folder / "config.json").write_text(config_to_text(draft.config or {}), encoding="utf-8")
    if draft.target is not None:
        (folder / "target").mkdir(exist_ok=True)
        (folder / "target" / "config.json").write_text(config_to_text(draft.target), encoding="utf-8")
    for name, text in draft.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
