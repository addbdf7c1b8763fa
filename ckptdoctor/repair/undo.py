"""`fix --undo`: the original from a repaired copy and its receipt, byte for byte.

The receipt is data from a stranger: it is held to its schema, its names are plain paths inside the copy, its ranges lie
inside their files, what it unpacks has the length it says, and every file it rebuilds must have the SHA-256 it gives.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckptdoctor.checkpoint.folder import Folder, locate
from ckptdoctor.checkpoint.weights import read_json_file
from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.publish.comparing import compare, compare_size
from ckptdoctor.publish.copying import SourceGuard
from ckptdoctor.publish.digests import VerificationError
from ckptdoctor.publish.pieces import Literal, OutputFile, Piece, Range
from ckptdoctor.publish.publishing import Staging, check_out
from ckptdoctor.publish.tree import DEPTH_LIMIT, Entry, read_tree
from ckptdoctor.publish.writing import write_files
from ckptdoctor.repair.fixing import Progress
from ckptdoctor.repair.receipt import SCHEMA_VERSION
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.repair.way_back import ALL_LIMIT, KEEP_LIMIT
from ckptdoctor.resources import rules_dir
from ckptdoctor.summary import byte_count
from ckptdoctor.text import listing, show

__all__ = ["Restored", "undo"]

RECEIPT_LIMIT = 128 * 1024 * 1024
"""Bytes of a receipt that are read."""

_ROOM = 4
"""A receipt says several things about each file: of 100,000 files, more than any config does."""


@dataclass(frozen=True)
class Restored:
    """What was rebuilt: into which folder, how many files and bytes. `unproven` are files without a SHA-256 in the
    receipt, which came back with the right size."""

    path: str
    out: str
    files: int
    size: int
    unproven: tuple[str, ...]


def undo(copy: str | Path, out: str | Path, *, progress: Progress = lambda _what, _done, _all: None) -> Restored:
    """Rebuild the original of the repaired `copy` as the new folder `out`. The copy is only read.

    Raises `UsageError` for a bad `out` or a folder that is no repaired copy, `CannotExamineError` when some of the
    original was not kept (it says which), and `VerificationError` when the copy is no longer what its receipt says.
    """
    root, only = locate(str(copy))
    if only is not None:
        raise UsageError(f"{show(copy)} is a single file; name the folder of the repaired copy")
    tree = read_tree(root)
    receipt = _receipt(root)
    back = receipt["undo"]
    if not back["reversible"]:
        lost = listing([f"{row['file']} ({byte_count(row['bytes'])})" for row in back["lost"]], 6)
        raise CannotExamineError(
            f"{show(copy)}: the original cannot be rebuilt, since bytes of it are gone: {lost}. They are in the"
            f" original alone, which was at {show(receipt['source']['path'])}"
        )
    place = check_out(root, str(out))
    here = {entry.name: entry for entry in tree.entries}
    kept = sum(piece.get("length", 0) for row in back["files"] for piece in row["pieces"])
    if kept > ALL_LIMIT:
        raise VerificationError(f"{RECEIPT_NAME} keeps more bytes than any repair does; nothing is written")
    files = [_file(row, here) for row in back["files"]]
    guard = SourceGuard({entry.path: entry.status for entry in tree.entries})
    wanted = {row["name"]: row["sha256"] for row in back["files"]}
    limit = max((row["size"] for row in back["files"] if row["sha256"] is not None), default=0)
    total = sum(file.size for file in files) + compare_size(files, limit, guard)
    done = 0

    def step(what: str) -> Callable[[int], None]:
        def advance(count: int) -> None:
            nonlocal done
            done += count
            progress(what, done, total)

        return advance

    with Staging(place) as staging:
        folders = [_plain(folder) for folder in back["folders"]]
        written = write_files(files, staging.root, step("copying"), guard, folders=folders, place=place)
        compared = compare(files, staging.root, step("comparing"), limit, written.shared, guard)
        for digest in compared.files:
            if wanted[digest.name] is not None and digest.sha256 != wanted[digest.name]:
                raise VerificationError(
                    f"{show(digest.name)} does not come back as it was: the copy was changed after its repair;"
                    " nothing is written"
                )
        guard.check()
        staging.publish(root)
    unproven = tuple(name for name, sha256 in wanted.items() if sha256 is None)
    return Restored(str(copy), str(out), len(files), sum(f.size for f in files), unproven)


def _receipt(root: Path) -> dict[str, Any]:
    """The receipt of a repaired copy. Raises `UsageError` when there is none that can be used."""
    from jsonschema import Draft202012Validator

    document = read_json_file(Folder(root), RECEIPT_NAME, RECEIPT_LIMIT, room=_ROOM)
    if document is None:
        raise UsageError(f"{show(root)} has no {RECEIPT_NAME}: it is no repaired copy, and there is nothing to undo")
    version = document.object.get("schema_version")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UsageError(
            f"{show(root / RECEIPT_NAME)} was written by a newer ckptdoctor (version {version} of the receipt; this one"
            f" knows {SCHEMA_VERSION}): undo the repair with that one"
        )
    schema = json.loads((rules_dir() / "schema" / "receipt.schema.json").read_bytes())
    error = next(Draft202012Validator(schema).iter_errors(document.value), None)
    if not document.readable or error is not None:
        where = ".".join(show(part, 40) for part in error.absolute_path) if error is not None else ""
        raise UsageError(
            f"{show(root / RECEIPT_NAME)} is damaged{f' at {where}' if where else ''}; the way back is lost"
        )
    return document.object


def _file(row: dict[str, Any], here: dict[str, Entry]) -> OutputFile:
    pieces: list[Piece] = []
    for piece in row["pieces"]:
        if "kept" in piece:
            pieces.append(Literal(_unpacked(piece["kept"], int(piece["length"]))))
            continue
        if "lost" in piece:
            raise VerificationError(
                f"{RECEIPT_NAME} contradicts itself: it calls bytes lost that it needs; nothing is written"
            )
        entry = here.get(piece["from"])
        start, end = int(piece["start"]), int(piece["end"])  # to JSON Schema 1.0 is an integer
        if entry is None or not 0 <= start <= end <= entry.status.st_size:
            raise VerificationError(
                f"{show(piece['from'])} of the copy is gone or shorter than it was; nothing is written"
            )
        if end > start:
            pieces.append(Range(entry.path, start, end))
    file = OutputFile(_plain(row["name"]), tuple(pieces), keep=(int(row["mode"]) & 0o777, int(row["mtime_ns"])))
    if file.size != row["size"]:
        raise VerificationError(f"the pieces of {show(row['name'])} do not make up its size; nothing is written")
    return file


def _unpacked(lines: list[str], length: int) -> bytes:
    try:
        if length > KEEP_LIMIT:
            raise ValueError
        packer = zlib.decompressobj()
        # One byte more than there should be: only then does zlib read on to the end of its stream.
        data = packer.decompress(base64.b64decode("".join(lines), validate=True), length + 1)
        if len(data) != length or packer.unconsumed_tail or (length and not packer.eof):
            raise ValueError
    except (ValueError, binascii.Error, zlib.error):
        raise VerificationError(f"bytes that {RECEIPT_NAME} keeps are damaged; nothing is written") from None
    return data


def _plain(name: str) -> str:
    parts = name.split("/")
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        raise VerificationError(f"{RECEIPT_NAME} names a file that no disk can hold: {show(name)}") from None
    if any(part in ("", ".", "..") for part in parts) or "\0" in name or len(parts) > DEPTH_LIMIT + 1:
        raise VerificationError(f"{RECEIPT_NAME} names a file outside of the checkpoint: {show(name)}")
    return name
