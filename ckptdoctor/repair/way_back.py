"""How the source can be rebuilt from the copy: each of its files as pieces of files of the copy and of kept bytes.

What a repair replaces is small (headers, configs, maps) and is kept in the receipt; what stays lies in the copy. Large
bytes that are gone (a frozen target that was dropped, a PyTorch file that was converted) are not kept, and then the way
back says which.
"""

from __future__ import annotations

import base64
import os
import stat
import zlib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ckptdoctor.publish.pieces import Range
from ckptdoctor.publish.tree import Entry, Tree
from ckptdoctor.repair.assemble import Assembly

__all__ = ["ALL_LIMIT", "KEEP_LIMIT", "way_back"]

KEEP_LIMIT = 4 * 1024 * 1024
"""Bytes in a row that are kept at most: a map of the largest vocabulary, or the header of a large file."""

ALL_LIMIT = 16 * 1024 * 1024
"""Bytes that are kept at most of all files together."""

_LINE = 65_536


def way_back(tree: Tree, assembly: Assembly, digests: Mapping[Path, str | None]) -> dict[str, Any]:
    """The part `undo` of a receipt. `digests` are the SHA-256 of the source files by path, where they are known."""
    places = _places(assembly)
    unchanged = {file.name for file in assembly.files if file.unchanged}
    files: list[dict[str, Any]] = []
    lost: list[dict[str, Any]] = []
    room = ALL_LIMIT
    for entry in tree.entries:
        row: dict[str, Any] = {
            "name": entry.name,
            "size": entry.status.st_size,
            "sha256": digests.get(entry.path),
            "mode": stat.S_IMODE(entry.status.st_mode),
            "mtime_ns": entry.status.st_mtime_ns,
        }
        if entry.name in unchanged:
            row["pieces"] = [{"from": entry.name, "start": 0, "end": entry.status.st_size}]
        else:
            row["pieces"], kept, gone = _pieces(entry, places.get(entry.path, []), room)
            room -= kept
            if gone:
                lost.append({"file": entry.name, "bytes": gone})
        files.append(row)
    return {"reversible": not lost, "lost": lost, "folders": list(tree.folders), "files": files}


Place = tuple[int, int, str, int]
"""Bytes of a source file that lie in the copy: start and end in the source, the file of the copy, and where in it."""


def _places(assembly: Assembly) -> dict[Path, list[Place]]:
    found: dict[Path, list[Place]] = defaultdict(list)
    for file in assembly.files:
        at = 0
        for piece in file.pieces:
            if isinstance(piece, Range):
                found[piece.path].append((piece.start, piece.end, file.name, at))
            at += piece.length
    return {path: sorted(places) for path, places in found.items()}


def _pieces(entry: Entry, places: list[Place], room: int) -> tuple[list[dict[str, Any]], int, int]:
    """The pieces of one source file; how many bytes are kept for it, and how many are lost."""
    pieces: list[dict[str, Any]] = []
    kept = lost = at = 0
    end_of_file = entry.status.st_size
    with entry.open() as stream:
        for start, end, name, place in [*places, (end_of_file, end_of_file, "", 0)]:
            if start > at:
                gap = start - at
                if gap <= KEEP_LIMIT and kept + gap <= room:
                    pieces.append({"kept": _packed(os.pread(stream.fileno(), gap, at)), "length": gap})
                    kept += gap
                else:
                    pieces.append({"lost": gap})
                    lost += gap
                at = start
            if end > at:
                pieces.append({"from": name, "start": place + at - start, "end": place + end - start})
                at = end
    return pieces, kept, lost


def _packed(data: bytes) -> list[str]:
    """`data` compressed and in base64, in lines that every JSON reader takes."""
    text = base64.b64encode(zlib.compress(data, 9)).decode()
    return [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
