"""The sources of a release, without the release: only the Python files of its wheel, or of its source archive.

pip says where the wheel of a release is; its files are then read one by one with HTTP range requests, so that 10 MB of
a wheel of 400 MB are fetched. They are kept in the conformance cache, with the wheel's own metadata.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from tests.conformance.environments import SetupError, cache

BLOCK = 1 << 20
"""Bytes of one request: the Python files of a wheel lie close together, so a block holds many of them."""

_TRIES = 4


class RemoteFile(io.RawIOBase):
    """A file behind an address, read in blocks as they are asked for; `zipfile` can open it."""

    def __init__(self, url: str) -> None:
        self._url, self._at = url, 0
        self._blocks: dict[int, bytes] = {}
        with _open(urllib.request.Request(url, method="HEAD")) as answer:
            self._size = int(answer.headers["content-length"])

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        parts = []
        while self._at < end:
            number, offset = divmod(self._at, BLOCK)
            part = self._block(number)[offset : offset + end - self._at]
            parts.append(part)
            self._at += len(part)
        return b"".join(parts)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            first, last = number * BLOCK, min((number + 1) * BLOCK, self._size) - 1
            request = urllib.request.Request(self._url, headers={"Range": f"bytes={first}-{last}"})
            with _open(request) as answer:
                content = answer.read()
            if len(content) == self._size:  # a server, or a folder of wheels, that knows no ranges
                self._blocks = {i: content[i * BLOCK :][:BLOCK] for i in range(-(-self._size // BLOCK))}
            elif len(content) == last - first + 1:
                self._blocks[number] = content
            else:
                raise SetupError(f"{self._url}: asked for bytes {first} to {last}, {len(content)} bytes came")
        return self._blocks[number]


def folder(package: str, release: str, wanted: Callable[[str], bool] | None = None) -> Path:
    """The folder with the Python files of a release, fetched once. `wanted` chooses among their paths.

    Raises `SetupError` where pip finds no such release or its files cannot be read.
    """
    made = cache() / "sources" / f"{package}-{release}"
    if (made / ".finished").is_file():
        return made
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as temporary:
        fresh = Path(temporary, "fresh")
        for path, content in _python_files(address(package, release)):
            if path.endswith("/METADATA") or wanted is None or wanted(path):
                target = fresh / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        if not any(fresh.rglob("*.py")):
            raise SetupError(f"{package}=={release}: no Python file in what pip names")
        (fresh / ".finished").write_text("", encoding="utf-8")
        shutil.rmtree(made, ignore_errors=True)
        fresh.rename(made)
    return made


def address(package: str, release: str) -> str:
    """Where pip would fetch the release from; nothing is installed."""
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
        command += ["--disable-pip-version-check", "--ignore-requires-python", "--report", str(report)]
        done = subprocess.run([*command, f"{package}=={release}"], check=False, capture_output=True, text=True)
        if done.returncode:
            raise SetupError(f"pip finds no {package}=={release}: {done.stderr.strip()[-300:]}")
        (item,) = json.loads(report.read_text(encoding="utf-8"))["install"]
    return str(item["download_info"]["url"])


def metadata(made: Path) -> str:
    """The METADATA of the distribution whose files stand in `made`."""
    (found,) = made.glob("*.dist-info/METADATA")
    return found.read_text(encoding="utf-8")


def _python_files(url: str) -> Iterator[tuple[str, bytes]]:
    if url.endswith(".whl"):
        with zipfile.ZipFile(RemoteFile(url)) as wheel:
            for name in sorted(wheel.namelist(), key=lambda name: wheel.getinfo(name).header_offset):
                if _kept(name):
                    yield name, wheel.read(name)
        return
    with _open(urllib.request.Request(url)) as answer, tarfile.open(fileobj=answer, mode="r|*") as source:
        for member in source:
            content = source.extractfile(member) if member.isfile() else None
            # The first part is the folder of the archive; a source archive may keep its package under python/.
            path = "/".join(PurePosixPath(member.name).parts[1:]).removeprefix("python/")
            if content is not None and _kept(path):
                yield path, content.read()


def _kept(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and ".." not in parts and not path.startswith("/") and path.endswith((".py", "/METADATA"))


def _open(request: urllib.request.Request) -> io.BufferedIOBase:
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
    for attempt in range(_TRIES):
        try:
            return urllib.request.urlopen(request, timeout=120, context=context)
        except urllib.error.URLError as error:
            if attempt == _TRIES - 1:
                raise SetupError(f"{request.full_url}: {error}") from error
    raise AssertionError
