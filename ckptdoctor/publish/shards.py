"""Names of weight files that belong together: shards of one series, and what a converted one is called."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["INDEX_NAME", "lost_member", "safetensors_name"]

INDEX_NAME = "model.safetensors.index.json"
"""The name that engines and converters look for (transformers, SAFE_WEIGHTS_INDEX_NAME)."""

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<total>[0-9]{5})(?P<end>\.[a-z]+)", re.DOTALL)


def lost_member(files: Sequence[str]) -> str | None:
    """The first file that is missing from a series `…-00001-of-00003…`; None when every series is whole."""
    series: dict[tuple[str, int, str], set[int]] = {}
    for name in files:
        match = _SHARD.fullmatch(name)
        if match:
            series.setdefault((match["stem"], int(match["total"]), match["end"]), set()).add(int(match["number"]))
    for (stem, total, end), numbers in series.items():
        first = 0 if 0 in numbers else 1
        number = next(n for n in range(first, first + len(numbers) + 1) if n not in numbers)
        if number < first + total:
            return f"{stem}-{number:05d}-of-{total:05d}{end}"
    return None


def safetensors_name(name: str, alone: bool) -> str | None:
    """What the PyTorch file `name` is called as safetensors, as transformers names both; None when nothing says it.

    A file that is `alone` is the model, whatever it is called.
    """
    if alone:
        return "model.safetensors"
    match = _SHARD.fullmatch(name)
    if match is None or match["end"] != ".bin" or match["stem"] != "pytorch_model":
        return None
    return f"model-{match['number']}-of-{match['total']}.safetensors"
