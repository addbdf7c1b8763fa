"""Drafts that a loader cannot tell apart: one load of the first answers for all of them.

Every floating tensor is handed to the loader as a mark (marked_tensors.py), whatever it holds, and no loader opens the
weights of the target. So recipes that differ in such values alone, or in what no loader reads, are one draft here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ckptdoctor.repair.receipt_reading import RECEIPT_NAME

__all__ = ["alike"]

_MARKED = ("BF16", "F16", "F32", "F64")
_UNREAD = {"target/model.safetensors", "target/token_counts.json", RECEIPT_NAME}
_LONGEST_HEADER = 1 << 24


def alike(drafts: Sequence[Path]) -> dict[Path, Path]:
    """Each draft, and the first one that is the same to a loader."""
    first: dict[str, Path] = {}
    return {draft: first.setdefault(_digest(draft), draft) for draft in drafts}


def _digest(draft: Path) -> str:
    # SGLang takes some words in a path for a format (is_mistral_model).
    digest = hashlib.sha256(draft.name.encode() if "mistral" in draft.name or "leanstral" in draft.name else b"")
    for path in sorted(draft.rglob("*")):
        name = path.relative_to(draft).as_posix()
        # The other copy of a draft, of recipes that compare two, is in no one's way.
        if path.is_file() and name not in _UNREAD and not name.startswith("old/"):
            for piece in (name.encode(), *_content(path)):
                digest.update(len(piece).to_bytes(8, "little") + piece)
    return digest.hexdigest()


def _content(path: Path) -> Iterator[bytes]:
    """All of a file, but for the values of floating tensors in a sound safetensors file."""
    raw = path.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    if path.suffix != ".safetensors" or not 8 < begin <= min(len(raw), _LONGEST_HEADER):
        yield raw
        return
    try:
        header = json.loads(raw[8:begin])
        kept = [t["data_offsets"] for n, t in header.items() if n != "__metadata__" and t["dtype"] not in _MARKED]
        pieces = [raw[begin + start : begin + end] for start, end in kept]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        yield raw
        return
    yield from (raw[:begin], str(len(raw)).encode(), *pieces)
