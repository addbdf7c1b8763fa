"""Which files are the weights, and what an index or the names of the shards say about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from checkpoint_files import LFS, folder, index, sharded, sound

from ckptdoctor.checkpoint import Fault, open_checkpoint
from ckptdoctor.checkpoint import weights as module

INDEX = "model.safetensors.index.json"
TWO = {"s1.safetensors": ["a", "b"], "s2.safetensors": ["c"]}


def faults(root: Path) -> list[Fault]:
    return list(open_checkpoint(str(root)).faults)


def the_fault(root: Path) -> Fault:
    (fault,) = faults(root)
    return fault


def line_of(root: Path, key: str) -> int:
    lines = (root / INDEX).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if f'"{key}":' in line)


@pytest.mark.parametrize("part", ["", INDEX])
def test_sound_shards(tmp_path: Path, part: str) -> None:
    checkpoint = open_checkpoint(str(sharded(tmp_path, TWO) / part))
    assert checkpoint.faults == ()
    assert checkpoint.files == ("s1.safetensors", "s2.safetensors")
    assert {name: info.file for name, info in checkpoint.tensors.items()} == {
        "a": "s1.safetensors",
        "b": "s1.safetensors",
        "c": "s2.safetensors",
    }
    assert checkpoint.whole_folder == (part == "")


def test_a_missing_shard(tmp_path: Path) -> None:
    root = sharded(tmp_path, TWO)
    (root / "s1.safetensors").unlink()
    fault = the_fault(root)
    assert (fault.kind, fault.file, fault.other, fault.tensor) == ("index_missing_shard", INDEX, "s1.safetensors", "a")
    assert (fault.count, fault.line) == (2, line_of(root, "a"))
    assert not open_checkpoint(str(root)).names_sound


def test_a_shard_that_is_a_folder_is_missing(tmp_path: Path) -> None:
    root = sharded(tmp_path, TWO)
    (root / "s2.safetensors").unlink()
    (root / "s2.safetensors").mkdir()
    assert the_fault(root).kind == "index_missing_shard"


def test_the_wrong_shard(tmp_path: Path) -> None:
    root = sharded(tmp_path, TWO, {"a": "s1.safetensors", "b": "s2.safetensors", "c": "s2.safetensors"})
    fault = the_fault(root)
    assert (fault.kind, fault.tensor, fault.line) == ("index_wrong_shard", "b", line_of(root, "b"))
    assert (fault.expected, fault.found) == ("s2.safetensors", "s1.safetensors")


def test_a_tensor_that_is_in_no_shard(tmp_path: Path) -> None:
    files = {"a": "s1.safetensors", "b": "s1.safetensors", "c": "s2.safetensors", "d": "s2.safetensors"}
    fault = the_fault(sharded(tmp_path, TWO, files))
    assert (fault.kind, fault.tensor, fault.found) == ("index_wrong_shard", "d", None)


def test_a_tensor_that_the_index_lacks(tmp_path: Path) -> None:
    fault = the_fault(sharded(tmp_path, TWO, {"a": "s1.safetensors", "c": "s2.safetensors"}))
    assert (fault.kind, fault.file, fault.tensor, fault.other) == ("index_lacks_tensor", INDEX, "b", "s1.safetensors")


def test_a_tensor_in_two_files(tmp_path: Path) -> None:
    files = {"a": "s1.safetensors", "b": "s2.safetensors"}
    root = sharded(tmp_path, {"s1.safetensors": ["a", "b"], "s2.safetensors": ["a", "b"]}, files)
    fault = the_fault(root)
    assert (fault.kind, fault.file, fault.tensor, fault.other) == (
        "tensor_in_two_files",
        "s2.safetensors",
        "a",
        "s1.safetensors",
    )
    assert fault.count == 2


def test_a_file_that_the_index_does_not_name(tmp_path: Path) -> None:
    root = folder(sharded(tmp_path, TWO), extra__safetensors=sound("x"), optimizer__safetensors=sound("o"))
    fault = the_fault(root)
    assert (fault.kind, fault.file, fault.other) == ("file_not_in_index", "extra.safetensors", INDEX)
    assert "x" not in open_checkpoint(str(root)).tensors


@pytest.mark.parametrize("bad", ["../x.safetensors", "/etc/passwd", "sub/x.safetensors", "..", "", "C:\\x", "a\0b"])
def test_a_path_in_the_index_is_not_opened(tmp_path: Path, bad: str) -> None:
    folder(tmp_path / "sub", x__safetensors=sound("secret"))
    folder(tmp_path, x__safetensors=sound("secret"))
    root = sharded(tmp_path / "draft", {"s1.safetensors": ["a"]}, {"a": "s1.safetensors", "secret": bad})
    fault = the_fault(root)
    assert (fault.kind, fault.tensor, fault.found) == ("index_bad_path", "secret", bad)
    assert fault.line == line_of(root, "secret")
    checkpoint = open_checkpoint(str(root))
    assert list(checkpoint.tensors) == ["a"]
    assert not checkpoint.names_sound


@pytest.mark.parametrize("text", ["{}", '{"weight_map": {}}', '{"weight_map": []}', '{"weight_map": {"a": 1}}'])
def test_a_malformed_index_leaves_the_loose_files(tmp_path: Path, text: str) -> None:
    root = sharded(tmp_path, TWO)
    (root / INDEX).write_text(text)
    fault = the_fault(root)
    assert (fault.kind, fault.file, fault.offset) == ("index_malformed", INDEX, 0)
    assert sorted(open_checkpoint(str(root)).tensors) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"{", "json_syntax"), (LFS, "lfs_pointer"), (b"", "empty_file"), (b"[]", "json_not_object")],
)
def test_an_index_that_cannot_be_read(tmp_path: Path, content: bytes, kind: str) -> None:
    root = sharded(tmp_path, TWO)
    (root / INDEX).write_bytes(content)
    found = faults(root)
    assert (found[0].kind, found[0].file) == (kind, INDEX)
    assert sorted(open_checkpoint(str(root)).tensors) == ["a", "b", "c"]


def test_duplicate_keys_in_an_index(tmp_path: Path) -> None:
    root = sharded(tmp_path, {"s1.safetensors": ["a"]})
    (root / INDEX).write_text('{"weight_map":\n{"a": "gone.safetensors",\n "a": "s1.safetensors"}}')
    fault = the_fault(root)
    assert (fault.kind, fault.tensor, fault.line, fault.found) == ("json_duplicate_key", "a", 3, 2)


def test_the_usual_index_is_preferred(tmp_path: Path) -> None:
    root = sharded(tmp_path, TWO)
    (root / "aaa.safetensors.index.json").write_text(index(z="gone.safetensors"))
    assert faults(root) == []


def test_loose_shards(tmp_path: Path) -> None:
    root = folder(tmp_path, a__safetensors=sound("a"), b__safetensors=sound("b"))
    fault = the_fault(root)
    assert (fault.kind, fault.file, fault.found) == ("shards_without_index", "a.safetensors", 2)
    assert sorted(open_checkpoint(str(root)).tensors) == ["a", "b"]


@pytest.mark.parametrize(
    ("numbers", "total", "absent", "lost"),
    [
        ([1, 3], 3, "model-00002-of-00003.safetensors", 1),
        ([2], 2, "model-00001-of-00002.safetensors", 1),
        ([1], 99999, "model-00002-of-99999.safetensors", 99998),
        ([0, 2], 3, "model-00001-of-00003.safetensors", 1),
        ([7], 2, "model-00001-of-00002.safetensors", 2),
    ],
)
def test_a_member_of_a_series_is_missing(
    tmp_path: Path, numbers: list[int], total: int, absent: str, lost: int
) -> None:
    for number in numbers:
        (tmp_path / f"model-{number:05d}-of-{total:05d}.safetensors").write_bytes(sound(f"t{number}"))
    fault = next(f for f in faults(tmp_path) if f.kind == "shard_missing")
    assert (fault.file, fault.expected, fault.found, fault.count) == (absent, total, total - lost, lost)
    assert not open_checkpoint(str(tmp_path)).names_sound


@pytest.mark.parametrize("first", [0, 1])
def test_a_whole_series_counts_from_either_end(tmp_path: Path, first: int) -> None:
    for number in (first, first + 1):
        (tmp_path / f"model-{number:05d}-of-00002.safetensors").write_bytes(sound(f"t{number}"))
    assert [f.kind for f in faults(tmp_path)] == ["shards_without_index"]


@pytest.mark.parametrize("name", ["model-00001-of-00002.safetensors\n", "model-١٢٣٤٥-of-٠٠٠٠٢.safetensors"])
def test_names_that_only_look_like_a_series(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(sound("a"))
    (tmp_path / "model.safetensors").write_bytes(sound("b"))
    assert "shard_missing" not in [f.kind for f in faults(tmp_path)]


def test_leftovers_of_a_trainer_are_no_weights_where_no_loader_reads_them(tmp_path: Path) -> None:
    root = folder(tmp_path, model__safetensors=sound("a"), optimizer__bin=b"x", rng_state__pth=b"x")
    checkpoint = open_checkpoint(str(root))
    assert (checkpoint.files, checkpoint.faults) == (("model.safetensors",), ())
    alone = folder(tmp_path / "alone", adapter_model__safetensors=sound("x"))
    assert open_checkpoint(str(alone)).files == ("adapter_model.safetensors",)


@pytest.mark.parametrize(
    "name", ["scheduler", "sampler-1", "optimizer", "adapter_model", "tokenizer", "consolidated", "a"]
)
def test_without_an_index_every_safetensors_file_is_loaded(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(sound("a"))
    (tmp_path / f"{name}.safetensors").write_bytes(sound("x"))
    checkpoint = open_checkpoint(str(tmp_path))
    assert checkpoint.files == tuple(sorted((f"{name}.safetensors", "model.safetensors")))
    assert set(checkpoint.tensors) == {"a", "x"}
    (tmp_path / "model.safetensors.index.json").write_text(index(a="model.safetensors"))
    checkpoint = open_checkpoint(str(tmp_path))
    assert (checkpoint.files, set(checkpoint.tensors)) == (("model.safetensors",), {"a"})


def test_a_pointer_in_place_of_weights_and_config(tmp_path: Path) -> None:
    root = folder(tmp_path, model__safetensors=LFS, config__json=LFS)
    assert [(f.kind, f.file, f.found) for f in faults(root)] == [
        ("lfs_pointer", "model.safetensors", len(LFS)),
        ("lfs_pointer", "config.json", len(LFS)),
    ]
    checkpoint = open_checkpoint(str(root))
    assert checkpoint.config is not None
    assert not checkpoint.config.readable
    assert not checkpoint.names_sound


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ("[]", "json_not_object"),
        ("{'a': 1}", "json_syntax"),
        ('{"a": 1, "a": 2}', "json_duplicate_key"),
        ('{"a": NaN}', "json_not_a_number"),
        ("", "empty_file"),
    ],
)
def test_a_damaged_config(tmp_path: Path, config: str, kind: str) -> None:
    fault = the_fault(folder(tmp_path, model__safetensors=sound("a"), config__json=config))
    assert (fault.kind, fault.file) == (kind, "config.json")


def test_half_a_surrogate_pair_in_a_config_is_what_python_reads(tmp_path: Path) -> None:
    root = folder(tmp_path, model__safetensors=sound("a"), config__json=r'{"a": "\ud800"}')
    checkpoint = open_checkpoint(str(root))
    assert checkpoint.faults == ()
    assert checkpoint.config is not None
    assert checkpoint.config.object == {"a": "\ud800"}
    (root / "config.json").write_bytes(b'{"a": "\xff"}')
    assert the_fault(root).kind == "json_encoding"


def test_a_config_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder(tmp_path, model__safetensors=sound("a"), config__json='{"a": 1}' + " " * 100)
    with (root / "config.json").open("r+b") as stream:
        stream.truncate(module.CONFIG_LIMIT + 1)
    fault = the_fault(root)
    assert (fault.kind, fault.expected, fault.found) == (
        "json_too_large",
        module.CONFIG_LIMIT,
        module.CONFIG_LIMIT + 1,
    )
    monkeypatch.setattr("ckptdoctor.checkpoint.opened.TOKENIZER_LIMIT", 3)
    folder(root, tokenizer__json="{}  ")
    head = open_checkpoint(str(root)).json_head("tokenizer.json", frozenset("a"))
    assert head is not None
    assert [f.kind for f in head.faults] == ["json_too_large"]


def test_other_files_beside_the_weights(tmp_path: Path) -> None:
    tokenizer = json.dumps({"version": "1.0", "added_tokens": [{"id": 3}], "model": {}})[:-1] + ", oops"
    root = folder(
        tmp_path, model__safetensors=sound("a"), generation_config__json='{"x": 1}', tokenizer__json=tokenizer
    )
    checkpoint = open_checkpoint(str(root))
    other = checkpoint.json("generation_config.json")
    assert other is not None
    assert other.object == {"x": 1}
    assert checkpoint.json("gone.json") is None
    assert checkpoint.json("../draft/config.json") is None
    head = checkpoint.json_head("tokenizer.json", frozenset({"added_tokens"}))
    assert head is not None
    assert head.readable
    assert head.object["added_tokens"] == [{"id": 3}]
    assert checkpoint.json_head("gone.json", frozenset()) is None
