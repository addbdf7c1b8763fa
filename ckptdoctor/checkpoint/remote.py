"""Files that are not on this machine: a `Folder` lists and reads them like others, in ranges and within limits.

Nothing of them is ever written to the disk, so that no reader can take a hole in a half-filled file for content.
"""

from __future__ import annotations

import io
import os
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.text import plural

__all__ = ["HEAD_LIMIT", "RemoteError", "RemoteFile", "RemoteFolder", "at_hub", "attach", "remote_at"]

HEAD_LIMIT = 256 * 1024
"""Bytes of a tokenizer.json that are read over the network at most."""

_FIRST = 64 * 1024
"""Bytes of the first request for a file: more than the header of most drafts has."""

_MIB = 1024 * 1024
_LIMITS = {".safetensors": 32 * _MIB, ".index.json": 16 * _MIB}
_OTHER_LIMIT = 4 * _MIB


class RemoteError(CkptdoctorError):
    """Something could not be read over the network; nothing is said about the file itself."""


class RemoteFile(Protocol):
    """A file elsewhere, of a known size that does not change."""

    @property
    def size(self) -> int:
        """Its bytes."""

    @property
    def told(self) -> str:
        """What a person calls it (`hf://org/name@main/config.json`)."""

    @property
    def advice(self) -> str:
        """What to do where it is not read from here: a command that downloads it."""

    def fetch(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`, all of them. Raises `RemoteError`."""


class _Kept:
    """A remote file with what was read of it, and the limit on that."""

    def __init__(self, file: RemoteFile, limit: int) -> None:
        self.file, self._limit, self._moved = file, limit, 0
        self._head = bytearray()
        self._parts: dict[tuple[int, int], bytes] = {}

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`, as far as the file has them."""
        end = min(end, self.file.size)
        if start >= end:
            return b""
        if start > len(self._head):
            if (start, end) not in self._parts:
                self._parts[start, end] = self._fetch(start, end)
            return self._parts[start, end]
        if end > len(self._head):
            self._head += self._fetch(len(self._head), min(max(end, _FIRST), self.file.size))
        return bytes(self._head[start:end])

    def _fetch(self, start: int, end: int) -> bytes:
        if self._moved + end - start > self._limit:
            raise RemoteError(
                f"{self.file.told}: more than {self._limit // _MIB} MB of it would have to be read over the network; "
                f"{self.file.advice}"
            )
        self._moved += end - start
        data = self.file.fetch(start, end)
        if len(data) != end - start:
            raise RemoteError(f"{self.file.told}: the answer has {plural(len(data), 'byte')} of {end - start}")
        return data


class RemoteFolder:
    """Remote files as the content of the folder `root`, by name, beside what is really in it.

    It is known to `Folder` as long as somebody holds it.
    """

    def __init__(
        self, root: Path, told: str, files: Mapping[str, RemoteFile], folders: frozenset[str], commit: str | None = None
    ) -> None:
        self.root, self.told, self.folders, self.commit = root, told, folders, commit
        self._files = {name: _Kept(file, _limit(name)) for name, file in files.items()}

    @property
    def names(self) -> frozenset[str]:
        """The names of its remote files and folders."""
        return self.folders | self._files.keys()

    def size(self, name: str) -> int | None:
        """The bytes of the remote file `name`; None when there is none."""
        kept = self._files.get(name)
        return None if kept is None else kept.file.size

    def file(self, name: str) -> RemoteFile | None:
        """The remote file `name`."""
        kept = self._files.get(name)
        return None if kept is None else kept.file

    def open(self, name: str) -> io.BufferedReader:
        """The remote file `name`, which is fetched as it is read."""
        # Unbuffered for all that counts: a buffer of one byte never asks for more than its reader does.
        return io.BufferedReader(_Stream(self._files[name]), 1)


_ATTACHED: weakref.WeakValueDictionary[str, RemoteFolder] = weakref.WeakValueDictionary()


def attach(
    told: str,
    files: Mapping[str, RemoteFile],
    folders: frozenset[str],
    root: Path | None = None,
    commit: str | None = None,
) -> RemoteFolder:
    """Make `files` the content of `root`, or of an empty folder of its own, which goes when nobody holds the result."""
    place = root if root is not None else _private_folder()
    folder = RemoteFolder(place, told, files, folders, commit)
    if root is None:
        weakref.finalize(folder, _remove, place, os.getpid())
    _ATTACHED[str(place)] = folder
    return folder


def remote_at(root: Path) -> RemoteFolder | None:
    """The remote files that stand for the content of `root`; None for a folder like any other."""
    return _ATTACHED.get(str(root))


def at_hub(path: str) -> bool:
    """Whether `path` names a repository of the Hub."""
    return path.startswith("hf://")


def _private_folder() -> Path:
    import tempfile  # a plain scan does not need it

    return Path(tempfile.mkdtemp(prefix="ckptdoctor-hub-")).resolve()


def _remove(place: Path, owner: int) -> None:
    with suppress(OSError):
        if os.getpid() == owner:
            place.rmdir()


def _limit(name: str) -> int:
    return next((limit for ending, limit in _LIMITS.items() if name.endswith(ending)), _OTHER_LIMIT)


class _Stream(io.RawIOBase):
    def __init__(self, kept: _Kept) -> None:
        self._kept, self._at = kept, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._kept.file.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._kept.read(self._at, self._at + len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)
