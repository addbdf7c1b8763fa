"""A copy is compared with its source, and every way in which that can fail."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
from written_copies import MB, contents, repaired

from ckptdoctor.publish.comparing import compare, compare_size
from ckptdoctor.publish.copying import SourceChangedError
from ckptdoctor.publish.digests import VerificationError
from ckptdoctor.publish.writing import guard_of, write_files


def ignore(_count: int) -> None:
    pass


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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
