"""What a comparison of a written copy gives: digests of its files and of those that it came from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.errors import CkptdoctorError

__all__ = ["Compared", "FileDigest", "SourceDigest", "VerificationError"]


class VerificationError(CkptdoctorError):
    """The copy on the disk is not what was to be written (exit 3)."""


@dataclass(frozen=True)
class FileDigest:
    """A file of the copy, its bytes, and its SHA-256 in hex; None above the limit, see `compare`."""

    name: str
    size: int
    sha256: str | None


@dataclass(frozen=True)
class SourceDigest:
    """A file that the copy is made from, its bytes, and its SHA-256 in hex; None above the limit, see `compare`."""

    path: Path
    size: int
    sha256: str | None


@dataclass(frozen=True)
class Compared:
    """The digests of both sides, and how many bytes of the copy were compared."""

    files: tuple[FileDigest, ...]
    sources: tuple[SourceDigest, ...]
    compared: int
