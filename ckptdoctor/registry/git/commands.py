"""Git itself: where a repository keeps things, and what is in its objects. Nothing of a work tree is read or run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show

__all__ = ["Objects", "Repository", "answered", "find_repository", "open_objects", "pieces"]

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Repository:
    """A repository as git sees it from the current folder (in a hook: as the environment says).

    `common` is its git folder, the same for all work trees; `top` the work tree, None for a bare repository; `hooks`
    the folder whose hooks git runs.
    """

    common: Path
    top: Path | None
    hooks: Path

    @property
    def home(self) -> Path:
        """Where the gate of this repository keeps its own files: the installed policy, private copies."""
        return self.common / "ckptdoctor"

    @property
    def name(self) -> str:
        """What a person calls it: the name of its folder."""
        place = self.top or (self.common.parent if self.common.name == ".git" else self.common)
        return place.name.removesuffix(".git") or "repository"

    def config(self, name: str, *more: str) -> str | None:
        """The value of a git setting, None where it is not set. Settings never come from the files of a commit."""
        done = _run(["config", *more, "--get", name])
        return os.fsdecode(done.stdout).removesuffix("\n") if done.returncode == 0 else None

    def tree_of(self, name: str) -> str | None:
        """The id of the tree that the commit, tag or tree `name` leads to, None where it leads to none."""
        done = _run(["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{tree}}"])
        return done.stdout.decode("ascii").strip() if done.returncode == 0 else None

    def listing(self, *args: str) -> Iterator[bytes]:
        """What `git ARGS` prints, at each NUL. Raises `CannotExamineError` when git fails."""
        with _started(args) as process:
            yield from pieces(_pipe(process.stdout))
            said = process.stderr.read() if process.stderr else b""
            if process.wait():
                raise CannotExamineError(f"git {args[0]} failed: {_complaint(said)}")


def find_repository() -> Repository:
    """The repository that the current folder belongs to. Raises `CannotExamineError` where there is none."""
    done = _run(["rev-parse", "--git-common-dir", "--git-path", "hooks"])
    lines = os.fsdecode(done.stdout).splitlines()
    if done.returncode or len(lines) != 2:
        raise CannotExamineError(f"there is no git repository here: {_complaint(done.stderr)}")
    top = _run(["rev-parse", "--show-toplevel"])
    shown = os.fsdecode(top.stdout).removesuffix("\n")
    return Repository(
        Path(lines[0]).resolve(), Path(shown) if top.returncode == 0 and shown else None, Path(lines[1]).absolute()
    )


class Objects:
    """Contents of objects by their ids, from one `git cat-file` that stays open."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._in = _pipe(process.stdin)
        self._out = _pipe(process.stdout)

    def blob(self, oid: str) -> tuple[int, Iterator[bytes]]:
        """The size and the content, in parts, of the blob `oid`. The parts have to be taken before the next call.

        Raises `CannotExamineError` when the repository has no such blob.
        """
        try:
            self._in.write(oid.encode("ascii") + b"\n")
            self._in.flush()
            words = self._out.readline().split()
        except BrokenPipeError:
            words = []
        if len(words) != 3 or words[1] != b"blob":
            raise CannotExamineError(f"the object {oid} is missing from the repository or damaged")
        size = int(words[2])
        return size, self._parts(oid, size)

    def _parts(self, oid: str, size: int) -> Iterator[bytes]:
        left = size
        while left:
            part = self._out.read(min(_CHUNK, left))
            if not part:
                raise CannotExamineError(f"the object {oid} cannot be read to its end")
            left -= len(part)
            yield part
        self._out.read(1)  # the line end after each object


@contextmanager
def open_objects() -> Iterator[Objects]:
    """The objects of the repository that the current folder belongs to, also those that a push has just brought."""
    with _started(["cat-file", "--batch"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        yield Objects(process)


def answered(args: Sequence[str], folder: Path, more: Mapping[str, str], given: bytes = b"") -> bytes:
    """What `git ARGS` prints in `folder` when it reads `given`, with nothing of the repository that a hook runs in.

    Neither its settings nor those of the person count. Raises `CannotExamineError` when git fails.
    """
    plain = {name: value for name, value in _environment().items() if not name.startswith("GIT_")}
    alone = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": str(folder), "XDG_CONFIG_HOME": ""}
    try:
        done = subprocess.run(  # noqa: S603
            ["git", *args],  # noqa: S607
            cwd=folder,
            input=given,
            capture_output=True,
            env={**plain, **alone, **more},
            check=False,
        )
    except OSError as error:
        raise CannotExamineError(f"git cannot be started ({show(error.strerror or error)})") from None
    if done.returncode:
        raise CannotExamineError(f"git {args[0]} failed: {_complaint(done.stderr)}")
    return done.stdout


def pieces(stream: IO[bytes]) -> Iterator[bytes]:
    """The parts of `stream` that end with NUL, without it."""
    rest = b""
    while part := stream.read(_CHUNK):
        *whole, rest = (rest + part).split(b"\0")
        yield from whole
    if rest:
        yield rest


def _environment() -> dict[str, str]:
    # A replacement object is what git would show here, and not what it sends.
    ours = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "0", "LC_ALL": "C"}
    return {**os.environ, **ours}


def _run(args: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603
            ["git", *args],  # noqa: S607
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=_environment(),
            check=False,
        )
    except OSError as error:
        raise CannotExamineError(f"git cannot be started ({show(error.strerror or error)})") from None


@contextmanager
def _started(
    args: Sequence[str], stdin: int = subprocess.DEVNULL, stderr: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[bytes]]:
    try:
        process = subprocess.Popen(  # noqa: S603
            ["git", *args],  # noqa: S607
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=_environment(),
        )
    except OSError as error:
        raise CannotExamineError(f"git cannot be started ({show(error.strerror or error)})") from None
    with process:
        try:
            yield process
        finally:
            process.kill()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise CannotExamineError("git cannot be read from")
    return stream


def _complaint(said: bytes) -> str:
    lines = said.decode("utf-8", "replace").strip().splitlines()
    fatal = [line for line in lines if line.startswith("fatal: ")]  # advice may follow it
    return show((fatal or lines)[-1].removeprefix("fatal: ").strip()) if lines else "it said nothing"
