"""Git's door and git-lfs: pointers, their objects, and what is refused of both."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from gate_drafts import HEALTHY, SICK
from git_repositories import Door, installed, judged, needs_git, needs_lfs

from ckptdoctor.registry.git.commands import find_repository
from ckptdoctor.registry.git.lfs import Pointer, own_stores, read_pointer

pytestmark = needs_git


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"


@needs_lfs
def test_a_pointer_without_its_object_is_refused(lfs_door: Door) -> None:
    door = installed(lfs_door)
    door.put(SICK)
    shutil.rmtree(door.clone / ".git" / "lfs" / "objects")
    done = door.push("main")
    assert done.returncode == 1
    assert "model.safetensors: it is a git-lfs pointer, and its object " in done.stderr
    assert " is not in this clone; the remote may have it: git lfs fetch origin" in " ".join(done.stderr.split())
    assert door.stored == ([], [])


@needs_lfs
@pytest.mark.parametrize(
    ("content", "sentence"),
    [(None, "it is damaged or was changed"), (b"short", "its git-lfs object has 5 bytes, and the pointer says")],
)
def test_an_object_that_is_not_what_its_pointer_names_is_refused(
    content: bytes | None, sentence: str, lfs_door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = lfs_door.put(HEALTHY)
    (stored,) = [p for p in (lfs_door.clone / ".git" / "lfs" / "objects").rglob("*") if p.is_file()]
    whole = bytearray(stored.read_bytes())
    whole[-1] ^= 1
    stored.chmod(0o644)
    stored.write_bytes(bytes(whole) if content is None else content)
    verdict = judged(lfs_door, commit, monkeypatch)
    assert verdict.outcome == "refused"
    assert sentence in verdict.sentence


@needs_lfs
def test_objects_are_found_where_git_lfs_keeps_them(lfs_door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = lfs_door.put(HEALTHY)
    (lfs_door.clone / ".git" / "lfs" / "objects").rename(lfs_door.clone.parent / "objects")
    assert judged(lfs_door, commit, monkeypatch).outcome == "refused"
    lfs_door.git("config", "lfs.storage", str(lfs_door.clone.parent))
    assert judged(lfs_door, commit, monkeypatch).outcome == "passed"
    lfs_door.git("config", "lfs.storage", "../..")
    assert judged(lfs_door, commit, monkeypatch).outcome == "passed"


@needs_lfs
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_object_that_cannot_be_read_is_refused(lfs_door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = lfs_door.put(HEALTHY)
    (stored,) = [p for p in (lfs_door.clone / ".git" / "lfs" / "objects").rglob("*") if p.is_file()]
    stored.chmod(0)
    assert "cannot be read (Permission denied)" in judged(lfs_door, commit, monkeypatch).sentence


def test_objects_of_a_repository_that_one_borrows_from_are_found(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    door.git("init", "--quiet", str(tmp_path / "other"), at=tmp_path)
    alternates = door.clone / ".git" / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_text(f"# a remark\n{tmp_path / 'other' / '.git' / 'objects'}\n", encoding="utf-8")
    monkeypatch.chdir(door.clone)
    assert own_stores(find_repository()) == (
        door.clone / ".git" / "lfs" / "objects",
        tmp_path / "other" / ".git" / "lfs" / "objects",
    )


def test_pointers_are_read_as_git_lfs_reads_them() -> None:
    oid = "0a" * 32
    pointer = POINTER.format(oid=oid, size=12)
    assert read_pointer(pointer.encode()) == Pointer(oid, 12, False)
    extended = pointer.replace("oid", f"ext-0-case sha256:{oid}\noid")
    assert read_pointer(extended.encode()) == Pointer(oid, 12, True)
    for other in (pointer.upper(), pointer + "x", pointer.replace("sha256", "md5"), "", pointer + " " * 1024):
        assert read_pointer(other.encode()) is None
    for same in pointer_forms(pointer):
        assert read_pointer(same.encode()) == Pointer(oid, 12, False)
    for other in (swapped(pointer), pointer.replace("size", "sizes"), pointer.replace("v1", "v9")):
        assert read_pointer(other.encode()) is None


@needs_lfs
def test_git_lfs_itself_takes_these_forms_for_pointers(lfs_door: Door) -> None:
    pointer = POINTER.format(oid="0a" * 32, size=12)
    for number, text in enumerate((*pointer_forms(pointer), swapped(pointer))):
        path = lfs_door.clone / f"{number}.txt"
        path.write_bytes(text.encode())
        done = lfs_door.run("git", "lfs", "pointer", "--check", "--no-strict", "--file", str(path))
        assert (done.returncode == 0) is (read_pointer(text.encode()) is not None), text


def pointer_forms(pointer: str) -> tuple[str, ...]:
    return (
        pointer.replace("\n", "\r\n"),
        pointer.removesuffix("\n"),
        f"\n\n{pointer}\n \n",
        pointer.replace("\n", "\n\n"),
        pointer.replace("https://git-lfs.github.com/spec/v1", "https://hawser.github.com/spec/v1"),
        pointer.replace("size 12", "size 0012"),
    )


def swapped(pointer: str) -> str:
    version, oid, size = pointer.splitlines()
    return f"{version}\n{size}\n{oid}\n"


def test_an_extension_of_git_lfs_is_refused_and_an_empty_file_needs_no_object(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    oid = "0a" * 32
    extended = POINTER.format(oid=oid, size=12).replace("oid", f"ext-0-case sha256:{oid}\noid", 1)
    attributes = ("100644", ".gitattributes", door.blob(b"* filter=lfs\n"))
    blob = door.blob(extended.encode())
    verdict = judged(door, door.tree(attributes, ("100644", "x.bin", blob)), monkeypatch)
    assert "its git-lfs pointer names an extension" in verdict.sentence
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    blob = door.blob(POINTER.format(oid=empty, size=0).encode())
    assert judged(door, door.tree(attributes, ("100644", "x.txt", blob)), monkeypatch).outcome == "empty"
