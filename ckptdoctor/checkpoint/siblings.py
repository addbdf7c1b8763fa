"""The small files beside weights: configs, tokenizer and template, each read with its limit."""

from __future__ import annotations

from pathlib import Path

from ckptdoctor.checkpoint.folder import Folder
from ckptdoctor.checkpoint.jsonreader import JsonDocument
from ckptdoctor.checkpoint.remote import HEAD_LIMIT
from ckptdoctor.checkpoint.weights import TOKENIZER_LIMIT, read_json_file
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.unknown import Unknown

__all__ = ["Siblings"]

TEXT_LIMIT = 1024 * 1024
"""Bytes of a text file (a chat template) that are read."""


class Siblings:
    """Read access to the small files of one folder. What cannot be opened counts as absent here."""

    def __init__(self, root: Path) -> None:
        self._folder = Folder(root)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all entries of the folder, sorted."""
        return self._folder.names

    def json(self, name: str) -> JsonDocument | None:
        """The JSON file `name` with its faults, or None when there is none."""
        return read_json_file(self._folder, name)

    def json_head(self, name: str, only: frozenset[str]) -> JsonDocument | None:
        """The top-level keys `only` of a large JSON file, read no further than needed."""
        return read_json_file(self._folder, name, TOKENIZER_LIMIT, only)

    def text(self, name: str) -> str | None:
        """The text file `name` (its first MiB), or None when there is none."""
        if self._folder.path(name) is None:
            return None
        with self._folder.open(name) as stream:
            return stream.read(TEXT_LIMIT).decode("utf-8", errors="replace")

    def too_far(self, name: str) -> Unknown | None:
        """What is missing where the large file `name` is not on this machine; None where it can be read."""
        file = self._folder.remote_file(name)
        if file is None or file.size <= HEAD_LIMIT:
            return None
        return Unknown(f"{file.told} on this machine ({file.size} bytes are not read over the network)")

    def data(self, name: str) -> bytes | None:
        """The bytes of the large JSON file `name`; None when there is none, it cannot be read or is over the limit."""
        if self._folder.path(name) is None or self._folder.size(name) > TOKENIZER_LIMIT:
            return None
        if self.too_far(name) is not None:
            return None
        try:
            with self._folder.open(name) as stream:
                return stream.read(TOKENIZER_LIMIT)
        except CannotExamineError:
            return None
