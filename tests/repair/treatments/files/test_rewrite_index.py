"""An index is written from the headers of the files, unless it names what is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from treating.files import ONE, TWO, edits, refused
from treatment_cases import Draft, answer, draft_of, plan, put, write

from ckptdoctor.repair.edits import RewriteIndex

INDEX = "model.safetensors.index.json"


def sharded(folder: Path, draft: Draft | None = None, **index: Any) -> Path:
    """A draft in two files; `index` replaces or adds entries of its weight_map (... removes one)."""
    draft = draft or draft_of()
    write(draft, folder)
    (folder / "model.safetensors").unlink()
    names = sorted(draft.tensors)
    places = {name: TWO if n % 2 else ONE for n, name in enumerate(names)}
    for file in (ONE, TWO):
        put(folder / file, {name: draft.tensors[name] for name in names if places[name] == file})
    places |= {name.replace("__", "."): file for name, file in index.items()}
    weight_map = {name: file for name, file in places.items() if file is not ...}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("rule", "index"),
    [
        ("ART022", {"d2t": ...}),
        ("ART028", {"d2t": TWO}),
        ("ART021", {"layers__0__hidden_norm__weight": ONE}),  # midlayer.hidden_norm.weight under another name
        ("ART021", {"midlayer__self_attn__rotary_emb__inv_freq": ONE}),  # a buffer
        ("ART021", {"optimizer_step": ONE}),  # no parameter of a draft
    ],
)
def test_the_index_is_written_from_the_headers(rule: str, index: dict[str, Any], tmp_path: Path) -> None:
    folder = sharded(tmp_path, **index)
    assert edits(answer(folder, rule)) == (RewriteIndex(INDEX),)
    assert not [f for f in plan(folder).after.judgement.findings if f.rule == rule]


def test_a_malformed_index_keeps_its_name(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    (folder / INDEX).unlink()
    (folder / "draft.safetensors.index.json").write_text("{}")
    assert edits(answer(folder, "ART024")) == (RewriteIndex("draft.safetensors.index.json"),)


def test_loose_shards_get_an_index_when_it_is_selected(tmp_path: Path) -> None:
    folder = sharded(tmp_path)
    (folder / INDEX).unlink()
    assert edits(answer(folder, "ART027")) == (RewriteIndex(INDEX),)
    assert plan(folder).steps == ()
    assert [s.treatment for s in plan(folder, select=("rewrite-index",)).steps] == ["rewrite-index"]


def test_a_path_out_of_the_folder_goes_when_its_tensor_is_stored(tmp_path: Path) -> None:
    folder = sharded(tmp_path, d2t="../elsewhere.safetensors")
    assert edits(answer(folder, "ART023")) == (RewriteIndex(INDEX),)


@pytest.mark.parametrize(
    ("rule", "index"),
    [
        ("ART021", {"embed_tokens__weight": ONE}),
        ("ART021", {"fc__bias": ONE}),
        ("ART023", {"embed_tokens__weight": "../elsewhere.safetensors"}),
    ],
)
def test_an_index_that_names_a_lost_parameter_stays(rule: str, index: dict[str, str], tmp_path: Path) -> None:
    assert "may be lost tensors" in str(answer(sharded(tmp_path, **index), rule))


def test_an_index_of_an_incomplete_draft_stays(tmp_path: Path) -> None:
    draft = draft_of()
    del draft.tensors["midlayer.mlp.up_proj.weight"]
    assert "The draft lacks" in str(answer(sharded(tmp_path, draft, d2t=...), "ART022"))


def test_an_index_stays_while_a_file_is_missing_or_damaged_or_a_name_stands_twice(tmp_path: Path) -> None:
    folder = sharded(tmp_path / "a", d2t=..., other="model-00003-of-00002.safetensors")
    assert refused("rewrite-index", folder) == "missing"
    folder = sharded(tmp_path / "b")
    (folder / INDEX).write_text("{}")
    (folder / TWO).unlink()
    assert refused("rewrite-index", folder) == "missing"
    folder = sharded(tmp_path / "c", d2t=...)
    (folder / ONE).write_bytes((folder / ONE).read_bytes()[:-8])
    assert refused("rewrite-index", folder) == "damaged"
    folder = sharded(tmp_path / "d")
    (folder / INDEX).write_text("{}")
    put(folder / "other.safetensors", {"d2t": draft_of().tensors["d2t"]})
    assert refused("rewrite-index", folder) == "twice"
