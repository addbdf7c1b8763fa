"""A file that a person or a project names, read whole: within a limit, and never a pipe, a socket or a device, which
may have no end or never begin."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["read_named"]


def read_named(path: Path, limit: int) -> bytes:
    """The bytes of the regular file `path`, links followed.

    Raises `OSError`, with words in `strerror`, also for what is no regular file and for more than `limit` bytes.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
        raise OSError(errno.EINVAL, f"it is {kind} and not a file")
    with os.fdopen(descriptor, "rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes")
    return data
