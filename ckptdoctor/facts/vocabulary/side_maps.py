"""The map of a draft vocabulary that a trainer left in a file beside the weights (rules/facts/side_maps.yaml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.facts.knowledge import Knowledge, knowledge
from ckptdoctor.facts.vocabulary.token_map import ids_of, read_content

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IntArray = npt.NDArray[np.int64]

__all__ = ["read_side_map", "side_maps"]


def side_maps(checkpoint: Checkpoint, known: Knowledge | None = None) -> tuple[str, ...]:
    """The names of such files in the folder. Nothing is read."""
    patterns = [re.compile(p) for p in (known or knowledge()).words["side_maps"]["files"]]
    return tuple(sorted(n for n in checkpoint.names_in_folder() if any(p.search(n) for p in patterns)))


def read_side_map(path: Path, name: str) -> dict[str, IntArray]:
    """The rows of whole numbers in the file `path`, by what they mean: `ids`, `offsets` or `unsaid` (int64, shape [D]).

    Nothing in the file is executed. Raises `CannotExamineError` with one sentence when it cannot be read.
    """
    content = read_content(path, name)
    meanings: Mapping[str, str] = knowledge().words["side_maps"]["entries"]
    if not isinstance(content, Mapping):
        stem = name.partition(".")[0]
        rows: list[tuple[str, Any]] = [(meanings.get(stem, "unsaid"), content)]
    else:
        rows = [(meaning, content[key]) for key, meaning in meanings.items() if key in content]
    found: dict[str, IntArray] = {}
    for meaning, values in rows:
        ids = ids_of(values)
        if ids is not None:
            found.setdefault(meaning, ids)
    return found
