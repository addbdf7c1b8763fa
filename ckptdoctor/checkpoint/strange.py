"""What people have in place of weights, told by the first bytes of a file."""

from __future__ import annotations

__all__ = ["GGUF_CAUSE", "LFS_CAUSE", "LFS_MAGIC", "START", "strange_content"]

START = 24
"""First bytes of a file that tell what it is."""

LFS_MAGIC = b"version https://git-lfs"
GGUF_CAUSE = "this is a GGUF file of llama.cpp"
LFS_CAUSE = "the repository was cloned without git-lfs"
_PAGE = "this is a web page: a download that was answered with an error page"
_ANSWER = "this is a JSON text: a download that was answered with a message, or another file under this name"
_XML = "this is an XML text: a download that was answered with an error message"
_TEXT = "this is a text: a download that was answered with a message, or another file under this name"
_ZEROS = "it starts with zeros: a download that reserved its space and never came"
_PICKLE = "this is a Python pickle with the wrong ending"

# First bytes, and the likely cause. The first that fits is taken.
_BINARY: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "this is a zip archive, most likely a PyTorch file with the wrong ending"),
    *((b"\x80" + bytes([protocol]), _PICKLE) for protocol in range(2, 6)),
    (b"GGUF", GGUF_CAUSE),
    (b"FUGG", "this is a GGUF file of llama.cpp with its bytes the other way round"),
    (b"\x1f\x8b", "this is a gzip archive"),
    (b"BZh", "this is a bzip2 archive"),
    (b"\xfd7zXZ\x00", "this is an xz archive"),
    (b"\x28\xb5\x2f\xfd", "this is a zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "this is a 7-zip archive"),
    (b"\x89HDF\r\n\x1a\n", "this is an HDF5 file"),
    (b"\x93NUMPY", "this is a NumPy file"),
    (b"\x00" * 8, _ZEROS),
)
_PAGES = (b"<!doctype html", b"<html", b"<head", b"<body")


def strange_content(start: bytes) -> tuple[str, str] | None:
    """The kind (`lfs_pointer` or `not_weights`) and the likely cause, in words, of a file that begins with `start` (the
    first `START` bytes); None when nothing is known to begin so.

    The caller rules out first that it is what it should be: a zip archive is a PyTorch file as well.
    """
    if start.startswith(LFS_MAGIC):
        return "lfs_pointer", LFS_CAUSE
    cause = next((cause for magic, cause in _BINARY if start.startswith(magic)), None)
    if cause is None and _is_text(start):
        text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
        if text.startswith(_PAGES):
            cause = _PAGE
        elif text.startswith(b"<"):
            cause = _XML
        else:
            cause = _ANSWER if text.startswith((b"{", b"[")) else _TEXT
    return None if cause is None else ("not_weights", cause)


def _is_text(start: bytes) -> bool:
    """Whether these are at least eight bytes of a text in ASCII, perhaps after a byte order mark."""
    body = start.removeprefix(b"\xef\xbb\xbf")
    return len(body) >= 8 and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in body)
