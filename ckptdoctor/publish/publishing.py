"""Where a copy may go, and how it gets there: prepared beside its place, then moved there in one step.

The folder in preparation holds a marker and the copy. The marker carries a lock for as long as its run lives, so a
later run knows what a dead one left behind, and takes it away.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from ckptdoctor.checkpoint.folder import leads_out
from ckptdoctor.errors import UsageError
from ckptdoctor.publish.writing import CannotWriteError, cannot_write, sync_folder
from ckptdoctor.text import show

__all__ = ["Staging", "check_out", "clear_leftovers"]

_INFIX = ".ckptdoctor-"
_RANDOM = 8
_MARKER = "ckptdoctor-unfinished"
_COPY = "copy"
_OURS = "ckptdoctor works here; this folder goes away with it\n"


def check_out(source: Path, out: str) -> Path:
    """The absolute path of the folder that `--out` names, if a copy of `source` may be published there.

    Raises `UsageError` if it may not, `CannotWriteError` if the folder around it cannot be written to. Takes away what
    dead runs for the same place left behind.
    """
    if not out:
        raise UsageError("--out is empty: name the new folder that the copy goes to")
    if "://" in out:
        raise UsageError(f"--out {show(out)}: the copy goes to a local folder, not to a URL")
    try:
        path = Path(out)
        if _exists(path):
            path = path.resolve(strict=True)
            _check_existing(source, path, out)
        else:
            path = path.parent.resolve(strict=True) / path.name
        # The blobs of a Hub cache, which the links of the source lead to, are the source too.
        inside = any(folder.samefile(source) for folder in path.parents) or not leads_out(source.resolve(), path)
    except PermissionError:
        raise CannotWriteError(f"--out {show(out)}: permission denied") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"--out {show(out)}: {_unusable(out, error)}") from None
    if inside:
        raise UsageError(f"--out {show(out)}: is inside the source, which is never written to")
    clear_leftovers(path)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise CannotWriteError(f"{show(path.parent)}: cannot be written to, so the copy cannot go there")
    return path


def _exists(path: Path) -> bool:
    """Whether there is something of this name, a dangling link included. Raises `OSError` for an impossible name."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _check_existing(source: Path, path: Path, out: str) -> None:
    if path.samefile(source):
        raise UsageError(f"--out {show(out)}: is the source itself, which is never written to")
    if not path.is_dir():
        raise UsageError(f"--out {show(out)}: exists and is not a folder; name a new one")
    if any(path.iterdir()):
        clear_leftovers(path)
        raise UsageError(f"--out {show(out)}: exists and is not empty; name a new folder")
    if path.is_mount():
        raise UsageError(f"--out {show(out)}: is a mount point; name a new folder inside it")
    if path.samefile("."):
        raise UsageError(f"--out {show(out)}: is the folder that you are in, and would be replaced; name a new folder")


def _unusable(out: str, error: Exception) -> str:
    if os.path.islink(Path(out)):  # noqa: PTH114 (Path.is_symlink raises for names that are too long)
        return "is a link that leads nowhere; name a new folder"
    if isinstance(error, FileNotFoundError):
        return f"the folder {show(Path(out).parent)} does not exist"
    if isinstance(error, OSError):
        return f"cannot be the place of the copy ({show(error.strerror or error)})"
    return "cannot be the place of the copy"


class Staging:
    """A private folder beside `out`, gone at the end of the `with` whatever happens, unless killed outright.

    Write the copy into `root`, then `publish`. SIGTERM and SIGHUP end the run like Ctrl-C does, so that nothing stays
    behind; a SIGKILL leaves a folder that the next run for `out` removes. Raises `CannotWriteError`.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._folder: Path | None = None
        self._marker = -1
        self._handlers: dict[int, Callable[[int, FrameType | None], Any] | signal.Handlers] = {}

    @property
    def root(self) -> Path:
        """The folder to write the copy into. Only we may enter the one around it."""
        assert self._folder is not None, "outside of the with statement"
        return self._folder / _COPY

    def __enter__(self) -> Staging:
        clear_leftovers(self._out)
        self._catch_signals()
        try:
            while not self._begin():
                pass
        except OSError as error:
            self._remove()
            raise cannot_write(error, self._out.parent) from None
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._remove()

    def publish(self, like: Path) -> None:
        """Moves the finished copy to its place in one step. It gets the permissions of the folder `like`.

        The owner may always write to the new folder, even when `like` is read-only. Raises `CannotWriteError`, also
        when something else came to be at that place in the meantime: one of two runs wins.
        """
        root = self.root
        try:
            own = stat.S_IMODE(root.stat().st_mode) & ~0o777  # set-group-id, as the parent passes it on
            root.chmod(own | 0o700 | like.stat().st_mode & 0o777)
            sync_folder(root)
            root.rename(self._out)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR):
                raise CannotWriteError(
                    f"{show(self._out)}: something else was put there in the meantime; nothing was written"
                ) from None
            raise cannot_write(error, self._out) from None
        try:
            sync_folder(self._out.parent)
        except PermissionError:
            os.sync()  # a folder that we may write to and not list
        except OSError as error:
            with suppress(OSError):
                self._out.rename(root)  # the disk does not take the new name: then there is no copy
            raise cannot_write(error, self._out.parent) from None

    def _begin(self) -> bool:
        """Makes the folder, marked and locked. False if another run took it for a dead one's; then it is gone."""
        self._folder = Path(tempfile.mkdtemp(prefix=_prefix(self._out), dir=self._out.parent))
        try:
            marker = self._folder / _MARKER
            self._marker = os.open(marker, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            if _lock(self._marker) is False:
                os.close(self._marker)
                self._marker = -1
                return False
            os.write(self._marker, f"{_OURS}{_here()}\n".encode())
            if os.fstat(self._marker).st_nlink:
                self.root.mkdir()
                return True
        except FileNotFoundError:
            pass
        if self._marker >= 0:
            os.close(self._marker)
            self._marker = -1
        return False

    def _remove(self) -> None:
        for number in self._handlers:
            signal.signal(number, signal.SIG_IGN)
        if self._folder is not None:
            _remove(self._folder)
        if self._marker >= 0:
            os.close(self._marker)
        self._folder, self._marker = None, -1
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}

    def _catch_signals(self) -> None:
        """Only where nobody else does, and where Python lets us: in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _end)
                self._handlers[number] = signal.SIG_DFL
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._handlers[signal.SIGINT] = signal.default_int_handler  # ends the run, and waits while we clear up


def clear_leftovers(out: Path) -> None:
    """Removes what dead runs that were to publish to `out` left beside it. Never raises for the file system.

    Only folders with our name, our marker, our owner and a free lock; and none of another machine on a shared disk,
    whose locks may not be seen here.
    """
    prefix = _prefix(out)
    with suppress(OSError):
        for folder in list(out.parent.iterdir()):
            if folder.name.startswith(prefix) and len(folder.name) == len(prefix) + _RANDOM:
                with suppress(OSError):
                    _clear(folder)


def _clear(folder: Path) -> None:
    seen = folder.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid():
        return
    try:
        marker = os.open(folder / _MARKER, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        folder.rmdir()  # killed before it was marked: then it is empty, else it is not ours
        return
    try:
        text = os.pread(marker, 4096, 0).decode(errors="replace")
        theirs = text.removeprefix(_OURS).split()
        near = not text or (text.startswith(_OURS) and bool({*theirs} & {*_here().split()}))
        if near and _lock(marker):
            _remove(folder)
    finally:
        os.close(marker)


def _remove(folder: Path) -> None:
    """The copy first and the marker last: whoever is killed on the way leaves what the next run recognises."""
    shutil.rmtree(folder / _COPY, ignore_errors=True)
    with suppress(OSError):
        (folder / _MARKER).unlink(missing_ok=True)
        folder.rmdir()


def _lock(descriptor: int) -> bool | None:
    """Whether we have the lock; None where the file system knows no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _here() -> str:
    """This machine, in two words: its name, and the kernel's word for the time since it was started."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{os.uname().nodename} {boot}"


def _prefix(out: Path) -> str:
    """How the folders in preparation for `out` begin. A long name is cut, so that the file system takes it."""
    try:
        limit = os.pathconf(out.parent, "PC_NAME_MAX")
    except (OSError, ValueError):
        limit = 255
    name = out.name
    while name and len(os.fsencode(f".{name}{_INFIX}")) + _RANDOM > limit:
        name = name[:-1]
    return f".{name}{_INFIX}"


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
