"""A private copy of a folder: what is judged is exactly what is sent on, whatever happens to the source meanwhile."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.publish.copying import SourceGuard, copy_range
from ckptdoctor.publish.tree import read_tree
from ckptdoctor.text import show

__all__ = ["snapshot"]


@contextmanager
def snapshot(source: Path, near: Path | None = None) -> Iterator[Path]:
    """A copy of the files in `source` in a new folder that only this user may enter; it is removed at the end.

    Links that stay inside the folder become files, as they are uploaded; one that leads out of it is an error. `near`
    is a folder on the file system that the copy is to be on (default: that of `source`, where a reflink costs nothing,
    else the temporary folder). Nothing is hard-linked: whoever writes to the source does not reach the copy.

    Raises `CannotExamineError` when something cannot be read or copied, `SourceChangedError` when the source changed
    while it was copied.
    """
    tree = read_tree(source)
    with _folder(near or source.resolve().parent) as folder:
        guard = SourceGuard({entry.path: entry.status for entry in tree.entries})
        for name in tree.folders:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for entry in tree.entries:
            _copy(guard, entry.path, folder / entry.name)
        guard.check()
        yield folder


def _copy(guard: SourceGuard, source: Path, dest: Path) -> None:
    dest.parent.mkdir(parents=True, exist_ok=True)
    try:
        with guard.open(source) as read:
            write = os.open(dest, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                copy_range(read, 0, guard.remembered(source).st_size, write, 0, _silent, show(source))
            finally:
                os.close(write)
    except OSError as error:
        raise CannotExamineError(f"{show(source)}: cannot be copied ({show(error.strerror or error)})") from None


def _silent(_done: int) -> None:
    """Nobody watches: a reflink takes no time, and a gate says what it does itself."""


@contextmanager
def _folder(near: Path) -> Iterator[Path]:
    place = near if os.access(near, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix=".ckptdoctor-", dir=place, ignore_cleanup_errors=True) as name:
        yield Path(name)
