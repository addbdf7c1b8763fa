"""Copying ranges: the same bytes whichever way they go, and a source that is watched and left as it is."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.publish.copying import CannotReadError, Copied, SourceChangedError, SourceGuard, copy_range

BLOCK = 4096
SIZE = 5 * BLOCK + 123
SHM = Path("/dev/shm")


def ignore(_count: int) -> None:
    pass


def copied(source: Path, start: int, end: int, dest: Path, offset: int) -> Copied:
    """Copies into the existing or new file `dest`; holds the count, the progress and the bytes to what they must be."""
    told: list[int] = []
    reading, writing = os.open(source, os.O_RDONLY), os.open(dest, os.O_RDWR | os.O_CREAT)
    try:
        result = copy_range(reading, start, end, writing, offset, told.append)
    finally:
        os.close(reading)
        os.close(writing)
    assert sum(told) == end - start == result.reflinked + result.kernel + result.buffered
    assert dest.read_bytes()[offset : offset + end - start] == source.read_bytes()[start:end]
    return result


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "file"
    path.write_bytes(random.Random(4).randbytes(SIZE))
    return path


@pytest.fixture
def other_disk() -> Iterator[Path]:
    """A folder on another file system than the temporary one."""
    if not SHM.is_dir() or SHM.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("no second file system")
    folder = Path(tempfile.mkdtemp(dir=SHM))
    yield folder
    shutil.rmtree(folder)


@given(st.integers(0, SIZE), st.integers(0, SIZE), st.integers(0, 2 * BLOCK))
def test_any_range_at_any_place(source: Path, one: int, two: int, offset: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copied(source, min(one, two), max(one, two), Path(folder) / "copy", offset)


def test_bytes_around_the_range_stay(source: Path, tmp_path: Path) -> None:
    dest = tmp_path / "copy"
    dest.write_bytes(b"a" * SIZE)
    copied(source, 10, 5000, dest, 100)
    assert dest.read_bytes()[:100] == b"a" * 100
    assert dest.read_bytes()[100 + 4990 :] == b"a" * (SIZE - 100 - 4990)


def test_never_a_hard_link(source: Path, tmp_path: Path) -> None:
    copied(source, 0, SIZE, tmp_path / "copy", 0)
    assert source.stat().st_nlink == (tmp_path / "copy").stat().st_nlink == 1


def test_to_another_file_system_through_the_buffer(source: Path, other_disk: Path) -> None:
    assert copied(source, 0, SIZE, other_disk / "copy", 0).buffered == SIZE
    assert copied(source, 77, SIZE - 5, other_disk / "more", 3).buffered == SIZE - 82


def test_without_a_kernel_call(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "copy_file_range", raising=False)
    assert copied(source, 1, SIZE, tmp_path / "copy", 0).kernel == 0


def test_more_than_the_buffer_at_once(tmp_path: Path, other_disk: Path) -> None:
    source = tmp_path / "large"
    source.write_bytes(random.Random(5).randbytes((5 << 20) + 17))
    assert copied(source, 3, (5 << 20) + 17, other_disk / "copy", 9).buffered == (5 << 20) + 14


@pytest.mark.parametrize("kernel", [True, False])
def test_a_source_that_is_too_short(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    if not kernel:
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    reading, writing = os.open(source, os.O_RDONLY), os.open(tmp_path / "copy", os.O_RDWR | os.O_CREAT)
    with pytest.raises(SourceChangedError, match="drafts/one: became shorter"):
        copy_range(reading, 0, SIZE + 1, writing, 0, ignore, "drafts/one")
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("kind", ["btrfs", "xfs"])
def test_reflinks(kind: str, tmp_path: Path) -> None:
    if os.geteuid() or not shutil.which(f"mkfs.{kind}"):
        pytest.skip(f"a {kind} image can only be mounted by root, with mkfs.{kind}")
    image, place = tmp_path / "image", tmp_path / "mounted"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(320 << 20)
    made = subprocess.run([f"mkfs.{kind}", "-q", str(image)], capture_output=True)
    if (
        made.returncode
        or subprocess.run(["mount", "-o", "loop", str(image), str(place)], capture_output=True).returncode
    ):
        pytest.skip(f"{kind} cannot be mounted here")
    try:
        source = place / "source"
        source.write_bytes(random.Random(6).randbytes(SIZE))
        assert copied(source, 0, SIZE, place / "whole", 0) == Copied(reflinked=SIZE, shared=((0, SIZE),))
        moved = copied(source, 100, SIZE, place / "moved", 100 + 2 * BLOCK)
        assert moved.shared == ((3 * BLOCK, SIZE + 2 * BLOCK),)
        assert moved.reflinked == SIZE - BLOCK
        inner = copied(source, 100, SIZE - 100, place / "inner", 100)
        assert inner.shared == ((BLOCK, 5 * BLOCK),)
        assert copied(source, 100, SIZE, place / "apart", 108).reflinked == 0
        # What shares blocks is still two files.
        with (place / "whole").open("r+b") as file:
            file.write(b"changed")
        assert source.read_bytes() == random.Random(6).randbytes(SIZE)
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_constant_memory(tmp_path: Path) -> None:
    program = """
import os, resource, sys
from pathlib import Path
from ckptdoctor.publish.copying import copy_range
source, dest = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)
if sys.argv[3] == "buffer" and hasattr(os, "copy_file_range"):
    del os.copy_file_range
copy_range(source, 1, 300 << 20, dest, 0, lambda count: None)
# getrusage would also count the process of the tests, from which this one was forked.
status = Path("/proc/self/status")
if status.exists():
    print(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")))
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""
    source = tmp_path / "sparse"
    with source.open("wb") as file:
        file.truncate(300 << 20)
    for way in ("kernel", "buffer"):
        run = subprocess.run(
            [sys.executable, "-c", program, str(source), str(tmp_path / way), way],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert int(run.stdout) < 120 << 10


class TestGuard:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "weights"
        path.write_bytes(b"0123456789")
        return path

    def test_an_unchanged_file(self, path: Path) -> None:
        guard = SourceGuard([path])
        with guard.open(path) as descriptor:
            assert os.read(descriptor, 10) == b"0123456789"
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.write(descriptor, b"x")
        guard.check()
        assert path in guard
        assert guard.remembered(path).st_size == 10

    @pytest.mark.parametrize("how", ["append", "truncate", "overwrite", "replace", "touch", "remove", "link", "folder"])
    def test_a_changed_file(self, path: Path, how: str) -> None:
        guard = SourceGuard({path: path.stat()})
        change(path, how)
        with pytest.raises(SourceChangedError, match="weights: was changed while it was read; nothing was written"):
            guard.check()
        with pytest.raises(SourceChangedError), guard.open(path):
            pass

    def test_the_same_bytes_in_another_file_are_a_change(self, path: Path) -> None:
        guard, seen = SourceGuard([path]), path.stat()
        twin = path.with_name("twin")
        twin.write_bytes(path.read_bytes())
        os.utime(twin, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        twin.rename(path)
        with pytest.raises(SourceChangedError):
            guard.check()

    def test_what_is_no_file(self, path: Path) -> None:
        with pytest.raises(CannotReadError, match="not a regular file"):
            SourceGuard([path.parent])
        with pytest.raises(CannotReadError, match="No such file"):
            SourceGuard([path.with_name("none")])

    def test_reading_leaves_no_trace(self, path: Path) -> None:
        os.utime(path, ns=(10**18, 10**18))
        before = path.stat()
        guard = SourceGuard([path])
        with guard.open(path) as descriptor:
            os.read(descriptor, 10)
        after = path.stat()
        assert (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
        if hasattr(os, "O_NOATIME"):
            assert after.st_atime_ns == before.st_atime_ns


def change(path: Path, how: str) -> None:
    """Changes the file `path` in the named way."""
    match how:
        case "append":
            with path.open("ab") as file:
                file.write(b"x")
        case "truncate":
            os.truncate(path, path.stat().st_size // 2)
        case "overwrite":
            with path.open("r+b") as file:
                file.write(b"x")
        case "replace":
            twin = path.with_name("twin")
            twin.write_bytes(path.read_bytes())
            twin.rename(path)
        case "touch":
            os.utime(path)
        case "remove":
            path.unlink()
        case "link":
            path.rename(path.with_name("moved"))
            path.symlink_to("moved")
        case "folder":
            path.unlink()
            path.mkdir()
