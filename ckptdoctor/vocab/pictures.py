"""Where a picture may be written: over nothing but a picture, and never into the folder that is examined."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from ckptdoctor.checkpoint.folder import locate
from ckptdoctor.errors import UsageError
from ckptdoctor.outputs import PICTURE, Output, Reads, check_places
from ckptdoctor.publish.writing import cannot_write
from ckptdoctor.text import show

__all__ = ["check_picture", "write_picture"]


def check_picture(svg: str, source: str, reads: Reads) -> Path:
    """The place of `--svg`.

    Raises `UsageError` for one in the folder of `source`, one that holds something else, and whatever is read.
    """
    root, only = locate(source)
    path = Path(svg)
    try:
        if not svg or not path.parent.is_dir():
            raise UsageError(f"--svg {show(svg)}: the folder for it does not exist")
        path = path.parent.resolve() / path.name
        if only is None and any(folder.samefile(root) for folder in path.parents):
            raise UsageError(f"--svg {show(svg)}: is inside the draft, which is never written to")
        if os.path.lexists(path) and not _is_picture(path):
            raise UsageError(f"--svg {show(svg)}: exists and is no SVG picture; name another file")
        check_places([Output("--svg", path, PICTURE)], reads)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no name of a file"
        raise UsageError(f"--svg {show(svg)}: cannot be used ({show(why)})") from None
    return path


def _is_picture(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(512).lstrip().startswith(b"<svg")


def write_picture(path: Path, text: str) -> None:
    """Write the picture whole or not at all. Raises `CannotWriteError`."""
    temporary: Path | None = None
    try:
        name = path.parent / f".{path.name[:50]}.{secrets.token_hex(4)}"
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        temporary = name
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode("utf-8"))
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        temporary = None
    except OSError as error:
        raise cannot_write(error, path) from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                temporary.unlink()
