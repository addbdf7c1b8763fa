"""Writes the files of a copy from their pieces, and does not return before they are on the disk.

There is no look at the free space beforehand: with reflinks a copy needs next to none, and file systems that compress
need less than its size. Whoever runs out of space is told how much was missing, and the folder is removed.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Full, Queue
from types import TracebackType

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.publish.copying import CannotReadError, Copied, SourceChangedError, SourceGuard, Span
from ckptdoctor.publish.copying import copy_range as _copy_range
from ckptdoctor.publish.copying import write_at as _write_at
from ckptdoctor.publish.pieces import Literal, OutputFile, Range, Stream, Zeros
from ckptdoctor.text import show

__all__ = ["CannotWriteError", "SourceGuard", "Written", "cannot_write", "guard_of", "sync_folder", "write_files"]

_EARLY = 32 << 20
"""Bytes after which the disk is set to work while the copying goes on."""
_ZEROS = bytes(1 << 20)


class CannotWriteError(CkptdoctorError):
    """The copy cannot be written: no space, no permission, a read-only or broken file system (exit 3)."""


@dataclass(frozen=True)
class Written:
    """What was written: the bytes of all files, how the copied ones went, and the new ones (headers, small tensors).

    `shared` gives, by the name of the file, the spans that share their blocks with the source.
    """

    size: int
    copied: Copied
    new: int
    shared: Mapping[str, tuple[Span, ...]]


def cannot_write(error: OSError, place: Path, left: int = 0) -> CannotWriteError:
    """The sentence for an error of the file system at `place`, where `left` bytes were still to be written."""
    more = f"; the copy needs {left:,} more bytes" if left > 0 else ""
    match error.errno:
        case errno.ENOSPC:
            why = f"no space left{more}"
        case errno.EDQUOT:
            why = f"the disk quota is used up{more}"
        case errno.EFBIG:
            why = "a file of the copy is larger than the file system or the limit of this process (ulimit -f) allows"
        case errno.EROFS:
            why = "cannot be written to, the file system is read-only"
        case errno.EACCES | errno.EPERM:
            why = "cannot be written to, permission denied"
        case errno.EEXIST:
            why = f"two files of the copy would have the same name ({show(Path(str(error.filename)).name)})"
        case _:
            why = f"cannot be written to ({show(error.strerror or error)})"
    return CannotWriteError(f"{show(place)}: {why}")


def guard_of(files: Sequence[OutputFile]) -> SourceGuard:
    """A guard over every file that `files` are made from, as they are now."""
    paths: dict[Path, None] = {}
    for file in files:
        if file.like is not None:
            paths[file.like] = None
        for piece in file.pieces:
            if isinstance(piece, Range):
                paths[piece.path] = None
            elif isinstance(piece, Stream):
                paths[piece.source] = None
    return SourceGuard(list(paths))


def write_files(
    files: Sequence[OutputFile],
    root: Path,
    progress: Callable[[int], None],
    guard: SourceGuard | None = None,
    *,
    folders: Sequence[str] = (),
    place: Path | None = None,
) -> Written:
    """Writes `files` into the folder `root`, which nobody else writes to, and makes them durable.

    `folders` are made too, for those that no file is in. Sentences name `place`, since `root` has a passing name.
    `progress` is told the bytes done since it was last called. Every file keeps the permissions (not set-user-id and
    the like) and the times of the file that it is `like`. `guard` remembers the source files as they were when the
    repair was planned; without one they are remembered now.

    Raises `CannotWriteError`, `CannotReadError` or `SourceChangedError`; `root` then holds a part of the copy and is
    to be removed.
    """
    guard = guard or guard_of(files)
    total = sum(file.size for file in files)
    done, copied, shared = 0, Copied(), {}
    made = {root}
    place = place or root.parent
    try:
        with _WriteBack() as disk:
            for file in files:
                path = _place(file.name, root, made)
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
                disk.take(descriptor)
                unsynced = 0

                def advance(count: int, descriptor: int = descriptor) -> None:
                    nonlocal done, unsynced
                    done += count
                    unsynced += count
                    if unsynced >= _EARLY and disk.start(descriptor):
                        unsynced = 0
                    progress(count)

                part = _write_pieces(file, descriptor, guard, advance)
                _keep(file, descriptor, guard)
                disk.finish(descriptor)
                copied += part
                if part.shared:
                    shared[file.name] = part.shared
        for name in folders:
            _make(name, name.split("/"), root, made)
        for folder in sorted(made, key=lambda path: len(path.parts), reverse=True):
            sync_folder(folder)
    except OSError as error:
        raise cannot_write(error, place, total - done) from None
    guard.check()
    return Written(total, copied, total - copied.reflinked - copied.kernel - copied.buffered, shared)


def sync_folder(folder: Path) -> None:
    """Makes the names in `folder` durable, where the file system knows such a thing. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def _place(name: str, root: Path, made: set[Path]) -> Path:
    """The path of the file `name` under `root`; its sub-folders are made and added to `made`."""
    *folders, last = name.split("/")
    if last in ("", ".", "..") or "\0" in last:
        raise CannotWriteError(f"{show(name)}: cannot be the name of a file in the copy")
    return _make(name, folders, root, made) / last


def _make(name: str, folders: Sequence[str], root: Path, made: set[Path]) -> Path:
    """Makes the folder that lies `folders` deep under `root`, for the file or folder `name`."""
    if any(part in ("", ".", "..") or "\0" in part for part in folders):
        raise CannotWriteError(f"{show(name)}: cannot be the name of a file in the copy")
    path = root
    for part in folders:
        path /= part
        if path not in made:
            path.mkdir(exist_ok=True)
            made.add(path)
    return path


def _write_pieces(file: OutputFile, dest: int, guard: SourceGuard, progress: Callable[[int], None]) -> Copied:
    """Writes the pieces of `file` one after the other; what was copied, and how."""
    copied, offset = Copied(), 0
    with ExitStack() as stack:
        sources: dict[Path, int] = {}
        for piece in file.pieces:
            match piece:
                case Literal(data):
                    _write_at(dest, data, offset)
                    progress(len(data))
                case Zeros(length):
                    for at in range(0, length, len(_ZEROS)):
                        some = _ZEROS[: length - at]
                        _write_at(dest, some, offset + at)
                        progress(len(some))
                case Range(path, start, end):
                    if path not in sources:
                        sources[path] = stack.enter_context(guard.open(path))
                    copied += _copy_range(sources[path], start, end, dest, offset, progress, str(path))
                case Stream():
                    _write_stream(piece, dest, offset, progress)
            offset += piece.length
    size = os.fstat(dest).st_size
    if size != file.size:
        raise CannotWriteError(f"{show(file.name)}: {size:,} bytes were written where {file.size:,} were expected")
    return copied


def _write_stream(piece: Stream, dest: int, offset: int, progress: Callable[[int], None]) -> None:
    left, chunks = piece.length, piece.chunks()
    while True:
        try:
            chunk = next(chunks, None)
        except OSError as error:
            raise CannotReadError(f"{show(piece.source)}: cannot be read ({show(error.strerror or error)})") from None
        if chunk is None:
            break
        view = memoryview(chunk).cast("B")
        left -= len(view)
        if left < 0:
            break
        _write_at(dest, view, offset)
        offset += len(view)
        progress(len(view))
    if left:
        raise SourceChangedError(f"{show(piece.source)}: holds more or fewer bytes than expected; nothing was written")


def _keep(file: OutputFile, dest: int, guard: SourceGuard) -> None:
    """Gives the finished file the permissions and times of the one that it is like."""
    if file.keep is not None:
        mode, changed = file.keep
        os.fchmod(dest, mode & 0o777)
        os.utime(dest, ns=(changed, changed))
    if file.like is None:
        return
    like = guard.remembered(file.like) if file.like in guard else file.like.stat()
    os.fchmod(dest, like.st_mode & 0o777)
    os.utime(dest, ns=(like.st_atime_ns, like.st_mtime_ns))


class _WriteBack:
    """Makes files durable in a thread, so that the disk works while the next bytes are copied.

    It owns the descriptors that it takes and closes them. An error of the disk is raised by the next call.
    """

    def __init__(self) -> None:
        self._queue: Queue[tuple[int, bool] | None] = Queue(maxsize=16)
        self._open: set[int] = set()
        self._error: OSError | None = None
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name="write-back", daemon=True)

    def __enter__(self) -> _WriteBack:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._given_up = kind is not None
        self._queue.put(None)
        self._thread.join()
        for descriptor in self._open:
            os.close(descriptor)
        if kind is None:
            self._raise()

    def take(self, descriptor: int) -> None:
        """The file behind `descriptor` is about to be written."""
        self._open.add(descriptor)

    def start(self, descriptor: int) -> bool:
        """Asks the disk to write what the file has so far; False if it still has enough to do."""
        self._raise()
        if not self._queue.empty():
            return False
        try:
            self._queue.put_nowait((descriptor, False))
        except Full:
            return False
        return True

    def finish(self, descriptor: int) -> None:
        """The file is complete: it will be made durable and closed."""
        self._raise()
        self._queue.put((descriptor, True))

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (task := self._queue.get()) is not None:
            descriptor, complete = task
            try:
                if not self._given_up and self._error is None:
                    (os.fsync if complete else getattr(os, "fdatasync", os.fsync))(descriptor)
                if complete:
                    self._open.discard(descriptor)
                    os.close(descriptor)
            except OSError as error:
                self._error = self._error or error
