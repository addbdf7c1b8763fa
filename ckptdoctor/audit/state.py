"""The state of an audit: a folder with the rows of the checkpoints that are done, from which it goes on."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ckptdoctor.audit.places import weighty
from ckptdoctor.audit.rows import Row, is_row
from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.text import show

__all__ = ["RESULTS", "State", "open_state"]

RESULTS, _LOCK = "results.jsonl", "lock"
_LOOK = 1 << 20
_START = b'{"id": "'
_HEAD = re.compile(rb'\{"id": "([0-9a-f]{32})"')


class State:
    """The rows in the file results.jsonl; of several with the same id the last one holds.

    Only their places in the file are kept in memory.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._write, self._file = descriptor, os.fdopen(os.dup(descriptor), "rb")
        self._at: dict[bytes, int] = {}
        self._end = 0
        self.lines = 0
        self._load()

    def _load(self) -> None:
        self._file.seek(0)
        for line in self._file:
            if not line.endswith(b"\n"):
                break  # the audit was ended while it wrote this line
            head = _HEAD.match(line)
            if head is not None and line.endswith(b"}\n"):
                self._at[bytes.fromhex(head[1].decode())] = self._end
            self._end += len(line)
            self.lines += 1
        os.ftruncate(self._write, self._end)

    def append(self, line: bytes) -> None:
        """Add the row `line` and hand it to the system at once. Raises `CannotExamineError` when that fails."""
        head = _HEAD.match(line)
        assert head is not None, "a row begins with its id"
        # Not through a buffer: what it could not write it would try to write once more at the end.
        try:
            done = 0
            while done < len(line):
                done += os.pwrite(self._write, line[done:], self._end + done)
        except OSError as error:
            why = show(error.strerror or error)
            raise CannotExamineError(
                f"{show(self.path, 4096)}: cannot be written ({why}); start again to go on from what was done"
            ) from None
        self._at[bytes.fromhex(head[1].decode())] = self._end
        self._end += len(line)
        self.lines += 1

    def get(self, row_id: str) -> Row | None:
        """The row with this id; None when there is none, or no whole one."""
        line = self.line(row_id)
        row: Any
        try:
            row = None if line is None else json.loads(line)
        except (ValueError, RecursionError):
            return None
        return row if is_row(row) and row["id"] == row_id else None

    def line(self, row_id: str) -> bytes | None:
        """The row with this id as it stands in the file."""
        at = self._at.get(bytes.fromhex(row_id))
        if at is None:
            return None
        self._file.seek(at)
        return self._file.readline()

    def keep_only(self, ids: Iterator[str]) -> None:
        """Write the file anew with the rows `ids` alone, in this order. Raises `CannotExamineError`."""
        part = self.path.with_name(f".{RESULTS}.part")
        try:
            with part.open("wb") as file:
                for row_id in ids:
                    file.write(self.line(row_id) or b"")
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.path)
            self.close()
            self._write = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._file = os.fdopen(os.dup(self._write), "rb")
        except OSError as error:
            part.unlink(missing_ok=True)
            raise CannotExamineError(
                f"{show(self.path, 4096)}: cannot be written ({show(error.strerror or error)})"
            ) from None
        self._at.clear()
        self._end = self.lines = 0
        self._load()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        if self._write >= 0:
            os.close(self._write)
        self._write = -1


def check_folder(folder: Path) -> None:
    """See that results may be kept in `folder`: it holds no model, and no file of their name that is another's.

    Raises `UsageError`.
    """
    said = f"--out {show(folder, 4096)}"
    try:
        names = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        held = next((name for name in names if name == "config.json" or weighty([name])), None)
        if held is not None:
            raise UsageError(f"{said}: holds {show(held)}, and nothing is written beside a model; name another folder")
        if RESULTS in names and not _is_ours(folder / RESULTS):
            raise UsageError(f"{said}: the {RESULTS} in it is of no audit; name another folder")
    except OSError as error:
        raise CannotExamineError(f"{said}: cannot be used ({show(error.strerror or error)})") from None


def _is_ours(path: Path) -> bool:
    """Whether `path` is empty or has a row of an audit in its beginning. A link is left to `open_state` to refuse."""
    if path.is_symlink() or not path.is_file():
        return True
    with path.open("rb") as file:
        head = file.read(_LOOK)
    return _START.startswith(head[: len(_START)]) or any(_HEAD.match(line) for line in head.split(b"\n"))


@contextmanager
def open_state(folder: Path, fresh: bool) -> Iterator[State]:
    """The state in `folder`, which is made where it is not there; nobody else can use it until the end.

    With `fresh` what is in it is forgotten. Raises `CannotExamineError` when it cannot be used, or another audit does,
    and `UsageError` where it is no place for results.
    """
    shown = show(folder, 4096)
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise CannotExamineError(f"--out {shown}: cannot be used ({show(error.strerror or error)})") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotExamineError(
                f"--out {shown}: another audit is writing there; wait for its end, or name another folder"
            ) from None
        path = folder / RESULTS
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_TRUNC if fresh else 0)
            state = State(path, os.open(path, flags, 0o644))
        except OSError as error:
            raise CannotExamineError(f"{show(path, 4096)}: cannot be used ({show(error.strerror or error)})") from None
        try:
            yield state
        finally:
            state.close()
    finally:
        os.close(lock)
