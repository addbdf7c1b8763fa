"""What a commit or the index consists of, entry by entry, and which names of entries may not become files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.publish.tree import DEPTH_LIMIT
from ckptdoctor.registry.git.commands import Repository
from ckptdoctor.text import show

__all__ = ["ENTRY_LIMIT", "Entry", "bad_name", "index_entries", "tree_entries"]

ENTRY_LIMIT = 100_000
"""Files and folders of a commit that are laid out; a gate refuses a larger one rather than judge it in part."""


@dataclass(frozen=True)
class Entry:
    """One entry. `kind` is `file`, `link` or `submodule`; `path` its path in the tree, with `/`."""

    path: str
    kind: str
    oid: str


def tree_entries(repository: Repository, tree: str) -> Iterator[Entry]:
    """All entries of the tree with the id `tree`, whatever is in the work tree or the index.

    Raises `CannotExamineError` for an unreadable tree, and for one of more than `ENTRY_LIMIT` entries.
    """
    # With -t, since folders in folders in folders count too: a tree may hold billions of them in a few kilobytes.
    lines = repository.listing("ls-tree", "-r", "-t", "-z", "--full-tree", tree)
    for line in _limited(lines):
        head, _, path = line.partition(b"\t")
        mode, _, oid = head.split()
        if mode != b"040000":
            yield _entry(mode, oid, path)


def index_entries(repository: Repository) -> Iterator[Entry]:
    """All entries of the index: what a commit made now would hold. Raises `CannotExamineError` as `tree_entries`."""
    for line in _limited(repository.listing("ls-files", "--stage", "-z", "--full-name", ":/")):
        head, _, path = line.partition(b"\t")
        mode, oid, stage = head.split()
        if stage != b"0":
            raise CannotExamineError(f"{show(os.fsdecode(path))} is not merged; resolve the conflict first")
        yield _entry(mode, oid, path)


def bad_name(path: str) -> str | None:
    """Why `path` may not be laid out, in words; None for an ordinary path."""
    parts = path.split("/")
    if "" in parts:
        return "it is no path inside a tree"
    if any(part in (".", "..") for part in parts):
        return "its path leads out of its folder"
    if any(part.lower() == ".git" for part in parts):
        return "no commit may hold a .git"
    if ".cache" in parts:  # a gate does not look into one: in a work tree it holds downloads
        return "it is in a .cache folder, which holds downloads and is not judged; leave it out of the repository"
    if len(parts) > DEPTH_LIMIT:
        return f"folders in it are nested more than {DEPTH_LIMIT} deep"
    return None


def _limited(lines: Iterable[bytes]) -> list[bytes]:
    """All lines, counted before the first of them is laid out as a file."""
    found: list[bytes] = []
    for line in lines:
        if len(found) >= ENTRY_LIMIT:
            raise CannotExamineError(f"it has more than {ENTRY_LIMIT} files and folders")
        found.append(line)
    return found


def _entry(mode: bytes, oid: bytes, path: bytes) -> Entry:
    kind = {b"120000": "link", b"160000": "submodule"}.get(mode, "file")
    return Entry(os.fsdecode(path), kind, oid.decode("ascii"))
