"""Writing a result to a file that a person names: the whole of it or nothing. Where it may go is in `outputs`."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import show

__all__ = ["write_whole"]

_PATH_LIMIT = 4096


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
