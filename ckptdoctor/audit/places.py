"""The folders of a tree on this machine that may be checkpoints, each with a stable key and a mark of its files."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.text import show

__all__ = ["FOLDER_LIMIT", "Place", "local_places", "mark_of", "may_be_model", "own_folders", "weighty"]

FOLDER_LIMIT = 5_000_000
"""Folders of a tree that an audit looks into unless it is told another number."""

_GLANCE = 1024 * 1024
_ENDINGS = (".safetensors", ".bin", ".pt", ".pth", ".safetensors.index.json", ".bin.index.json")


@dataclass(frozen=True)
class Place:
    """A folder that may be a checkpoint.

    `key` names it in the results, whatever the working folder is; `path` is what a person calls it. `mark` changes when
    its files do. `look` says that it may be an ordinary model, a target for drafts; `problem` is why it cannot be
    read. In a tree that is reached through fsspec `root` is the address of the tree and `inner` the folder in it.
    """

    key: str
    path: str
    mark: str
    look: bool = False
    problem: str | None = None
    root: str | None = None
    inner: str | None = None

    def as_line(self) -> str:
        """The place as one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @staticmethod
    def from_line(line: str) -> Place:
        """The place that `as_line` wrote."""
        return Place(**json.loads(line))


def local_places(root: str, label: str, limit: int = FOLDER_LIMIT) -> Iterator[Place]:
    """The places in the folder `root`, in the order of their names, with keys that begin with `label`.

    Links to folders are not followed, hidden folders are left out; a folder that cannot be read is a place with a
    problem. Raises `CannotExamineError` for a tree of more than `limit` folders.
    """
    waiting = [root]
    seen = 0
    while waiting:
        folder = waiting.pop()
        seen += 1
        if seen > limit:
            raise CannotExamineError(f"{show(root)}: has more than {limit} folders; name a part of it (or --folders)")
        key = _key(label, os.path.relpath(folder, root))
        try:
            with os.scandir(folder) as entries:
                inner, files = _sorted_out(entries)
        except OSError as error:
            yield Place(key, folder, "", problem=f"cannot be read ({show(error.strerror or error)})")
            continue
        look = any(name == "config.json" for name, *_ in files) and _glance(f"{folder}/config.json")
        if look or weighty(name for name, *_ in files):
            yield Place(key, folder, mark_of(files), look)
        waiting += [f"{folder.rstrip('/')}/{name}" for name in reversed(inner)]


def weighty(names: Iterable[str]) -> bool:
    """Whether one of these files may hold weights, by its name."""
    return any(name.endswith(_ENDINGS) for name in names)


def mark_of(files: Iterable[tuple[object, ...]]) -> str:
    """32 hex digits of the files of a folder: names, sizes, times."""
    text = json.dumps(sorted(map(list, files)), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def may_be_model(config: Any) -> bool:
    """Whether this config.json may be that of an ordinary model: all its sizes are there, and no mark of a draft."""
    if not isinstance(config, dict):
        return False
    known = knowledge()
    marks = known.words["pairing"]["draft_marks"]
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None
    drafts = known.architectures.get(name, {}).get("algorithm", "plain") if name is not None else "plain"
    return known.kind_of(drafts).may_hold_target and not any(config.get(mark) is not None for mark in marks)


def _key(label: str, inside: str) -> str:
    return label if inside == "." else f"{label}/{inside}"


def _sorted_out(entries: Iterable[os.DirEntry[str]]) -> tuple[list[str], list[tuple[str, int, int]]]:
    """The names of the folders to go into, and the files with their sizes and times."""
    inner: list[str] = []
    files: list[tuple[str, int, int]] = []
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith("."):
                    inner.append(entry.name)
                continue
            status = entry.stat()
        except OSError:
            files.append((entry.name, -1, 0))  # a link that leads nowhere: a finding of the scan
            continue
        if not stat.S_ISDIR(status.st_mode):
            files.append((entry.name, status.st_size, status.st_mtime_ns))
    return own_folders(sorted(inner)), files


def own_folders(names: list[str]) -> list[str]:
    """`names` without what holds the same files once more: in a download cache of the Hub, all but the snapshots."""
    return ["snapshots"] if {"blobs", "snapshots"} <= set(names) else names


def _glance(path: str) -> bool:
    """Whether the config.json at `path` may be that of an ordinary model. A quick look: the scan reads it with care."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return stat.S_ISREG(os.fstat(descriptor).st_mode) and may_be_model(json.loads(file.read(_GLANCE)))
    except (OSError, ValueError, RecursionError):
        return False
