"""Copies byte ranges the cheapest way the file system has, and watches that the source stays as it was.

A range is reflinked (both files share the same blocks on disk) where the file system can and the offsets fit, else
copied inside the kernel, else through one buffer. Memory is constant and nothing is ever hard-linked: whoever changes
the copy later must not change the source.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.text import show

__all__ = ["CannotReadError", "Copied", "SourceChangedError", "SourceGuard", "Span", "copy_range", "write_at"]

Span = tuple[int, int]
"""The bytes of a file from the first number up to, not including, the second."""

_FICLONERANGE = 0x4020940D
_KERNEL_CHUNK = 16 << 20
"""Bytes asked of the kernel at once: large enough to cost nothing, small enough for progress and Ctrl-C."""
_BUFFER = 1 << 20

# The copy cannot go on by any other way either. All else (EXDEV, ENOSYS, EINVAL, EOPNOTSUPP, EPERM of a sandbox, ...)
# only says that the kernel will not do it by itself; reading and writing then says what is wrong, and on which side.
_FINAL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})


class SourceChangedError(CkptdoctorError):
    """A source file is not what it was when the repair was planned (exit 3)."""


class CannotReadError(CkptdoctorError):
    """A source file cannot be read (exit 3)."""


@dataclass(frozen=True, slots=True)
class Copied:
    """How many bytes went which way. `shared` are the spans of the *copy* that share their blocks with the source."""

    reflinked: int = 0
    kernel: int = 0
    buffered: int = 0
    shared: tuple[Span, ...] = ()

    def __add__(self, other: Copied) -> Copied:
        """The sum of both; the spans only make sense together if both are of the same file."""
        return Copied(
            self.reflinked + other.reflinked,
            self.kernel + other.kernel,
            self.buffered + other.buffered,
            self.shared + other.shared,
        )


def write_at(dest: int, data: bytes | memoryview, offset: int) -> None:
    """Writes all of `data` to the descriptor `dest` at `offset` bytes. Raises `OSError` of the file system."""
    view = memoryview(data)
    while view:
        written = os.pwrite(dest, view, offset)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view, offset = view[written:], offset + written


def copy_range(
    source: int,
    start: int,
    end: int,
    dest: int,
    offset: int,
    progress: Callable[[int], None],
    name: str = "the source",
) -> Copied:
    """Copies the bytes `start` to `end` of the descriptor `source` to `offset` of the descriptor `dest`.

    `progress` is told the bytes done since it was last called; `name` stands for the source in sentences. Whole blocks
    are reflinked where `start` and `offset` lie alike in a block, the rest around them is copied.

    Raises `SourceChangedError` if the source ends before `end`, `CannotReadError` if it cannot be read, and the
    `OSError` of the file system if the copy cannot be written.
    """
    block = os.fstatvfs(dest).f_bsize or 4096
    first, last = -(-start // block) * block, end // block * block
    if os.fstat(source).st_size == end:
        last = end  # the last block of a file may be shared although it is not full
    if start >= end or (start - offset) % block or first >= last:
        return _copy_plain(source, start, end, dest, offset, progress, name)
    head = _copy_plain(source, start, first, dest, offset, progress, name)
    if not _clone(source, first, last - first, dest, offset + first - start):
        return head + _copy_plain(source, first, end, dest, offset + first - start, progress, name)
    progress(last - first)
    middle = Copied(reflinked=last - first, shared=((offset + first - start, offset + last - start),))
    return head + middle + _copy_plain(source, last, end, dest, offset + last - start, progress, name)


def _clone(source: int, start: int, length: int, dest: int, offset: int) -> bool:
    """Lets `dest` share blocks of `source`; False, with nothing done, where that does not work for any reason."""
    if sys.platform != "linux":
        return False
    while True:
        try:
            fcntl.ioctl(dest, _FICLONERANGE, struct.pack("qQQQ", source, start, length, offset))
        except InterruptedError:
            continue
        except OSError:
            return False
        return True


def _copy_plain(
    source: int, start: int, end: int, dest: int, offset: int, progress: Callable[[int], None], name: str
) -> Copied:
    """Copies inside the kernel as far as it goes, and what is left through a buffer."""
    position, shift = start, offset - start
    while position < end and hasattr(os, "copy_file_range"):
        try:
            count = os.copy_file_range(source, dest, min(_KERNEL_CHUNK, end - position), position, position + shift)
        except OSError as error:
            if error.errno in _FINAL:
                raise
            break
        if not count:
            break  # the end of the source, or a file system that only says so: reading decides
        position += count
        progress(count)
    kernel = position - start
    buffer = memoryview(bytearray(min(_BUFFER, end - position)))
    while position < end:
        try:
            count = os.preadv(source, [buffer[: end - position]], position)
        except OSError as error:
            raise CannotReadError(f"{show(name)}: cannot be read ({show(error.strerror or error)})") from None
        if not count:
            raise SourceChangedError(f"{show(name)}: became shorter while it was copied; nothing was written")
        write_at(dest, buffer[:count], position + shift)
        position += count
        progress(count)
    return Copied(kernel=kernel, buffered=end - start - kernel)


class SourceGuard:
    """Remembers the source files as they are when it is made, opens them for reading only, and says if one changed.

    Device, inode, size, time of the last write and time of the last change are compared: a file that was written,
    cut, replaced or touched in between differs in one of them. `files` are real files (a link is refused), or what
    `os.stat` said of them when the repair was planned. Raises `CannotReadError` for what is not a readable file.
    """

    def __init__(self, files: Iterable[Path] | Mapping[Path, os.stat_result]) -> None:
        self._seen: dict[Path, os.stat_result] = (
            dict(files) if isinstance(files, Mapping) else {path: self._look(path) for path in files}
        )

    def __contains__(self, path: object) -> bool:
        """Whether `path` is one of the files that were remembered."""
        return path in self._seen

    def remembered(self, path: Path) -> os.stat_result:
        """What was remembered of `path`."""
        return self._seen[path]

    @contextmanager
    def open(self, path: Path) -> Iterator[int]:
        """A descriptor to read `path` with, closed at the end. `SourceChangedError` if it is not what it was."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        quiet = getattr(os, "O_NOATIME", 0)  # the owner of a file may read it without a trace in its access time
        try:
            try:
                descriptor = os.open(path, flags | quiet)
            except PermissionError:
                descriptor = os.open(path, flags)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                raise self._changed(path) from None
            raise CannotReadError(f"{show(path)}: cannot be read ({show(error.strerror or error)})") from None
        try:
            if _identity(os.fstat(descriptor)) != _identity(self._seen[path]):
                raise self._changed(path)
            yield descriptor
        finally:
            os.close(descriptor)

    def check(self) -> None:
        """Raises `SourceChangedError` if any of the files is not what it was."""
        for path, seen in self._seen.items():
            try:
                now = _identity(path.lstat())
            except OSError:
                raise self._changed(path) from None
            if now != _identity(seen):
                raise self._changed(path)

    @staticmethod
    def _look(path: Path) -> os.stat_result:
        try:
            seen = path.lstat()
        except OSError as error:
            raise CannotReadError(f"{show(path)}: cannot be read ({show(error.strerror or error)})") from None
        if not stat.S_ISREG(seen.st_mode):
            raise CannotReadError(f"{show(path)}: not a regular file")
        return seen

    @staticmethod
    def _changed(path: Path) -> SourceChangedError:
        return SourceChangedError(f"{show(path)}: was changed while it was read; nothing was written")


def _identity(seen: os.stat_result) -> tuple[int, ...]:
    kind = stat.S_IFMT(seen.st_mode)
    return kind, seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
