"""Reads a written copy again and holds it against what it was to be: byte by byte, and by SHA-256 for the receipt.

Both sides are read in small chunks by two threads, in constant memory. What shares its blocks with the source is not
compared: it is the same place on the disk.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ckptdoctor.publish.copying import CannotReadError, SourceChangedError, SourceGuard, Span
from ckptdoctor.publish.digests import Compared, FileDigest, SourceDigest, VerificationError
from ckptdoctor.publish.pieces import Literal, OutputFile, Piece, Range, Stream, Zeros
from ckptdoctor.publish.writing import guard_of
from ckptdoctor.text import show

__all__ = ["compare", "compare_size"]

_CHUNK = 256 << 10
"""Bytes read at once: both sides fit into the cache of a processor."""
_SHARE = 64 << 20
"""Bytes of a file without digest that one thread takes at a time."""
_ZEROS = memoryview(bytes(_CHUNK))


def compare(
    files: Sequence[OutputFile],
    root: Path,
    progress: Callable[[int], None],
    digest_limit: int,
    shared: Mapping[str, tuple[Span, ...]] | None = None,
    guard: SourceGuard | None = None,
    more: Sequence[Path] = (),
) -> Compared:
    """Holds every file under `root` against the pieces that it was written from.

    `shared` (see `Written`) names the spans that need no comparing. A file of more than `digest_limit` bytes, on
    either side, gets no digest: hashing costs several times what copying costs, and the bytes are compared without it.
    `more` are source files of which nothing was copied; they get a digest too.
    `progress` is told the bytes done since it was last called, never by two threads at once; `compare_size` says how
    many there will be.

    Raises `VerificationError` for any difference, `CannotReadError` and `SourceChangedError` for the source.
    """
    guard = guard or guard_of(files)
    comparison = _Comparison(root, progress, guard, shared or {})
    jobs: list[Callable[[], None]] = []
    for file in files:
        if file.size <= digest_limit:
            jobs.append(partial(comparison.check, file, 0, file.size, hashlib.sha256()))
        else:
            jobs += [
                partial(comparison.check, file, at, min(at + _SHARE, file.size)) for at in range(0, file.size, _SHARE)
            ]
    # Longest first, so that the two threads end together.
    alone = _hashed_alone(files, digest_limit, guard, more)
    jobs[:0] = [partial(comparison.digest_source, path) for path in alone]
    comparison.run(jobs)
    of_copy, of_source = comparison.of_copy, comparison.of_source
    for file in files:
        if (path := _is_whole(file, guard)) is not None and file.name in of_copy:
            of_source.setdefault(path, of_copy[file.name])  # they were just found to be the same bytes
    return Compared(
        tuple(FileDigest(file.name, file.size, of_copy.get(file.name)) for file in files),
        tuple(
            SourceDigest(path, guard.remembered(path).st_size, of_source.get(path)) for path in _sources(files, more)
        ),
        comparison.compared,
    )


def compare_size(files: Sequence[OutputFile], digest_limit: int, guard: SourceGuard, more: Sequence[Path] = ()) -> int:
    """The bytes that `compare` tells `progress` of in all."""
    alone = _hashed_alone(files, digest_limit, guard, more)
    return sum(file.size for file in files) + sum(guard.remembered(path).st_size for path in alone)


def _sources(files: Sequence[OutputFile], more: Sequence[Path]) -> list[Path]:
    paths: dict[Path, None] = {}
    for file in files:
        for piece in file.pieces:
            if isinstance(piece, Range):
                paths[piece.path] = None
            elif isinstance(piece, Stream):
                paths[piece.source] = None
    return list(paths | dict.fromkeys(more))


def _is_whole(file: OutputFile, guard: SourceGuard) -> Path | None:
    """The source of which `file` is a copy from the first byte to the last."""
    match file.pieces:
        case (Range(path, 0, end),) if guard.remembered(path).st_size == end:
            return path
    return None


def _hashed_alone(
    files: Sequence[OutputFile], digest_limit: int, guard: SourceGuard, more: Sequence[Path]
) -> list[Path]:
    """The sources that have to be read once more for their digest, the largest first."""
    known = {_is_whole(file, guard) for file in files if file.size <= digest_limit}
    sizes = {path: guard.remembered(path).st_size for path in _sources(files, more) if path not in known}
    return sorted((path for path, size in sizes.items() if size <= digest_limit), key=sizes.__getitem__, reverse=True)


class _Comparison:
    """One run of `compare`: where the two threads put what they find."""

    def __init__(
        self,
        root: Path,
        progress: Callable[[int], None],
        guard: SourceGuard,
        shared: Mapping[str, tuple[Span, ...]],
    ) -> None:
        self.of_copy: dict[str, str] = {}
        self.of_source: dict[Path, str] = {}
        self.compared = 0
        self._root, self._progress, self._guard, self._shared = root, progress, guard, shared
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, jobs: Sequence[Callable[[], None]]) -> None:
        """Does the jobs; the first error, or Ctrl-C, ends them all."""
        threads = ThreadPoolExecutor(2, thread_name_prefix="compare")
        try:
            for future in [threads.submit(job) for job in jobs]:
                future.result()
        finally:
            self._stopped = True
            threads.shutdown(cancel_futures=True)

    def digest_source(self, path: Path) -> None:
        """The digest of a whole source file."""
        digest, size = hashlib.sha256(), self._guard.remembered(path).st_size
        with self._guard.open(path) as source:
            for chunk in _read_source(source, path, 0, size):
                digest.update(chunk)
                self._done(len(chunk), 0)
        self.of_source[path] = digest.hexdigest()

    def check(self, file: OutputFile, begin: int, end: int, digest: hashlib._Hash | None = None) -> None:
        """Compares the bytes `begin` to `end` of `file`; with a `digest`, they are the whole file."""
        try:
            self._check(file, begin, end, digest)
        except OSError as error:  # what is wrong with the source has a name of its own
            raise VerificationError(f"{show(file.name)}: {_UNREADABLE} ({show(error.strerror or error)})") from None

    def _check(self, file: OutputFile, begin: int, end: int, digest: hashlib._Hash | None) -> None:
        with ExitStack() as stack:
            copy = self._open(file, stack)
            sources: dict[Path, int] = {}  # a piece may be a single row: thousands of them are of one file
            at = 0
            for piece in file.pieces:
                first, last = max(begin, at), min(end, at + piece.length)
                if isinstance(piece, Stream):
                    # It is only given from its start: the thread that has the start takes it all.
                    first, last = (at, at + piece.length) if begin <= at < end else (end, end)
                for start, stop, same in _segments(first, last, self._shared.get(file.name, ())):
                    if same:
                        self._take(file, copy, start, stop, digest)
                    else:
                        self._compare(
                            file, copy, start, self._wanted(piece, start - at, stop - at, sources, stack), digest
                        )
                at += piece.length
        if digest is not None:
            self.of_copy[file.name] = digest.hexdigest()

    def _compare(
        self,
        file: OutputFile,
        copy: int,
        at: int,
        wanted: Iterator[bytearray | memoryview],
        digest: hashlib._Hash | None,
    ) -> None:
        buffer = bytearray(_CHUNK)
        for expected in wanted:
            actual = _read(copy, at, len(expected), buffer)
            if actual is None or actual != expected:
                raise _differs(file)
            if digest is not None:
                digest.update(actual)
            at += len(expected)
            self._done(len(expected), len(expected))

    def _take(self, file: OutputFile, copy: int, start: int, stop: int, digest: hashlib._Hash | None) -> None:
        """Bytes that need no comparing; they are only read for the digest."""
        if digest is None:
            self._done(stop - start, 0)
            return
        buffer = bytearray(_CHUNK)
        for at in range(start, stop, _CHUNK):
            actual = _read(copy, at, min(_CHUNK, stop - at), buffer)
            if actual is None:
                raise _differs(file)
            digest.update(actual)
            self._done(len(actual), 0)

    def _wanted(
        self, piece: Piece, start: int, stop: int, sources: dict[Path, int], stack: ExitStack
    ) -> Iterator[bytearray | memoryview]:
        """What the bytes `start` to `stop` of `piece` are, chunk by chunk; a chunk is good until the next."""
        match piece:
            case Literal(data):
                yield from _slices(memoryview(data)[start:stop])
            case Zeros():
                for at in range(start, stop, _CHUNK):
                    yield _ZEROS[: stop - at]
            case Range(path, offset, _):
                if path not in sources:
                    sources[path] = stack.enter_context(self._guard.open(path))
                yield from _read_source(sources[path], path, offset + start, offset + stop)
            case Stream(_, chunks, _):
                for chunk in chunks():
                    yield from _slices(memoryview(chunk).cast("B"))

    def _open(self, file: OutputFile, stack: ExitStack) -> int:
        try:
            copy = os.open(self._root / file.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise VerificationError(f"{show(file.name)}: {_UNREADABLE} ({show(error.strerror or error)})") from None
        stack.callback(os.close, copy)
        if os.fstat(copy).st_size != file.size:
            raise _differs(file)
        return copy

    def _done(self, count: int, compared: int) -> None:
        if self._stopped:
            raise VerificationError("the comparison was ended")
        with self._lock:
            self.compared += compared
            self._progress(count)


_UNREADABLE = "the copy cannot be read again after it was written"


def _differs(file: OutputFile) -> VerificationError:
    return VerificationError(
        f"{show(file.name)}: the copy that was written differs from what was to be written; it was not published"
    )


def _segments(first: int, last: int, shared: Sequence[Span]) -> Iterator[tuple[int, int, bool]]:
    """The bytes `first` to `last`, cut where a shared span begins or ends, each with whether it is shared."""
    for start, stop in sorted(shared):
        if stop <= first or start >= last:
            continue
        if first < start:
            yield first, start, False
        yield max(first, start), min(last, stop), True
        first = stop
    if first < last:
        yield first, last, False


def _slices(view: memoryview) -> Iterator[memoryview]:
    for at in range(0, len(view), _CHUNK):
        yield view[at : at + _CHUNK]


def _read_source(source: int, path: Path, start: int, stop: int) -> Iterator[bytearray]:
    buffer = bytearray(min(_CHUNK, stop - start))
    for at in range(start, stop, _CHUNK):
        try:
            chunk = _read(source, at, min(_CHUNK, stop - at), buffer)
        except OSError as error:
            raise CannotReadError(f"{show(path)}: cannot be read ({show(error.strerror or error)})") from None
        if chunk is None:
            raise SourceChangedError(f"{show(path)}: became shorter while it was copied; nothing was written")
        yield chunk


def _read(descriptor: int, at: int, length: int, buffer: bytearray) -> bytearray | None:
    """`length` bytes from `at`, in `buffer` when they fill it; None where the file ends before."""
    into = buffer if length == len(buffer) else bytearray(length)
    view, have = memoryview(into), 0
    while have < length:
        count = os.preadv(descriptor, [view[have:]], at + have)
        if not count:
            return None
        have += count
    return into
