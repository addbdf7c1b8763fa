"""Links in a folder: which are followed, and none that leads out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from checkpoint_files import folder, hub_entry, kinds, refusal, sharded, sound

from ckptdoctor.checkpoint import open_checkpoint


def test_a_snapshot_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    place = hub_entry(tmp_path, (), "evil")
    (place / "snapshots").mkdir()
    folder(tmp_path / "secret", model__safetensors=sound("secret"))
    (place / "snapshots" / "evil").symlink_to(tmp_path / "secret")
    assert "0 snapshots" in refusal(place)


def test_a_huge_reference_is_not_read_whole(tmp_path: Path) -> None:
    place = hub_entry(tmp_path)
    os.truncate(place / "refs" / "main", 20 * 1024**3)
    assert open_checkpoint(str(place)).root.name == "abc"


def test_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    folder(tmp_path / "real", x__bytes=sound("a"))
    (tmp_path / "model.safetensors").symlink_to("real/x.bytes")
    checkpoint = open_checkpoint(str(tmp_path))
    assert list(checkpoint.tensors) == ["a"]
    assert checkpoint.faults == ()


@pytest.mark.parametrize("relative", [True, False])
def test_a_link_that_leads_out_stays_closed(tmp_path: Path, relative: bool) -> None:
    folder(tmp_path / "secret", model__safetensors=sound("secret"), config__json='{"secret": 1}')
    root = folder(tmp_path / "draft", model__safetensors=sound("a"))
    base = Path("../secret") if relative else tmp_path / "secret"
    (root / "config.json").symlink_to(base / "config.json")
    (root / "model-2.safetensors").symlink_to(base / "model.safetensors")
    checkpoint = open_checkpoint(str(root))
    assert kinds(checkpoint) == [("link_outside", "config.json"), ("link_outside", "model-2.safetensors")]
    assert checkpoint.config is None
    assert list(checkpoint.tensors) == ["a"]
    assert not checkpoint.names_sound
    assert "leads out of the checkpoint" in refusal(root / "model-2.safetensors")


def test_a_link_into_another_repository_of_the_cache_stays_closed(tmp_path: Path) -> None:
    place = hub_entry(tmp_path)
    other = tmp_path / "models--other--name" / "blobs"
    folder(other, w2=sound("secret"))
    (place / "snapshots" / "abc" / "extra.safetensors").symlink_to(other / "w2")
    assert kinds(open_checkpoint(str(place))) == [("link_outside", "extra.safetensors")]


def test_a_linked_blobs_folder_opens_nothing_else(tmp_path: Path) -> None:
    """A checkpoint that brings its own `snapshots` and `blobs` cannot reach out through them."""
    secret = folder(tmp_path / "secret", w=sound("secret"))
    root = tmp_path / "x" / "snapshots" / "r"
    root.mkdir(parents=True)
    (tmp_path / "x" / "blobs").symlink_to(secret)
    (root / "model.safetensors").symlink_to("../../blobs/w")
    assert kinds(open_checkpoint(str(root))) == [("link_outside", "model.safetensors")]


@pytest.mark.parametrize("target", ["gone", "model.safetensors"])
def test_broken_links_and_loops(tmp_path: Path, target: str) -> None:
    (tmp_path / "model.safetensors").symlink_to(target)
    checkpoint = open_checkpoint(str(tmp_path))
    assert kinds(checkpoint) == [("broken_link", "model.safetensors")]
    assert checkpoint.tensors == {}
    assert not checkpoint.names_sound
    assert refusal(tmp_path / "model.safetensors")


def test_thousands_of_broken_links_are_one_fault_each(tmp_path: Path) -> None:
    folder(tmp_path, model__safetensors=sound("a"))
    for number in range(3000):
        (tmp_path / f"{number}.txt").symlink_to("gone")
    assert len(open_checkpoint(str(tmp_path)).faults) == 3000


def test_links_of_a_sharded_checkpoint_share_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file under many names does not multiply the work without bound."""
    root = sharded(tmp_path, {"s-0.safetensors": ["a", "b", "c"]})
    (root / "model.safetensors.index.json").unlink()
    for number in range(1, 9):
        (root / f"s-{number}.safetensors").symlink_to("s-0.safetensors")
    monkeypatch.setattr("ckptdoctor.checkpoint.opening.TENSOR_LIMIT", 10)
    found = {fault.kind: fault for fault in open_checkpoint(str(root)).faults}
    assert found["too_many_tensors"].file == "s-4.safetensors"
    assert found["tensor_in_two_files"].count == 3
