"""The folder of a checkpoint: which of its files may be opened, and how.

Only regular files are opened. A symlink is followed when it stays inside the checkpoint or leads
into the `blobs/` folder of the Hub client's cache (`models--org--name/snapshots/REVISION/…`);
everything else is a fault and stays closed. Names from an index are single names, never paths.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show

__all__ = ["Folder", "is_plain_name", "locate"]

FILE_LIMIT = 10_000
"""Entries of a folder that are looked at."""


def is_plain_name(name: str) -> bool:
    """True for the name of a file in the same folder: no separator, no root, no `..`, no NUL."""
    return bool(name) and name not in (".", "..") and not any(c in name for c in "/\\\0:")


def locate(path: str) -> tuple[Path, str | None]:
    """Where `path` leads: the folder of the checkpoint, and the one file in it that was named (or None).

    The root of a Hub cache entry (`models--org--name`) leads to the snapshot of its `main` branch, or
    to its only snapshot. Raises `CannotExamineError` when there is nothing to open.
    """
    if path.startswith("hf://"):
        raise CannotExamineError(
            f"{show(path)}: only files on this machine can be examined; download it first (hf download {show(path[5:])})"
        )
    place = Path(path)
    try:
        mode = place.stat().st_mode
    except FileNotFoundError:
        raise CannotExamineError(f"{show(path)}: no such file or folder") from None
    except (OSError, ValueError) as error:
        raise CannotExamineError(f"{show(path)}: cannot be opened ({_reason(error)})") from None
    if stat.S_ISDIR(mode):
        return _snapshot(place), None
    if stat.S_ISREG(mode):
        return place.parent, place.name
    raise CannotExamineError(f"{show(path)}: neither a file nor a folder")


def _snapshot(place: Path) -> Path:
    snapshots = place / "snapshots"
    if not snapshots.is_dir() or (place / "config.json").exists():
        return place
    reference = place / "refs" / "main"
    if reference.is_file():
        revision = reference.read_text(errors="replace").strip()
        if is_plain_name(revision) and (snapshots / revision).is_dir():
            return snapshots / revision
    revisions = sorted(p for p in snapshots.iterdir() if p.is_dir())
    if len(revisions) == 1:
        return revisions[0]
    raise CannotExamineError(
        f"{show(place)}: a download cache with {len(revisions)} snapshots; name one of them: {show(snapshots)}/…"
    )


def _reason(error: Exception) -> str:
    return show(getattr(error, "strerror", None) or error)


class Folder:
    """One folder, and safe access to the files in it. `faults` collects what had to stay closed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.faults: list[Fault] = []
        self._resolved = root.resolve()
        self._names = self._list()
        self._known = frozenset(self._names)

    def _list(self) -> tuple[str, ...]:
        try:
            with os.scandir(self.root) as entries:
                names = [entry.name for entry in entries]
        except OSError as error:
            raise CannotExamineError(f"{show(self.root)}: cannot be read ({_reason(error)})") from None
        if len(names) > FILE_LIMIT:
            raise CannotExamineError(
                f"{show(self.root)}: holds more than {FILE_LIMIT} files; name the checkpoint's own folder"
            )
        return tuple(sorted(names))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all entries, sorted."""
        return self._names

    def has(self, name: str) -> bool:
        """Whether an entry of this name exists (it may still be closed to us)."""
        return name in self._known

    def path(self, name: str) -> Path | None:
        """The real path of the regular file `name`, or None when there is none that may be opened."""
        if not self.has(name):
            return None
        place = self.root / name
        try:
            real = place.resolve(strict=True)
            mode = real.stat().st_mode
        except (OSError, RuntimeError):
            self._close("broken_link", name, "the link leads nowhere")
            return None
        if not self._inside(real):
            self._close("link_outside", name, "the link leads out of the checkpoint")
            return None
        if not stat.S_ISREG(mode):
            if not stat.S_ISDIR(mode):
                self._close("not_a_file", name, "a pipe, socket or device")
            return None
        return real

    def _inside(self, real: Path) -> bool:
        if real.is_relative_to(self._resolved):
            return True
        # models--org--name/snapshots/REVISION -> models--org--name/blobs
        parents = self._resolved.parents
        return len(parents) > 1 and parents[0].name == "snapshots" and real.parent == parents[1] / "blobs"

    def _close(self, kind: str, name: str, detail: str) -> None:
        fault = Fault(kind, name, detail=detail)
        if fault not in self.faults:
            self.faults.append(fault)

    def size(self, name: str) -> int:
        """Bytes of the file `name`; 0 when it cannot be opened."""
        place = self.path(name)
        return place.stat().st_size if place else 0

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """The regular file `name`, open for reading. Raises `CannotExamineError` when it cannot be read."""
        place = self.path(name)
        if place is None:
            raise CannotExamineError(f"{show(self.root / name)}: cannot be opened")
        try:
            stream = place.open("rb")
        except OSError as error:
            raise CannotExamineError(f"{show(self.root / name)}: cannot be read ({_reason(error)})") from None
        with stream:
            yield stream
