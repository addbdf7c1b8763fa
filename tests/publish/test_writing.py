"""Writing a copy from its pieces, reading it again, and every way in which that can fail."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ckptdoctor.publish.comparing import compare, compare_size
from ckptdoctor.publish.copying import CannotReadError, SourceChangedError, SourceGuard
from ckptdoctor.publish.digests import VerificationError
from ckptdoctor.publish.pieces import Literal, OutputFile, Range, Stream, Zeros, whole
from ckptdoctor.publish.writing import CannotWriteError, guard_of, write_files
from ckptdoctor.text import show

MB = 1 << 20


def ignore(_count: int) -> None:
    pass


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with weights of 3 MB and a config, both of an earlier day and with modes of their own."""
    folder = tmp_path / "source"
    folder.mkdir()
    for number, (name, data) in enumerate(
        {"model.safetensors": random.Random(1).randbytes(3 * MB + 5), "config.json": b"{}", "empty.txt": b""}.items()
    ):
        path = folder / name
        path.write_bytes(data)
        path.chmod(0o640 - number * 0o40)
        os.utime(path, ns=(1_500_000_000_123_456_789 + number, 1_600_000_000_987_654_321 + number))
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "around" / "root"
    folder.mkdir(parents=True)
    return folder


def repaired(source: Path) -> list[OutputFile]:
    """A copy as a repair makes it: new header, renamed weights, unchanged files, a new one in a sub-folder."""
    weights = source / "model.safetensors"
    size = weights.stat().st_size
    return [
        OutputFile(
            "model.safetensors",
            (Literal(b"header"), Range(weights, 100, MB), Zeros(MB + 3), Range(weights, MB + 1, size)),
            like=weights,
            source="model.safetensors",
        ),
        whole("config.json", source / "config.json", 2),
        whole("empty.txt", source / "empty.txt", 0),
        OutputFile("sub/er/new.json", (Literal(b"[1]"), Literal(b""), Zeros(0))),
        OutputFile("sub/stream.bin", (Stream(6, lambda: iter([b"abc", memoryview(b"def")]), weights),)),
    ]


def contents(source: Path) -> dict[str, bytes]:
    data = (source / "model.safetensors").read_bytes()
    return {
        "model.safetensors": b"header" + data[100:MB] + bytes(MB + 3) + data[MB + 1 :],
        "config.json": b"{}",
        "empty.txt": b"",
        "sub/er/new.json": b"[1]",
        "sub/stream.bin": b"abcdef",
    }


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that a run could leave a trace in, but the time of the last reading of folders."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        seen = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, data)
    return found


def descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/dev/fd").iterdir()))


class TestWriting:
    def test_every_piece(self, source: Path, root: Path) -> None:
        told: list[int] = []
        files = repaired(source)
        written = write_files(files, root, told.append)
        expected = contents(source)
        assert {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()} == expected
        assert sum(told) == written.size == sum(map(len, expected.values()))
        assert written.new == len(b"header") + MB + 3 + len(b"[1]") + len(b"abcdef")

    def test_modes_and_times_are_kept(self, source: Path, root: Path) -> None:
        write_files(repaired(source), root, ignore)
        for name in ("model.safetensors", "config.json", "empty.txt"):
            ours, theirs = (root / name).stat(), (source / name).stat()
            assert (ours.st_mode, ours.st_mtime_ns) == (theirs.st_mode, theirs.st_mtime_ns)
            assert ours.st_nlink == 1

    def test_a_program_of_another_user_stays_an_ordinary_file(self, source: Path, root: Path) -> None:
        (source / "config.json").chmod(0o6755)
        write_files(repaired(source), root, ignore)
        assert (root / "config.json").stat().st_mode & 0o7777 == 0o755

    def test_the_source_is_untouched(self, source: Path, root: Path) -> None:
        accessed = {path: path.stat().st_atime_ns for path in source.iterdir()}
        before = state(source)
        for path, at in accessed.items():
            os.utime(path, ns=(at, path.stat().st_mtime_ns))
        before = {name: (*values[:4], None, values[5]) for name, values in before.items()}
        files = repaired(source)
        guard = guard_of(files)
        written = write_files(files, root, ignore, guard)
        compare(files, root, ignore, 10 * MB, written.shared, guard)
        if hasattr(os, "O_NOATIME"):
            assert {path: path.stat().st_atime_ns for path in source.iterdir()} == accessed
        assert {name: (*values[:4], None, values[5]) for name, values in state(source).items()} == before

    @pytest.mark.parametrize("name", ["../out", "/etc/out", "a//b", "", ".", "a/../../b", "a\0b"])
    def test_names_that_lead_elsewhere(self, root: Path, name: str) -> None:
        with pytest.raises(CannotWriteError, match="cannot be the name of a file"):
            write_files([OutputFile(name, (Literal(b"x"),))], root, ignore)
        assert not list(root.iterdir())

    def test_two_files_of_one_name(self, root: Path) -> None:
        with pytest.raises(CannotWriteError, match=r"two files of the copy would have the same name \(same\)"):
            write_files([OutputFile("same", ()), OutputFile("same", ())], root, ignore)

    @pytest.mark.parametrize("chunks", [[b"abc"], [b"abc", b"defg"], []])
    def test_a_stream_that_is_not_as_long_as_it_said(self, source: Path, root: Path, chunks: list[bytes]) -> None:
        file = OutputFile("x", (Stream(6, lambda: iter(chunks), source / "config.json"),))
        with pytest.raises(SourceChangedError, match="holds more or fewer bytes"):
            write_files([file], root, ignore)

    def test_a_stream_that_cannot_be_read(self, source: Path, root: Path) -> None:
        def chunks() -> Iterator[bytes]:
            yield b"abc"
            raise OSError(5, "Input/output error")

        with pytest.raises(CannotReadError, match=r"config.json: cannot be read \(Input/output error\)"):
            write_files([OutputFile("x", (Stream(6, chunks, source / "config.json"),))], root, ignore)

    def test_ctrl_c_leaves_no_descriptor_open(self, source: Path, root: Path) -> None:
        def interrupt(_count: int) -> None:
            raise KeyboardInterrupt

        before = descriptors()
        with pytest.raises(KeyboardInterrupt):
            write_files(repaired(source), root, interrupt)
        assert descriptors() == before

    def test_many_files_need_few_descriptors(self, source: Path, root: Path) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = [OutputFile(f"{n}.json", (Range(source / "config.json", 0, 2),)) for n in range(200)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 40, hard))
        try:
            written = write_files(files, root, ignore)
            compare(files, root, ignore, MB, written.shared)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class TestFailing:
    @pytest.mark.parametrize("how", ["append", "truncate", "replace", "touch"])
    def test_the_source_changes_between_its_pieces(self, source: Path, root: Path, how: str) -> None:
        weights = source / "model.safetensors"
        files = repaired(source)
        guard = guard_of(files)
        changed = False

        def progress(_count: int) -> None:
            nonlocal changed
            if changed:
                return
            changed = True
            match how:
                case "append":
                    with weights.open("ab") as file:
                        file.write(b"x")
                case "truncate":
                    os.truncate(weights, 10)
                case "replace":
                    shutil.copy2(weights, weights.with_name("twin"))
                    weights.with_name("twin").rename(weights)
                case "touch":
                    os.utime(weights)

        with pytest.raises(SourceChangedError, match=r"model\.safetensors: (was changed|became shorter)") as caught:
            write_files(files, root, progress, guard)
        assert caught.value.exit_code == 3

    def test_the_source_changed_since_the_plan_was_made(self, source: Path, root: Path) -> None:
        weights = source / "model.safetensors"
        guard = SourceGuard([weights, source / "config.json", source / "empty.txt"])
        os.truncate(weights, 4 * MB)
        with pytest.raises(SourceChangedError):
            write_files(repaired(source), root, ignore, guard)

    def test_no_space_left(self, source: Path) -> None:
        place = Path(tempfile.mkdtemp())
        if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", place]).returncode:
            place.rmdir()
            pytest.skip("a small disk can only be mounted by root")
        try:
            root = place / "root"
            root.mkdir()
            with pytest.raises(CannotWriteError) as caught:
                write_files(repaired(source), root, ignore)
        finally:
            subprocess.run(["umount", place], check=True)
            place.rmdir()
        assert str(caught.value).startswith(f"{show(place)}: no space left; the copy needs ")
        assert caught.value.exit_code == 3

    @pytest.mark.parametrize("kernel", [True, False])
    def test_a_limit_on_the_size_of_files(
        self, source: Path, root: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
    ) -> None:
        if not kernel:
            monkeypatch.delattr(os, "copy_file_range", raising=False)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MB, hard))
        try:
            with pytest.raises(CannotWriteError, match="ulimit -f"):
                write_files(repaired(source), root, ignore)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def test_a_folder_that_may_not_be_written_to(self, source: Path, root: Path) -> None:
        root.chmod(0o500)
        if os.access(root, os.W_OK):
            pytest.skip("nothing is forbidden to root")
        with pytest.raises(CannotWriteError, match="permission denied"):
            write_files(repaired(source), root, ignore)

    def test_a_source_on_a_disk_that_is_mounted_read_only(self, source: Path, root: Path) -> None:
        """In a name space of its own, so that nothing of it stays."""
        program = """
import sys
from pathlib import Path
from ckptdoctor.publish.comparing import compare
from ckptdoctor.publish.pieces import whole
from ckptdoctor.publish.writing import write_files
source, root = map(Path, sys.argv[1:])
try:
    (source / "new").touch()
except OSError:
    pass
else:
    sys.exit("it can be written to")
files = [whole(path.name, path, path.stat().st_size) for path in source.iterdir()]
written = write_files(files, root, lambda count: None)
compare(files, root, lambda count: None, 1 << 30, written.shared)
"""
        script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 77; exec "$2" -c "$3" "$1" "$4"'
        if not shutil.which("unshare"):
            pytest.skip("no unshare")
        flags = "-m" if os.geteuid() == 0 else "-Urm"
        if subprocess.run(["unshare", flags, "true"], capture_output=True).returncode:
            pytest.skip("no name spaces here")
        before = state(source)
        run = subprocess.run(
            ["unshare", flags, "sh", "-c", script, "sh", source, sys.executable, program, root],
            capture_output=True, text=True,
        )  # fmt: skip
        if run.returncode == 77:
            pytest.skip("mounting is not possible here")
        assert (run.returncode, run.stderr) == (0, "")
        assert state(source) == before
        assert (root / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()


class TestComparing:
    def test_digests_of_both_sides(self, source: Path, root: Path) -> None:
        files = repaired(source)
        guard = guard_of(files)
        write_files(files, root, ignore, guard)
        told: list[int] = []
        result = compare(files, root, told.append, 10 * MB, guard=guard)
        expected = contents(source)
        assert {f.name: (f.size, f.sha256) for f in result.files} == {n: (len(d), sha(d)) for n, d in expected.items()}
        assert {s.path.name: s.sha256 for s in result.sources} == {
            "model.safetensors": sha((source / "model.safetensors").read_bytes()),
            "config.json": sha(b"{}"),
        }
        assert result.compared == sum(map(len, expected.values()))
        assert sum(told) == compare_size(files, 10 * MB, guard)

    def test_large_files_are_compared_without_a_digest(self, source: Path, root: Path) -> None:
        files = repaired(source)
        guard = guard_of(files)
        write_files(files, root, ignore, guard)
        told: list[int] = []
        result = compare(files, root, told.append, MB, guard=guard)
        assert [f.sha256 is None for f in result.files] == [True, False, False, False, False]
        assert [s.sha256 is None for s in result.sources] == [True, False]
        assert result.compared == sum(file.size for file in files)
        assert sum(told) == compare_size(files, MB, guard)

    @pytest.mark.parametrize("limit", [0, 10 * MB])
    @pytest.mark.parametrize("at", [0, 5, 6, MB - 95, MB, 2 * MB, 4 * MB - 100, -1])
    def test_one_other_byte_is_found(self, source: Path, root: Path, limit: int, at: int) -> None:
        files = repaired(source)
        write_files(files, root, ignore)
        path = root / "model.safetensors"
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)
        with pytest.raises(VerificationError, match=r"model\.safetensors: the copy .* differs") as caught:
            compare(files, root, ignore, limit)
        assert caught.value.exit_code == 3

    @pytest.mark.parametrize("name", ["sub/stream.bin", "sub/er/new.json", "config.json"])
    def test_every_kind_of_file_is_compared(self, source: Path, root: Path, name: str) -> None:
        files = repaired(source)
        write_files(files, root, ignore)
        data = (root / name).read_bytes()
        (root / name).write_bytes(data[:-1] + b"!")
        with pytest.raises(VerificationError):
            compare(files, root, ignore, 0)
        (root / name).write_bytes(data + b"!")
        with pytest.raises(VerificationError):
            compare(files, root, ignore, MB)
        (root / name).unlink()
        with pytest.raises(VerificationError, match="No such file"):
            compare(files, root, ignore, MB)

    def test_shared_spans_are_left_out_but_hashed(self, source: Path, root: Path) -> None:
        files = repaired(source)
        write_files(files, root, ignore)
        shared = {"model.safetensors": ((4096, MB // 2), (2 * MB, 3 * MB))}
        for limit in (0, 10 * MB):
            result = compare(files, root, ignore, limit, shared)
            left_out = MB // 2 - 4096 + MB
            assert result.compared == sum(file.size for file in files) - left_out
        assert result.files[0].sha256 == sha(contents(source)["model.safetensors"])

    def test_a_source_that_changed_is_not_compared_with(self, source: Path, root: Path) -> None:
        files = repaired(source)
        guard = guard_of(files)
        write_files(files, root, ignore, guard)
        os.utime(source / "model.safetensors")
        with pytest.raises(SourceChangedError):
            compare(files, root, ignore, 0, guard=guard)
