"""Asks the process that reads PyTorch files (`child`), which is started with the first file and kept for more."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.limits import PICKLE_ANSWER, PICKLE_SECONDS

__all__ = ["EndedError", "ask"]

_START = "import sys; sys.path[:] = sys.argv[1:]; from ckptdoctor.checkpoint.pickled.child import main; main()"


class EndedError(Exception):
    """The process ended before it answered: the text says why, `damaged` whether that is the file's doing."""

    def __init__(self, why: str, damaged: bool) -> None:
        super().__init__(why)
        self.damaged = damaged


class _Reader:
    """One such process."""

    def __init__(self) -> None:
        flags = ["-I", "-B"] if sys.dont_write_bytecode else ["-I"]
        if sys.pycache_prefix:
            flags += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
        home = str(Path(__file__).resolve().parents[3])
        # Nothing of the folder that the person is in: it may be the one that is examined.
        paths = [place for place in sys.path if place and Path(place).is_absolute()]
        paths += [] if home in paths else [home]
        environment = {k: v for k, v in os.environ.items() if k != "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"}
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own words
            [sys.executable, *flags, "-c", _START, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/" if os.name == "posix" else None,
        )

    def ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """The answer to one request, and the bytes beside it. Raises `EndedError`."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode("ascii") + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise self._ended() from None
        length = int.from_bytes(self._read(8), "little")
        answer: dict[str, Any] = json.loads(self._read(length))
        sizes = answer.pop("blobs")
        if length + sum(sizes) > PICKLE_ANSWER:
            raise EndedError("it holds more than any checkpoint", damaged=False)
        return answer, [self._read(size) for size in sizes]

    def _read(self, length: int) -> bytes:
        assert self.process.stdout is not None
        if length > PICKLE_ANSWER:
            raise EndedError("it holds more than any checkpoint", damaged=False)
        data = self.process.stdout.read(length)
        if len(data) != length:
            raise self._ended()
        return data

    def _ended(self) -> EndedError:
        number = -self.process.wait()
        if number in (getattr(signal, "SIGXCPU", None), getattr(signal, "SIGKILL", None)):
            return EndedError(
                f"it takes more than {PICKLE_SECONDS} seconds to read, which no checkpoint does", damaged=False
            )
        if number == getattr(signal, "SIGBUS", None):
            return EndedError("it was cut while it was read", damaged=False)
        if number > 0:
            return EndedError(f"reading it ended torch (signal {number})", damaged=True)
        return EndedError("the process that reads PyTorch files ended early", damaged=False)

    def close(self) -> None:
        """End the process."""
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        self.process.kill()
        self.process.wait()


_reader: _Reader | None = None
_lock = threading.Lock()


def ask(path: Path, what: str) -> tuple[dict[str, Any], list[bytes]]:
    """What the process says of the file `path` (`what`: `tensors` or `plain`), and the bytes beside it.

    Raises `EndedError` when it ends before it answers, `CannotExamineError` when it cannot be started.
    """
    with _lock:
        reader = _running()
        try:
            return reader.ask({"path": os.path.realpath(path), "what": what})
        except EndedError:
            _end()
            raise
        except (ValueError, KeyError):
            _end()
            raise EndedError("the process that reads PyTorch files gave no answer", damaged=False) from None
        except BaseException:
            _end()  # an answer that nobody waited for must not be taken for the next one
            raise


def _running() -> _Reader:
    global _reader  # noqa: PLW0603 - one process for all files
    if _reader is not None and _reader.process.poll() is not None:
        _end()
    if _reader is None:
        try:
            _reader = _Reader()
        except (OSError, ValueError, TypeError) as error:
            why = getattr(error, "strerror", None) or error
            raise CannotExamineError(f"the process that reads PyTorch files cannot be started ({why})") from None
    return _reader


def _end() -> None:
    global _reader
    if _reader is not None:
        reader, _reader = _reader, None
        reader.close()


def _forget() -> None:
    """In a fork of ours: the process is the parent's to ask and to wait for."""
    global _reader, _lock  # noqa: PLW0603 - one process for all files
    _lock = threading.Lock()
    if _reader is not None:
        _reader.process.returncode = 0
        _reader = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
atexit.register(_end)
