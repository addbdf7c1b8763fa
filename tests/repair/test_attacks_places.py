"""Attacks on receipts, places and sources of a repair."""

from __future__ import annotations

import base64
import errno
import json
import os
import signal
import subprocess
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from repair_drafts import contents

from ckptdoctor.checkpoint import jsonscan, read_json
from ckptdoctor.errors import CannotExamineError, CkptdoctorError, UsageError
from ckptdoctor.publish import publishing
from ckptdoctor.publish.comparing import compare
from ckptdoctor.publish.digests import VerificationError
from ckptdoctor.publish.pieces import OutputFile, Range
from ckptdoctor.publish.publishing import Staging, check_out
from ckptdoctor.publish.writing import CannotWriteError, write_files
from ckptdoctor.repair.fixing import fix
from ckptdoctor.repair.receipt_reading import RECEIPT_NAME
from ckptdoctor.repair.undo import undo
from ckptdoctor.report import surface_for


class TestReceipts:
    """Receipts that no repair writes."""

    Change = Callable[[dict[str, Any]], None]

    @staticmethod
    def keeps_too_much(receipt: dict[str, Any]) -> None:
        lines = [base64.b64encode(zlib.compress(bytes(4 << 20))).decode()]
        row = receipt["undo"]["files"][0]
        row |= {"size": 400 << 20, "sha256": None, "pieces": [{"kept": lines, "length": 4 << 20}] * 100}

    @staticmethod
    def no_name_of_a_file(receipt: dict[str, Any]) -> None:
        receipt["undo"]["files"][0]["name"] = "\ud800"

    @staticmethod
    def folder_in_a_file(receipt: dict[str, Any]) -> None:
        receipt["undo"]["folders"] = ["config.json/sub"]

    @staticmethod
    def folder_with_a_long_name(receipt: dict[str, Any]) -> None:
        receipt["undo"]["folders"] = ["n" * 300]

    @staticmethod
    def folders_without_end(receipt: dict[str, Any]) -> None:
        receipt["undo"]["folders"] = ["/".join("d" * 1900)]

    @pytest.mark.parametrize(
        "change",
        [keeps_too_much, no_name_of_a_file, folder_in_a_file, folder_with_a_long_name, folders_without_end],
    )
    def test_write_nothing(self, source: Path, place: Path, change: Change) -> None:
        self.receipt_of(source, place, change)
        with pytest.raises(CkptdoctorError) as caught:
            undo(place / "new", place / "old")
        assert caught.value.exit_code == 3
        assert [path.name for path in place.iterdir()] == ["new"]

    def test_of_a_newer_tool_say_so(self, source: Path, place: Path) -> None:
        self.receipt_of(source, place, lambda receipt: receipt.update(schema_version=2))
        with pytest.raises(UsageError, match="written by a newer ckptdoctor"):
            undo(place / "new", place / "old")

    def test_with_whole_numbers_as_floats(self, source: Path, place: Path) -> None:
        def floats(receipt: dict[str, Any]) -> None:
            for row in receipt["undo"]["files"]:
                row["mode"], row["size"] = float(row["mode"]), float(row["size"])
                for piece in row["pieces"]:
                    piece |= {key: float(value) for key, value in piece.items() if isinstance(value, int)}

        self.receipt_of(source, place, floats)
        undo(place / "new", place / "old")
        assert contents(place / "old") == contents(source)

    def test_may_hold_more_values_than_a_config(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jsonscan, "MAX_STEPS", 100)
        text = json.dumps(list(range(300))).encode()
        assert not read_json(text, "config.json").readable
        assert read_json(text, RECEIPT_NAME, room=4).readable

    @staticmethod
    def receipt_of(source: Path, place: Path, change: Change) -> None:
        fix(source, place / "new")
        path = place / "new" / RECEIPT_NAME
        receipt = json.loads(path.read_text())
        change(receipt)
        path.write_text(json.dumps(receipt))


class TestPlaces:
    """Where a copy may not go, and what happens when its place does not take it."""

    def test_not_the_folder_that_one_is_in(self, source: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(place)
        with pytest.raises(UsageError, match="the folder that you are in"):
            check_out(source, ".")

    def test_not_the_blobs_of_a_cache(self, tmp_path: Path) -> None:
        cache = tmp_path / "models--a--b"
        (cache / "blobs").mkdir(parents=True)
        (cache / "snapshots" / "revision").mkdir(parents=True)
        with pytest.raises(UsageError, match="inside the source"):
            check_out(cache / "snapshots" / "revision", str(cache / "blobs" / "new"))

    def test_a_dangling_link_with_a_slash(self, source: Path, place: Path) -> None:
        (place / "link").symlink_to("nowhere")
        with pytest.raises(UsageError, match="a link that leads nowhere"):
            check_out(source, f"{place / 'link'}/")

    @pytest.mark.parametrize(("number", "there"), [(errno.EACCES, True), (errno.EIO, False)])
    def test_a_disk_that_does_not_confirm_the_name(
        self, source: Path, place: Path, monkeypatch: pytest.MonkeyPatch, number: int, there: bool
    ) -> None:
        sync = publishing.sync_folder

        def fails(folder: Path) -> None:
            if folder == place:
                raise OSError(number, os.strerror(number))
            sync(folder)

        monkeypatch.setattr(publishing, "sync_folder", fails)
        if there:  # a folder that may be written to and not listed
            fix(source, place / "new")
        else:
            with pytest.raises(CannotWriteError):
                fix(source, place / "new")
        assert [path.name for path in place.iterdir()] == ["new"] * there

    def test_ctrl_c_while_clearing_up(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        remove = publishing._remove

        def interrupted(folder: Path) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            remove(folder)

        monkeypatch.setattr(publishing, "_remove", interrupted)
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            pytest.skip("Ctrl-C is not Python's own here")
        with Staging(place / "new"):
            pass
        assert not list(place.iterdir())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def test_folders_without_files_on_a_full_disk(self, tmp_path: Path) -> None:
        files: Sequence[OutputFile] = [OutputFile("name", ())]
        with pytest.raises(CannotWriteError, match="the same name"):
            write_files(files, tmp_path, lambda _: None, folders=["name/sub"])


class TestSources:
    """Sources that are not copied, and why."""

    def test_folders_without_end(self, source: Path, place: Path) -> None:
        here = Path.cwd()
        try:
            os.chdir(source)
            for _ in range(1100):
                Path("d").mkdir()
                os.chdir("d")
        finally:
            os.chdir(here)
        with pytest.raises(CannotExamineError, match="nested more than 64 deep"):
            fix(source, place / "new")
        subprocess.run(["rm", "-r", source], check=True)  # deeper than Python can go

    def test_changed_while_the_repairs_were_found(
        self, source: Path, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from ckptdoctor.repair import fixing

        plan = fixing.plan_repair

        def slow(*words: Any) -> Any:
            found = plan(*words)
            os.truncate(source / "model.safetensors", 0)
            return found

        monkeypatch.setattr(fixing, "plan_repair", slow)
        with pytest.raises(CkptdoctorError, match=r"model\.safetensors: was changed while it was read"):
            fix(source, place / "new", select=["ART001"])
        assert not list(place.iterdir())


def test_a_comparison_on_a_disk_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "root").mkdir()
    files = [OutputFile("config.json", (Range(tmp_path / "config.json", 0, 2),))]
    write_files(files, tmp_path / "root", lambda _: None)
    real = os.preadv

    def broken(descriptor: int, buffers: Any, at: int) -> int:
        if os.fstat(descriptor).st_ino == (tmp_path / "root" / "config.json").stat().st_ino:
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, buffers, at)

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(VerificationError, match="cannot be read again"):
        compare(files, tmp_path / "root", lambda _: None, 1 << 20)


def test_no_way_back_is_promised_where_there_is_none(
    source: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ckptdoctor.repair import way_back
    from ckptdoctor.report.fix.as_text import fix_lines
    from ckptdoctor.report.terminal.render import render_lines

    def told(out: Path) -> str:
        return render_lines(fix_lines(fix(source, out), str(out), None), surface_for(None, "never"))

    assert "--undo" in told(place / "new")
    monkeypatch.setattr(way_back, "KEEP_LIMIT", 1)
    assert "--undo" not in told(place / "other")
    with pytest.raises(CannotExamineError, match="bytes of it are gone"):
        undo(place / "other", place / "old")
