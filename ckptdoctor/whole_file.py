"""Writing a result to a file that a person names: the whole of it or nothing, and never over what is examined."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ckptdoctor.errors import CannotExamineError, UsageError
from ckptdoctor.text import show

__all__ = ["check_place", "write_whole"]

_PATH_LIMIT = 4096
_HEAD = 1 << 16
_SIGNS = (b'"name": "ckptdoctor"', b'name="ckptdoctor"', b'content="ckptdoctor', b"ckptdoctor explain ")
"""What the forms of a report have in their beginning."""
_NOT_REPORTS = ("ckptdoctor-receipt.json", "ckptdoctor.toml")


def check_place(path: Path, option: str, examined: Iterable[str] = ()) -> None:
    """See that a file may be written at `path`, which a person gave as `option`, before any work is done for it.

    Raises `UsageError` for a folder, a place in no folder, and a file that is there already in a folder of `examined`
    and is no earlier report: what is examined is never written over.
    """
    said = f"{option} {show(path, _PATH_LIMIT)}"
    try:
        place = Path(os.path.realpath(path))
        if place.is_dir() or not path.name:
            raise UsageError(f"{said}: is a folder; name a file")
        if not place.parent.is_dir():
            raise UsageError(f"{said}: the folder for it does not exist")
        if place.is_file() and any(_holds(folder, place) for folder in examined) and not _is_report(place):
            raise UsageError(f"{said}: is a file of what is examined, which is never written over; name another file")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no name of a file"
        raise UsageError(f"{said}: cannot be used ({show(why)})") from None


def _holds(folder: str, place: Path) -> bool:
    root = os.path.realpath(folder)
    return str(place) == root or str(place).startswith(f"{root.rstrip('/')}/")


def _is_report(place: Path) -> bool:
    with place.open("rb") as stream:
        head = stream.read(_HEAD)
    return place.name not in _NOT_REPORTS and (not head or any(sign in head for sign in _SIGNS))


def write_whole(path: Path, text: str) -> None:
    """Write `text` to the file `path`, whole or not at all; to a device or a pipe as it comes.

    A link stays one: what it leads to is written. Raises `CannotExamineError` when it cannot be written.
    """
    data = text.encode("utf-8", "backslashreplace")
    temporary: Path | None = None
    try:
        place = Path(os.path.realpath(path))
        mode = place.stat().st_mode if place.exists() else None
        if mode is not None and not stat.S_ISREG(mode):
            place.write_bytes(data)
            return
        name = place.with_name(f".{place.name[:50]}.{secrets.token_hex(4)}")
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        temporary = name
        with os.fdopen(descriptor, "wb") as stream:
            if mode is not None:
                os.fchmod(stream.fileno(), stat.S_IMODE(mode))
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(place)
        temporary = None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no name of a file"
        raise CannotExamineError(f"{show(path, _PATH_LIMIT)}: cannot be written ({show(why)})") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
