"""The folder of the source as it has to be copied: every file in it, with the real file behind each link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from ckptdoctor.checkpoint.folder import leads_out
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.publish.copying import CannotReadError, SourceGuard
from ckptdoctor.text import show

__all__ = ["DEPTH_LIMIT", "LEFT_OUT", "Entry", "Tree", "read_tree"]

ENTRY_LIMIT = 100_000
"""Files and folders of a checkpoint that are copied at most."""

DEPTH_LIMIT = 64
"""Folders inside each other that are copied at most."""

LEFT_OUT = {
    ".git": "the history of the repository; it describes the files as they were",
    ".cache/huggingface": "the download records of the Hub client; they describe the files as they were",
}
"""What is not part of the checkpoint, by its path in the folder, and why it is left out."""


@dataclass(frozen=True)
class Entry:
    """One file of the source. `name` is its path in the folder, with `/`; `path` the real file; `link` whether a link
    leads there."""

    name: str
    path: Path
    status: os.stat_result
    link: bool = False

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The file, to be read. Raises `CannotReadError`, or `SourceChangedError` if it is not what was listed."""
        with SourceGuard({self.path: self.status}).open(self.path) as descriptor:
            try:
                with os.fdopen(descriptor, "rb", closefd=False) as stream:
                    yield stream
            except OSError as error:
                raise CannotReadError(f"{show(self.path)}: cannot be read ({show(error.strerror or error)})") from None


@dataclass(frozen=True)
class Tree:
    """All files and folders of the source, sorted by name. `left_out` are (name, why) of what is not copied."""

    root: Path
    entries: tuple[Entry, ...]
    folders: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]

    def entry(self, name: str) -> Entry | None:
        """The file called `name`."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> Mapping[str, Entry]:
        return {entry.name: entry for entry in self.entries}


def read_tree(root: Path) -> Tree:
    """List `root`. Raises `CannotExamineError` for a link that leads out, and for what is neither file nor folder."""
    entries: list[Entry] = []
    folders: list[str] = []
    left_out: list[tuple[str, str]] = []
    resolved = root.resolve()
    for name, item in _walk(root, ""):
        why = LEFT_OUT.get(name)
        if why is not None:
            left_out.append((name, why))
        elif item.is_dir(follow_symlinks=False):
            folders.append(name)
        else:
            entries.append(_entry(resolved, name, Path(item.path), item.is_symlink()))
        if len(entries) + len(folders) > ENTRY_LIMIT:
            raise CannotExamineError(
                f"{show(root)}: holds more than {ENTRY_LIMIT} files; name the checkpoint's own folder"
            )
    entries.sort(key=lambda entry: entry.name)
    return Tree(root, tuple(entries), tuple(sorted(folders)), tuple(left_out))


def _walk(folder: Path, prefix: str, depth: int = 0) -> Iterator[tuple[str, os.DirEntry[str]]]:
    if depth > DEPTH_LIMIT:
        raise CannotExamineError(f"{show(prefix)}: folders in it are nested more than {DEPTH_LIMIT} deep")
    try:
        with os.scandir(folder) as listing:
            items = sorted(listing, key=lambda item: item.name)
    except OSError as error:
        raise CannotExamineError(f"{show(folder)}: cannot be read ({error.strerror or error})") from None
    for item in items:
        name = f"{prefix}{item.name}"
        yield name, item
        if item.is_dir(follow_symlinks=False) and name not in LEFT_OUT:
            yield from _walk(Path(item.path), f"{name}/", depth + 1)


def _entry(root: Path, name: str, place: Path, link: bool) -> Entry:
    try:
        real = place.resolve(strict=True)
        status = real.stat()
    except (OSError, RuntimeError) as error:
        if not link or isinstance(error, PermissionError):
            why = error.strerror if isinstance(error, OSError) else error
            raise CannotExamineError(f"{show(name)}: cannot be read ({show(why)})") from None
        raise CannotExamineError(
            f"{show(name)} is a link that leads nowhere; put the file itself there first"
        ) from None
    if link and leads_out(root, real):
        raise CannotExamineError(
            f"{show(name)} is a link that leads out of the checkpoint; put the file itself there first"
        )
    if not stat.S_ISREG(status.st_mode):
        what = "a link to a folder" if stat.S_ISDIR(status.st_mode) else "a pipe, socket or device"
        raise CannotExamineError(f"{show(name)} is {what}; only files can be copied")
    return Entry(name, real, status, link)
