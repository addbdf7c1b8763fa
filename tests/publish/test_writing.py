"""Writing a copy from its pieces, reading it again, and every way in which that can fail."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from written_copies import MB, contents, repaired

from ckptdoctor.publish.comparing import compare
from ckptdoctor.publish.copying import CannotReadError, SourceChangedError, SourceGuard
from ckptdoctor.publish.pieces import Literal, OutputFile, Range, Stream
from ckptdoctor.publish.writing import CannotWriteError, guard_of, write_files
from ckptdoctor.text import show


def ignore(_count: int) -> None:
    pass


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
