"""Which files are opened at all: links, pipes, caches, odd names, and paths of every kind."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoint_files import folder, hub_entry, kinds, refusal, sound

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.checkpoint.folder import FILE_LIMIT, Folder, is_plain_name
from ckptdoctor.errors import CannotExamineError


def test_a_plain_folder(tmp_path: Path) -> None:
    folder(tmp_path, model__safetensors=sound("a"), config__json="{}", README__md="x")
    checkpoint = open_checkpoint(f"{tmp_path}/")
    assert list(checkpoint.tensors) == ["a"]
    assert checkpoint.faults == ()
    assert checkpoint.whole_folder
    assert checkpoint.names_sound
    assert checkpoint.names_in_folder() == ("README.md", "config.json", "model.safetensors")
    assert checkpoint.size == len(sound("a"))


@pytest.mark.parametrize("ending", ["", "/"])
def test_a_file_given_directly(tmp_path: Path, ending: str) -> None:
    folder(tmp_path, model__safetensors=sound("a"), other__safetensors=sound("b"), config__json='{"k": 1}')
    checkpoint = open_checkpoint(f"{tmp_path / 'other.safetensors'}{ending}")
    assert list(checkpoint.tensors) == ["b"]
    assert not checkpoint.whole_folder
    assert checkpoint.config is not None
    assert checkpoint.config.object == {"k": 1}


@pytest.mark.parametrize(
    "part", ["", "snapshots/abc", "snapshots/abc/model.safetensors", "snapshots/abc/sub", "blobs/w1"]
)
def test_a_download_cache(tmp_path: Path, part: str) -> None:
    checkpoint = open_checkpoint(str(hub_entry(tmp_path) / part))
    assert list(checkpoint.tensors) == ["a"]
    assert checkpoint.faults == ()


def test_a_cache_with_several_snapshots_uses_main_or_asks(tmp_path: Path) -> None:
    place = hub_entry(tmp_path, ("abc", "def"), "def\n")
    assert open_checkpoint(str(place)).root.name == "def"
    (place / "refs" / "main").write_text("../../..")
    assert "2 snapshots" in refusal(place)
    (place / "refs" / "main").unlink()
    assert "2 snapshots" in refusal(place)
    shutil.rmtree(place / "snapshots" / "abc")
    assert open_checkpoint(str(place)).root.name == "def"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    os.mkfifo(tmp_path / "config.json")
    checkpoint = open_checkpoint(str(tmp_path))
    assert kinds(checkpoint) == [("not_a_file", "config.json"), ("not_a_file", "model.safetensors")]
    assert "neither a file nor a folder" in refusal(tmp_path / "model.safetensors")


def test_a_socket_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("model.safetensors")
        assert kinds(open_checkpoint(str(tmp_path))) == [("not_a_file", "model.safetensors")]


@pytest.mark.parametrize("swapped", ["pipe", "link", "folder"])
def test_a_file_that_is_swapped_after_the_look_stays_closed(tmp_path: Path, swapped: str) -> None:
    folder(tmp_path / "secret", x=b"secret")
    root = folder(tmp_path / "draft", x=b"1")
    opened = Folder(root)
    assert opened.path("x") is not None
    (root / "x").unlink()
    if swapped == "pipe":
        os.mkfifo(root / "x")
    elif swapped == "folder":
        (root / "x").mkdir()
    else:
        (root / "x").symlink_to(tmp_path / "secret" / "x")
    with pytest.raises(CannotExamineError, match="cannot be read"), opened.open("x"):
        pass


def test_a_file_that_vanishes(tmp_path: Path) -> None:
    opened = Folder(folder(tmp_path, x=b"1"))
    assert opened.size("x") == 1
    (tmp_path / "x").unlink()
    assert opened.size("x") == 0
    with pytest.raises(CannotExamineError, match="cannot be read"), opened.open("x"):
        pass
    with pytest.raises(CannotExamineError, match="cannot be opened"), opened.open("y"):
        pass


def test_a_read_error_becomes_a_sentence(tmp_path: Path) -> None:
    opened = Folder(folder(tmp_path, x=b"1"))
    with pytest.raises(CannotExamineError, match="Input/output error"), opened.open("x"):
        raise OSError(5, "Input/output error")


def test_a_folder_named_like_weights_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    assert "nothing that looks like a checkpoint" in refusal(tmp_path)
    folder(tmp_path, real__safetensors=sound("a"))
    assert list(open_checkpoint(str(tmp_path)).tensors) == ["a"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_files_without_permission(tmp_path: Path) -> None:
    folder(tmp_path, model__safetensors=sound("a"))
    (tmp_path / "model.safetensors").chmod(0)
    assert "cannot be read (Permission denied)" in refusal(tmp_path)


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    name = os.fsdecode(b"mod\xffel.safetensors")
    (tmp_path / name).write_bytes(sound("a") + b"?")
    checkpoint = open_checkpoint(str(tmp_path))
    assert checkpoint.files == (name,)
    assert kinds(checkpoint) == [("trailing_bytes", name)]


@pytest.mark.parametrize("path", ["", "gone", "a\0b", "x" * 5000, "model.safetensors/x"])
def test_paths_that_lead_nowhere(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder(tmp_path, model__safetensors=sound("a")))
    assert refusal(path)


def test_refusals_escape_the_path(tmp_path: Path) -> None:
    assert "\\x1b" in refusal(tmp_path / "\x1b[2J")


def test_a_remote_path_names_the_download_command() -> None:
    assert "hf download org/name" in refusal("hf://org/name")


def test_empty_and_foreign_folders(tmp_path: Path) -> None:
    assert "nothing that looks like a checkpoint" in refusal(tmp_path)
    folder(tmp_path, config__json="{}", README__md="x")
    assert "nothing that looks like a checkpoint" in refusal(tmp_path)
    assert "nothing that looks like a checkpoint" in refusal(tmp_path / "config.json")


def test_a_folder_of_too_many_files(tmp_path: Path) -> None:
    for number in range(FILE_LIMIT + 1):
        (tmp_path / f"{number}.bin").touch()
    assert f"more than {FILE_LIMIT} weight files" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "a\\b", "C:x", "a\0"])
def test_names_that_are_paths(name: str) -> None:
    assert not is_plain_name(name)
    assert is_plain_name("model-00001-of-00002.safetensors")


def test_opening_does_not_depend_on_the_bytes_of_the_tensors(tmp_path: Path) -> None:
    """A 20 GB sparse file opens by its header alone: counted in bytes that the process really read."""
    header = '{"a": {"dtype": "U8", "shape": [20000000000], "data_offsets": [0, 20000000000]}}'
    place = tmp_path / "model.safetensors"
    place.write_bytes(len(header).to_bytes(8, "little") + header.encode())
    os.truncate(place, 8 + len(header) + 20_000_000_000)
    script = (
        "import resource, sys; from ckptdoctor.checkpoint import open_checkpoint\n"
        "import os; real, total = os.fdopen, []\n"
        "class Counting:\n"
        "    def __init__(self, raw): self.raw = raw\n"
        "    def read(self, n): data = self.raw.read(n); total.append(len(data)); return data\n"
        "    def __getattr__(self, name): return getattr(self.raw, name)\n"
        "    def __enter__(self): return self\n"
        "    def __exit__(self, *_): self.raw.close()\n"
        "os.fdopen = lambda *a: Counting(real(*a))\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))\n"
        "c = open_checkpoint(sys.argv[1]); print(c.size, len(c.faults), sum(total))\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    size, faults, read = map(int, run.stdout.split())
    assert (size, faults) == (8 + len(header) + 20_000_000_000, 0)
    assert read == 24 + len(header)
