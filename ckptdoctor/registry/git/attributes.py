"""What `.gitattributes` of a commit make of its files in a clone: git itself is asked, in a repository of its own.

Of the settings of this machine none has a say there (neither info/attributes nor core.attributesFile), and no filter
runs: a clone elsewhere has the files of the commit and no others. `config` of git and git-lfs is what everybody has:
line ends are those of the system, and git-lfs is installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.registry.git.commands import answered

__all__ = ["NONE", "Attributes", "attributes_of"]

_ASKED = ("filter", "text", "crlf", "eol", "ident", "working-tree-encoding")
_ABSENT = ("unspecified", "unset")
_SAME_ENCODING = ("utf-8", "utf8")


@dataclass(frozen=True)
class Attributes:
    """The attributes of one file as git names their values: a word, or `set`, `unset` and `unspecified`."""

    filter: str = "unspecified"
    text: str = "unspecified"
    crlf: str = "unspecified"
    eol: str = "unspecified"
    ident: str = "unspecified"
    encoding: str = "unspecified"

    @property
    def in_lfs(self) -> bool:
        """Whether a clone hands the file to git-lfs."""
        return self.filter == "lfs"

    @property
    def other_filter(self) -> str | None:
        """The name of another filter that a clone hands it to; None without one."""
        return None if self.filter in ("lfs", *_ABSENT) else self.filter

    @property
    def line_ends(self) -> str | None:
        """The attributes by which a clone (perhaps only one on Windows) gets other line ends whatever is in the file.

        None without such. With `text=auto` git looks for bytes that no text has first, and weights are full of them.
        """
        # crlf is the older name of text, and counts where that says nothing (gitattributes, convert.c).
        name, value = ("text", self.text) if self.text != "unspecified" else ("crlf", self.crlf)
        if value in ("unset", "auto", "input") or self.eol == "lf":
            return None
        if self.eol == "crlf":
            return "eol=crlf" if value == "unspecified" else f"{name} eol=crlf"
        return name if value == "set" else None

    @property
    def expands(self) -> bool:
        """Whether a clone puts the id of the content where `$Id$` stands."""
        return self.ident == "set"

    @property
    def other_encoding(self) -> str | None:
        """The encoding that a clone has the file in, where that is not the one it is stored in."""
        return None if self.encoding in _ABSENT or self.encoding.lower() in _SAME_ENCODING else self.encoding


NONE = Attributes()


def attributes_of(
    paths: Iterable[str], files: Mapping[str, bytes], private: Path, *, any_case: bool = False
) -> dict[str, Attributes]:
    """The attributes of `paths`, where `files` are the `.gitattributes` of the tree by their paths.

    With `any_case`, patterns fit names in upper and lower case alike, as in clones on macOS and Windows. `private` is a
    folder that does not exist yet and that nothing but this uses. Raises `CannotExamineError` when git cannot say.
    """
    if not files:
        return {}
    private.mkdir(mode=0o700)
    for name, content in files.items():
        place = private / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    git = private / ".git"
    settings = {"core.bare": "false", "core.attributesFile": os.devnull, "core.ignorecase": str(any_case).lower()}
    words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    answered(["init", "--quiet", "--template=", str(private)], private, {})
    asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
    out = answered(
        [*words, "check-attr", "-z", "--stdin", *_ASKED],
        private,
        {"GIT_DIR": str(git), "GIT_WORK_TREE": str(private), "GIT_ATTR_NOSYSTEM": "1"},
        asked,
    )
    found: dict[str, dict[str, str]] = {}
    parts = os.fsdecode(out).split("\0")
    for path, name, value in zip(parts[0::3], parts[1::3], parts[2::3], strict=False):
        found.setdefault(path, {})["encoding" if name == "working-tree-encoding" else name] = value
    return {path: Attributes(**values) for path, values in found.items()}
