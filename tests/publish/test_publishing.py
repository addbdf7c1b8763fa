"""Where a copy may go, and that it gets there whole or not at all."""

from __future__ import annotations

import fcntl
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from ckptdoctor.errors import UsageError
from ckptdoctor.publish.publishing import Staging, check_out, clear_leftovers
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


def fill(staging: Staging, text: str = "copy") -> None:
    (staging.root / "config.json").write_text(text)


def _as_on_a_terminal() -> None:
    """A shell's background and nohup start their children with some signals ignored."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


class TestStaging:
    def test_published(self, source: Path, place: Path) -> None:
        out = place / "new"
        with Staging(out) as staging:
            assert staging.root.parent.parent == place
            assert staging.root.parent.stat().st_mode & 0o777 == 0o700
            fill(staging)
            assert not out.exists()
            staging.publish(source)
        assert names(place) == ["new"]
        assert names(out) == ["config.json"]
        assert out.stat().st_mode & 0o777 == 0o750

    def test_into_an_empty_folder(self, source: Path, place: Path) -> None:
        out = place / "new"
        out.mkdir()
        with Staging(out) as staging:
            fill(staging)
            staging.publish(source)
        assert (names(place), names(out)) == (["new"], ["config.json"])

    def test_the_owner_may_write_to_a_copy_of_a_read_only_folder(self, source: Path, place: Path) -> None:
        source.chmod(0o555)
        with Staging(place / "new") as staging:
            fill(staging)
            staging.publish(source)
        assert (place / "new").stat().st_mode & 0o777 == 0o755

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
    def test_nothing_stays_after_an_exception(self, place: Path, error: type[BaseException]) -> None:
        with pytest.raises(error), Staging(place / "new") as staging:  # noqa: PT012
            fill(staging)
            raise error
        assert names(place) == []

    def test_nothing_stays_without_publication(self, place: Path) -> None:
        with Staging(place / "new") as staging:
            fill(staging)
        assert names(place) == []

    @pytest.mark.parametrize("kind", ["folder", "file", "dangling link", "link to an empty folder"])
    def test_something_came_in_the_way(self, source: Path, place: Path, tmp_path: Path, kind: str) -> None:
        out = place / "new"
        (tmp_path / "empty").mkdir()
        with (  # noqa: PT012
            pytest.raises(CannotWriteError, match="something else was put there in the meantime") as caught,
            Staging(out) as staging,
        ):
            fill(staging)
            match kind:
                case "folder":
                    out.mkdir()
                    (out / "theirs").touch()
                case "file":
                    out.touch()
                case "dangling link":
                    out.symlink_to("nowhere")
                case _:
                    out.symlink_to(tmp_path / "empty")
            staging.publish(source)
        assert caught.value.exit_code == 3
        assert names(place) == ["new"]
        assert names(tmp_path / "empty") == []
        if kind == "folder":
            assert names(out) == ["theirs"]

    def test_the_longest_names(self, source: Path, place: Path) -> None:
        for name in ("x" * 255, "ü" * 127, "\udcff" * 255):
            try:
                (place / name).mkdir()
            except OSError:
                continue  # this file system takes fewer, or none that are not text
            out = check_out(source, str(place / name))
            with Staging(out) as staging:
                fill(staging)
                staging.publish(source)
            assert names(out) == ["config.json"]
            shutil.rmtree(out)
        assert names(place) == []

    def test_two_at_once(self, source: Path, place: Path) -> None:
        """One wins; the other says so and leaves nothing. Neither takes the other for dead."""
        out, together = place / "new", threading.Barrier(2, timeout=60)
        ends: list[str] = []

        def run(name: str) -> None:
            try:
                with Staging(out) as staging:
                    fill(staging, name)
                    together.wait()
                    clear_leftovers(out)
                    together.wait()
                    staging.publish(source)
                    ends.append(name)
            except CannotWriteError as error:
                ends.append(str(error))

        threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        won = (out / "config.json").read_text()
        assert names(place) == ["new"]
        assert won in ("one", "two")
        assert sorted(ends, key=len)[0] == won
        assert "something else was put there" in sorted(ends, key=len)[1]

    def test_many_begin_and_end_at_once(self, place: Path) -> None:
        """However runs that begin, end and clear up are mixed, none loses its folder."""
        errors: list[BaseException] = []

        def run(number: int) -> None:
            try:
                for turn in range(20):
                    out = place / "new"
                    with Staging(out) as staging:
                        fill(staging, f"{number} {turn}")
                        assert (staging.root / "config.json").read_text() == f"{number} {turn}"
            except BaseException as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (errors, names(place)) == ([], [])

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
    def test_ended_by_a_signal(self, place: Path, number: signal.Signals) -> None:
        program = """
import sys, time
from pathlib import Path
from ckptdoctor.publish.publishing import Staging
with Staging(Path(sys.argv[1])) as staging:
    (staging.root / "half").touch()
    print("ready", flush=True)
    time.sleep(60)
"""
        with subprocess.Popen(
            [sys.executable, "-c", program, place / "new"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=_as_on_a_terminal,  # noqa: PLW1509  # no threads here
        ) as run:  # fmt: skip
            assert run.stdout is not None
            assert run.stdout.readline() == b"ready\n"
            run.send_signal(number)
            run.communicate()
        assert run.returncode in (128 + number, -number)
        assert names(place) == []

    def test_signals_are_as_before_afterwards(self, place: Path) -> None:
        before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
        with Staging(place / "new"):
            pass
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before


class TestLeftovers:
    @pytest.fixture
    def left(self, place: Path) -> Path:
        """What a killed run leaves behind."""
        program = """
import os, signal, sys
from pathlib import Path
from ckptdoctor.publish.publishing import Staging
with Staging(Path(sys.argv[1])) as staging:
    (staging.root / "half").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""
        subprocess.run([sys.executable, "-c", program, place / "new"])
        (folder,) = place.iterdir()
        return folder

    def test_gone_with_the_next_run(self, source: Path, place: Path, left: Path) -> None:
        with Staging(place / "new") as staging:
            assert not left.exists()
            fill(staging)
            staging.publish(source)
        assert names(place) == ["new"]

    def test_gone_also_when_the_next_run_is_refused(self, source: Path, place: Path, left: Path) -> None:
        (place / "new").mkdir()
        (place / "new" / "x").touch()
        with pytest.raises(UsageError, match="not empty"):
            check_out(source, str(place / "new"))
        assert not left.exists()

    def test_not_that_of_another_name(self, place: Path, left: Path) -> None:
        clear_leftovers(place / "old")
        clear_leftovers(place / "ne")
        assert left.exists()

    def test_not_that_of_a_living_run(self, place: Path, left: Path) -> None:
        with next(path for path in left.iterdir() if path.is_file()).open("r+") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX)
            clear_leftovers(place / "new")
            assert (left / "copy" / "half").exists()
        clear_leftovers(place / "new")
        assert not left.exists()

    def test_not_that_of_another_machine(self, place: Path, left: Path) -> None:
        marker = next(path for path in left.iterdir() if path.is_file())
        marker.write_text(marker.read_text().splitlines()[0] + "\nelsewhere 1234\n")
        clear_leftovers(place / "new")
        assert (left / "copy" / "half").exists()

    def test_not_what_only_looks_like_ours(self, place: Path) -> None:
        theirs = place / ".new.ckptdoctor-abcdefgh"
        theirs.mkdir()
        (theirs / "precious").touch()
        (place / ".new.ckptdoctor-12345678").symlink_to(theirs)
        (place / ".new.ckptdoctor-87654321").touch()
        before = sorted(place.rglob("*"))
        clear_leftovers(place / "new")
        assert sorted(place.rglob("*")) == before

    def test_links_are_not_followed(self, place: Path, left: Path, tmp_path: Path) -> None:
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious" / "file").touch()
        (left / "copy" / "link").symlink_to(tmp_path / "precious")
        shutil.move(left / "copy", left / "other")
        (left / "copy").symlink_to(tmp_path / "precious")
        clear_leftovers(place / "new")
        assert (tmp_path / "precious" / "file").exists()

    def test_a_folder_that_a_run_was_killed_before_marking(self, place: Path) -> None:
        Path(tempfile.mkdtemp(prefix=".new.ckptdoctor-", dir=place))
        clear_leftovers(place / "new")
        assert names(place) == []
