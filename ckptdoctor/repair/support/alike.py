"""Whether two stored tensors are the same bytes: read side by side in small chunks, in constant memory."""

from __future__ import annotations

from ckptdoctor.checkpoint import Checkpoint, TensorInfo
from ckptdoctor.checkpoint.folder import open_regular
from ckptdoctor.unknown import Known, Unknown

__all__ = ["alike"]

_CHUNK = 1 << 20


def alike(checkpoint: Checkpoint, first: TensorInfo, second: TensorInfo, most: int | None = None) -> Known[bool]:
    """Whether both have the same dtype, shape and bytes; unknown where the bytes are in no safetensors file.

    With `most`, no more than about so many bytes of each are compared: those at the start and those at the end.
    """
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return False
    paths = checkpoint.real_path(first.file), checkpoint.real_path(second.file)
    spans = (first.start, first.end), (second.start, second.end)
    (start, end), (other, last) = spans
    if paths[0] is None or paths[1] is None or start is None or end is None or other is None or last is None:
        return Unknown("both tensors as bytes of a safetensors file")
    if end - start != last - other:
        return Unknown("files that are not cut short")
    with open_regular(paths[0]) as left, open_regular(paths[1]) as right:
        for at in range(start, end, _CHUNK):
            if most is not None and most // 2 <= at - start < end - start - most // 2:
                continue
            length = min(_CHUNK, end - at)
            left.seek(at)
            right.seek(other + at - start)
            ours, theirs = left.read(length), right.read(length)
            if len(ours) != length or len(theirs) != length:
                return Unknown("files that are not cut short")
            if ours != theirs:
                return False
    return True
