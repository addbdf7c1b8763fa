"""The folder of a checkpoint: which of its files may be opened, and how.

Only regular files are opened. A symlink is followed when it stays inside the checkpoint or leads
into the `blobs/` folder of the Hub client's cache (`models--org--name/snapshots/REVISION/…`);
everything else is a fault and stays closed. Names from an index are single names, never paths.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from ckptdoctor.checkpoint.faults import Fault
from ckptdoctor.checkpoint.remote import RemoteFile, RemoteFolder, at_hub, remote_at
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show

__all__ = ["Folder", "is_plain_name", "leads_out", "locate", "open_regular"]

NAME_LIMIT = 1_000_000
"""Entries of a folder whose names are listed at most."""

FILE_LIMIT = 10_000
"""Of these, the ones at most that may be weights."""

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".index.json", ".gguf")


_REFERENCE_LIMIT = 256
_CLOSED = {
    "broken_link": "the link leads nowhere",
    "link_outside": "the link leads out of the checkpoint",
    "not_a_file": "a pipe, socket or device",
}


def is_plain_name(name: str) -> bool:
    """True for the name of a file in the same folder: no separator, no root, no `..`, no NUL."""
    return bool(name) and name not in (".", "..") and not any(c in name for c in "/\\\0:")


def locate(path: str) -> tuple[Path, str | None]:
    """Where `path` leads: the folder of the checkpoint, and the one file in it that was named (or None).

    The root of a Hub cache entry (`models--org--name`) leads to the snapshot of its `main` branch, or
    to its only snapshot. Raises `CannotExamineError` when there is nothing to open.
    """
    if at_hub(path):
        command = f"hf download {show(path[5:])}"
        raise CannotExamineError(
            f"{show(path)}: only files on this machine can be examined; download it first ({command})"
        )
    if not path:
        raise CannotExamineError("the path is empty")
    place = Path(path)
    if remote_at(place) is not None:
        return place, None
    above = remote_at(place.parent)
    if above is not None and above.size(place.name) is not None:
        return place.parent, place.name
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
    try:
        if not snapshots.is_dir() or (place / "config.json").exists():
            return place
        # A snapshot is a real folder of this cache; a link could lead anywhere.
        with os.scandir(snapshots) as entries:
            revisions = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        reference = place / "refs" / "main"
        if reference.is_file():
            with reference.open("rb") as stream:
                revision = os.fsdecode(stream.read(_REFERENCE_LIMIT)).strip()
            if revision in revisions:
                return snapshots / revision
    except OSError as error:
        raise CannotExamineError(f"{show(place)}: cannot be read ({_reason(error)})") from None
    if len(revisions) == 1:
        return snapshots / revisions[0]
    raise CannotExamineError(
        f"{show(place)}: a download cache with {len(revisions)} snapshots; name one of them: {show(snapshots)}/…"
    )


def _reason(error: Exception) -> str:
    return show(getattr(error, "strerror", None) or error)


class Folder:
    """One folder, and safe access to the files in it. `faults` collects what had to stay closed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.remote: RemoteFolder | None = remote_at(root)
        self._resolved = root.resolve()
        self._blobs = _blobs_of(self._resolved)
        self._names = self._list()
        self._known = frozenset(self._names)
        self._places: dict[str, Path | None] = {}
        self._closed: dict[str, Fault] = {}

    def _list(self) -> tuple[str, ...]:
        names: list[str] = []
        weights = 0
        try:
            with os.scandir(self.root) as entries:
                for entry in entries:
                    names.append(entry.name)
                    weights += entry.name.endswith(_WEIGHTS)
                    if weights > FILE_LIMIT or len(names) > NAME_LIMIT:
                        limit = f"{FILE_LIMIT} weight files" if weights > FILE_LIMIT else f"{NAME_LIMIT} files"
                        raise CannotExamineError(
                            f"{show(self.root)}: holds more than {limit}; name the checkpoint's own folder"
                        )
        except OSError as error:
            raise CannotExamineError(f"{show(self.root)}: cannot be read ({_reason(error)})") from None
        if self.remote is not None:
            names += self.remote.names.difference(names)
        return tuple(sorted(names))

    def shown(self, name: str) -> str:
        """What a person calls the entry `name`, safe to print."""
        file = self.remote_file(name)
        return show(self.root / name) if file is None else file.told

    def remote_file(self, name: str) -> RemoteFile | None:
        """The file `name` where it is not on this machine; None for any other."""
        return None if self.remote is None else self.remote.file(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all entries, sorted."""
        return self._names

    @property
    def faults(self) -> list[Fault]:
        """One fault for each entry that was asked for and had to stay closed."""
        return list(self._closed.values())

    def has(self, name: str) -> bool:
        """Whether an entry of this name exists (it may still be closed to us)."""
        return name in self._known

    def closed(self, name: str) -> str | None:
        """Why the entry `name` may not be opened, in words; None when nothing speaks against it."""
        self.path(name)
        return self._closed[name].detail if name in self._closed else None

    def path(self, name: str) -> Path | None:
        """The real path of the regular file `name`, or None when there is none that may be opened.

        Where the file is not on this machine, nothing is at that path: only `open` reads it.
        """
        if name not in self._places:
            self._places[name] = self._look_up(name) if self.has(name) else None
        return self._places[name]

    def _look_up(self, name: str) -> Path | None:
        if self.remote is not None and name in self.remote.names:
            return None if name in self.remote.folders else self.root / name
        try:
            real = (self.root / name).resolve(strict=True)
            mode = real.stat().st_mode
        except (OSError, RuntimeError):
            return self._close("broken_link", name)
        if not real.is_relative_to(self._resolved) and real.parent not in self._blobs:
            return self._close("link_outside", name)
        if not stat.S_ISREG(mode):
            return None if stat.S_ISDIR(mode) else self._close("not_a_file", name)
        return real

    def _close(self, kind: str, name: str) -> Path | None:
        self._closed[name] = Fault(kind, name, detail=_CLOSED[kind])
        return None

    def size(self, name: str) -> int:
        """Bytes of the file `name`; 0 when it cannot be opened."""
        place = self.path(name)
        remote = self.remote_file(name)
        if remote is not None:
            return remote.size
        try:
            return place.stat().st_size if place else 0
        except OSError:
            return 0

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """The regular file `name`, open for reading. Raises `CannotExamineError` when it cannot be read, `RemoteError`
        when its bytes do not come over the network."""
        place = self.path(name)
        if place is None:
            raise CannotExamineError(f"{self.shown(name)}: {self.closed(name) or 'cannot be opened'}")
        if self.remote is not None and self.remote.file(name) is not None:
            with self.remote.open(name) as remote:
                yield cast(BinaryIO, remote)
            return
        try:
            with open_regular(place) as stream:
                yield stream
        except OSError as error:
            raise CannotExamineError(f"{show(self.root / name)}: cannot be read ({_reason(error)})") from None


def open_regular(place: Path) -> BinaryIO:
    """Open `place` without following a link and without waiting for a pipe: the folder may change under our eyes.

    Raises `OSError`, also when it is no regular file.
    """
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def leads_out(root: Path, real: Path) -> bool:
    """Whether the real path `real` is neither inside the resolved folder `root` nor in its Hub cache's `blobs/`."""
    return not real.is_relative_to(root) and real.parent not in _blobs_of(root)


def _blobs_of(resolved: Path) -> frozenset[Path]:
    """The `blobs` folder of the Hub cache that `…/snapshots/REVISION`, or a folder in it, belongs to."""
    return frozenset(parent.parent / "blobs" for parent in resolved.parents if parent.name == "snapshots")
