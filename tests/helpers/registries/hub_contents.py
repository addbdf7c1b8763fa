"""What the Hub of the tests keeps: repositories as commits of whole trees in memory, and what was asked of it.

Files of more than `SMALL` bytes are large ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["SMALL", "TOKEN", "Content", "Hub", "Repository", "entry", "sibling"]

TOKEN = "hf_loopback"
SMALL = 1024


class Content:
    """The bytes of a file: in memory, or a file on the disk (a sparse one stays sparse)."""

    def __init__(self, source: bytes | Path) -> None:
        self._source = source
        self.size = len(source) if isinstance(source, bytes) else source.stat().st_size

    def part(self, start: int, end: int) -> bytes:
        if isinstance(self._source, bytes):
            return self._source[start:end]
        with self._source.open("rb") as stream:
            stream.seek(start)
            return stream.read(end - start)

    @property
    def whole(self) -> bytes:
        return self.part(0, self.size)

    @property
    def sha256(self) -> str:
        # Of a large sparse file, the name stands for the content.
        return hashlib.sha256(self.whole if self.size < 1 << 26 else str(self._source).encode()).hexdigest()


@dataclass
class Repository:
    """A repository: its commits (id → tree), and where its branches are."""

    commits: dict[str, dict[str, Content]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    private: bool = False
    messages: list[str] = field(default_factory=list)

    def commit(self, tree: dict[str, Content], branch: str = "main", message: str = "a commit") -> str:
        name = hashlib.sha1(f"{len(self.commits)} {branch}".encode()).hexdigest()
        self.commits[name], self.branches[branch] = dict(tree), name
        self.messages.append(message)
        return name

    def find(self, revision: str) -> str | None:
        return self.branches.get(revision) or (revision if revision in self.commits else None)

    def tree(self, branch: str = "main") -> dict[str, bytes]:
        return {path: content.whole for path, content in self.commits[self.branches[branch]].items()}


@dataclass
class Hub:
    """The server as tests see it. `moved` counts the bytes of its answers' bodies, `asked` is every request.

    `meddle` may answer in place of the server: it is given the request's handler, and says whether it did.
    """

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    ranges: list[tuple[str, str]] = field(default_factory=list)
    tokens_at_cdn: list[str] = field(default_factory=list)
    moved: int = 0
    meddle: Callable[[Any], bool] = lambda _: False

    def add(self, name: str, source: Path | dict[str, bytes], branch: str = "main") -> str:
        """A new commit of the folder `source` (or of these files) in the repository `name`."""
        files: dict[str, bytes | Path] = (
            {p.relative_to(source).as_posix(): p for p in sorted(source.rglob("*")) if p.is_file()}
            if isinstance(source, Path)
            else dict(source)
        )
        repository = self.repositories.setdefault(name, Repository())
        return repository.commit({path: Content(data) for path, data in files.items()}, branch)

    @property
    def stored(self) -> int:
        """How many things somebody stored: repositories, commits, objects."""
        return sum(len(r.commits) + 1 for r in self.repositories.values()) + len(self.objects)


def sibling(path: str, content: Content, blobs: bool) -> dict[str, Any]:
    lfs = {"lfs": {"size": content.size, "sha256": content.sha256, "pointerSize": 134}} if content.size > SMALL else {}
    return {"rfilename": path, **({"size": content.size, "blobId": content.sha256[:40], **lfs} if blobs else {})}


def entry(path: str, content: Content) -> dict[str, Any]:
    lfs = {"lfs": {"oid": content.sha256, "size": content.size, "pointerSize": 134}} if content.size > SMALL else {}
    return {"type": "file", "path": path, "size": content.size, "oid": content.sha256[:40], **lfs}
