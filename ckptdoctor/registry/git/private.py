"""A private folder for what is judged, inside the git folder; one that a killed run left is cleared by the next."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show

__all__ = ["private_folder"]

_PREFIX = "judging-"
_LOCK = "lock"
_JUST_MADE = 60.0
"""Seconds in which a folder may be without its lock, since its run has only begun."""


@contextmanager
def private_folder(home: Path) -> Iterator[Path]:
    """A new empty folder in `home` (else in the temporary folder) that only this user may enter.

    It is locked while in use and removed at the end. Raises `CannotExamineError` when none can be made.
    """
    with suppress(OSError):
        home.mkdir(mode=0o700, exist_ok=True)
    _clear(home)
    place = home if os.access(home, os.W_OK | os.X_OK) else None
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place)).resolve()
    except OSError as error:
        raise CannotExamineError(f"{show(home)}: no private folder can be made ({show(error.strerror)})") from None
    try:
        lock = os.open(folder / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with suppress(OSError):  # a file system without locks: such folders are then left to the person
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (folder / "tree").mkdir(mode=0o700)
            yield folder / "tree"
        finally:
            os.close(lock)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise CannotExamineError(f"{show(folder.parent)}: there is no space left to lay out what is judged") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _clear(home: Path) -> None:
    """Removes the folders in `home` that no run holds any more."""
    with suppress(OSError):
        for folder in home.glob(f"{_PREFIX}*"):
            if not folder.is_symlink() and _abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > _JUST_MADE
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True
