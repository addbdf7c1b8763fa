"""Writes the small files that the tests of this folder open: well made by default, damaged on request."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from ckptdoctor.checkpoint import Checkpoint, open_checkpoint
from ckptdoctor.errors import CannotExamineError

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234\n"


def entry(dtype: str, shape: list[int], start: int, end: int, **more: Any) -> dict[str, Any]:
    """One entry of a header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end], **more}


def container(header: Any, data: bytes = b"") -> bytes:
    """The bytes of a safetensors file; `header` is JSON-ready, or text or bytes to be stored as they are."""
    if isinstance(header, str):
        header = header.encode()
    raw = header if isinstance(header, bytes) else json.dumps(header, ensure_ascii=False).encode()
    return struct.pack("<Q", len(raw)) + raw + data


def sound(*names: str) -> bytes:
    """A sound container with one F32 tensor of two elements per name."""
    header = {name: entry("F32", [2], 8 * i, 8 * i + 8) for i, name in enumerate(names)}
    return container(header, bytes(8 * len(names)))


def folder(root: Path, **files: bytes | str) -> Path:
    """Write `files` into `root`; double underscores in a keyword stand for the dot of the name."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        place = root / name.replace("__", ".")
        place.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def index(**weight_map: str) -> str:
    """The text of an index, one tensor per line."""
    return json.dumps({"metadata": {}, "weight_map": weight_map}, indent=1)


def sharded(root: Path, shards: dict[str, list[str]], weight_map: dict[str, str] | None = None) -> Path:
    """A folder of sound shards and an index (the true one unless `weight_map` is given)."""
    root.mkdir(parents=True, exist_ok=True)
    for file, names in shards.items():
        (root / file).write_bytes(sound(*names))
    true = {name: file for file, names in shards.items() for name in names}
    (root / "model.safetensors.index.json").write_text(index(**(true if weight_map is None else weight_map)))
    return root


def kinds(checkpoint: Checkpoint) -> list[tuple[str, str]]:
    return [(fault.kind, fault.file) for fault in checkpoint.faults]


def refusal(path: Path | str) -> str:
    """The sentence that says why nothing can be examined."""
    with pytest.raises(CannotExamineError) as caught:
        open_checkpoint(str(path))
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)
    return str(caught.value)


def hub_entry(root: Path, revisions: tuple[str, ...] = ("abc",), main: str | None = "abc") -> Path:
    """A download cache entry with relative links into its blobs, as huggingface_hub lays it out."""
    place = root / "models--org--name"
    (place / "blobs").mkdir(parents=True)
    (place / "blobs" / "w1").write_bytes(sound("a"))
    (place / "blobs" / "c1").write_text("{}")
    for revision in revisions:
        snapshot = place / "snapshots" / revision
        (snapshot / "sub").mkdir(parents=True)
        (snapshot / "model.safetensors").symlink_to("../../blobs/w1")
        (snapshot / "config.json").symlink_to("../../blobs/c1")
        (snapshot / "sub" / "model.safetensors").symlink_to("../../../blobs/w1")
    if main:
        (place / "refs").mkdir()
        (place / "refs" / "main").write_text(main)
    return place
