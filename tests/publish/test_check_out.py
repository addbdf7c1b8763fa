"""Where a copy may go."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ckptdoctor.errors import UsageError
from ckptdoctor.publish.publishing import Staging, check_out
from ckptdoctor.publish.writing import CannotWriteError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    folder.chmod(0o750)
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestCheckOut:
    def test_a_new_name_and_an_empty_folder(self, source: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (place / "empty").mkdir()
        monkeypatch.chdir(place)
        real = place.resolve()
        for out in ("new", "./new", "new/", "empty/../new", str(place / "new")):
            assert check_out(source, out) == real / "new"
        for out in ("empty", "empty/", str(place / "empty")):
            assert check_out(source, out) == real / "empty"
        (place / "to-empty").symlink_to("empty")
        assert check_out(source, "to-empty") == real / "empty"
        (place / "around").symlink_to(".")
        assert check_out(source, "around/new") == real / "new"
        assert names(place) == ["around", "empty", "to-empty"]

    @pytest.mark.parametrize(
        ("out", "why"),
        [
            ("", "--out is empty"),
            ("hf://org/name", "a local folder, not to a URL"),
            ("source", "is the source itself"),
            ("source/", "is the source itself"),
            ("source/sub/..", "is the source itself"),
            ("link-to-source", "is the source itself"),
            ("source/new", "is inside the source"),
            ("source/sub", "is inside the source"),
            ("source/sub/new", "is inside the source"),
            ("link-to-source/new", "is inside the source"),
            ("link-to-sub/new", "is inside the source"),
            ("link-to-sub", "is inside the source"),
            (".", "exists and is not empty"),
            ("full", "exists and is not empty"),
            ("file", "exists and is not a folder"),
            ("link-to-file", "exists and is not a folder"),
            ("dangling", "is a link that leads nowhere"),
            ("loop", "is a link that leads nowhere"),
            ("none/new", "the folder none does not exist"),
            ("dangling/new", "the folder dangling does not exist"),
            ("file/new", "cannot be the place of the copy"),
            ("a\0b", "cannot be the place of the copy"),
            ("x" * 300, "cannot be the place of the copy"),
        ],
    )
    def test_refused(self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, why: str) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "x").touch()
        (tmp_path / "file").touch()
        for link, to in (
            ("source", "source"), ("sub", "source/sub"), ("file", "file"), ("nowhere", "nowhere"),
        ):  # fmt: skip
            (tmp_path / f"link-to-{link}").symlink_to(to)
        (tmp_path / "link-to-nowhere").rename(tmp_path / "dangling")
        (tmp_path / "loop").symlink_to("loop")
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(UsageError) as caught:
            check_out(source, out)
        assert why in str(caught.value)
        assert caught.value.exit_code == 2
        assert sorted(tmp_path.rglob("*")) == before

    def test_the_source_by_another_mount(self, source: Path, place: Path) -> None:
        if os.geteuid() or subprocess.run(["mount", "--bind", source, place], capture_output=True).returncode:
            pytest.skip("mounting is for root")
        try:
            with pytest.raises(UsageError, match="is the source itself"):
                check_out(source, str(place))
            with pytest.raises(UsageError, match="is inside the source"):
                check_out(source, str(place / "new"))
        finally:
            subprocess.run(["umount", place], check=True)

    def test_an_empty_disk_and_one_that_is_read_only(self, source: Path, place: Path) -> None:
        if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", place]).returncode:
            pytest.skip("mounting is for root")
        try:
            with pytest.raises(UsageError, match="is a mount point"):
                check_out(source, str(place))
            with pytest.raises(CannotWriteError, match="cannot be written to") as caught:
                check_out(source, str(place / "new"))
            assert caught.value.exit_code == 3
            with pytest.raises(CannotWriteError, match="read-only"), Staging(place / "new"):
                pass
        finally:
            subprocess.run(["umount", place], check=True)

    def test_a_folder_that_may_not_be_written_to(self, source: Path, place: Path) -> None:
        place.chmod(0o500)
        if os.access(place, os.W_OK):
            pytest.skip("nothing is forbidden to root")
        with pytest.raises(CannotWriteError):
            check_out(source, str(place / "new"))
