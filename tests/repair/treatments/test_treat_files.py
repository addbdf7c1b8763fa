"""Treatments of files and containers: the exact edits on what is wrong, and what they must not touch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from treatment_cases import Draft, answer, draft_of, floats, plan, put, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe
from ckptdoctor.publish.shards import lost_member, safetensors_name
from ckptdoctor.repair.edits import OmitFile, RewriteIndex, RewriteJson, SetMetadata
from ckptdoctor.repair.plan.case import Case, Proposal, RefusedError
from ckptdoctor.repair.plan.treatments_known import code_of

INDEX = "model.safetensors.index.json"
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def edits(told: Proposal | str) -> tuple[Any, ...]:
    assert isinstance(told, Proposal), told
    assert told.safety == "safe"
    return told.edits


def refused(treatment: str, folder: Path, **arguments: Any) -> str:
    checkpoint = open_checkpoint(str(folder))
    with pytest.raises(RefusedError) as error:
        code_of(treatment)(Case(checkpoint, describe(checkpoint, None), reads=True), **arguments)
    return error.value.key


# --- rewrite-json -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("CFG003", lambda text: text.replace("{", '{"hidden_size": 4096,', 1)),
        ("CFG006", lambda text: "\ufeff" + text),
    ],
)
def test_a_config_is_written_again_with_what_engines_read(
    rule: str, change: Callable[[str], str], tmp_path: Path
) -> None:
    folder = write(draft_of(), tmp_path)
    text = (folder / "config.json").read_text(encoding="utf-8")
    (folder / "config.json").write_text(change(text), encoding="utf-8")
    assert edits(answer(folder, rule)) == (RewriteJson("config.json"),)
    done = plan(folder)
    assert done.state.json["config.json"] == json.loads(text)
    assert not [f for f in done.after.judgement.findings if f.rule == rule]


def test_a_config_with_a_number_that_would_be_lost_is_not_written_again(tmp_path: Path) -> None:
    folder = write(draft_of(), tmp_path)
    text = (folder / "config.json").read_text(encoding="utf-8")
    text = text.replace("{", '{"hidden_size": 64, "length": 1' + "0" * 30 + ",", 1)
    (folder / "config.json").write_text(text, encoding="utf-8")
    assert "would be lost" in str(answer(folder, "CFG003"))


# --- rewrite-index ------------------------------------------------------------------------------------------------


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


def test_names_of_files_that_belong_together() -> None:
    assert lost_member(("a-00000-of-00002.safetensors", "a-00001-of-00002.safetensors")) is None
    assert (
        lost_member(("a-00001-of-00003.safetensors", "a-00003-of-00003.safetensors")) == "a-00002-of-00003.safetensors"
    )
    assert lost_member(("a-00001-of-99999.safetensors",)) == "a-00002-of-99999.safetensors"
    assert lost_member(("model.safetensors", "other.safetensors")) is None
    assert safetensors_name("pytorch_model-00001-of-00002.bin", False) == ONE
    assert safetensors_name("training_state.pt", True) == "model.safetensors"
    assert safetensors_name("part1.pt", False) is None
    assert safetensors_name("other-00001-of-00002.bin", False) is None


# --- metadata-to-text ---------------------------------------------------------------------------------------------


def with_metadata(folder: Path, metadata: Any, **entry: Any) -> Path:
    write(draft_of(), folder)
    data = (folder / "model.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length]) | {"__metadata__": metadata}
    for name, fields in entry.items():
        header[name] |= fields
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])
    return folder


def test_metadata_is_written_as_texts(tmp_path: Path) -> None:
    folder = with_metadata(tmp_path, {"format": "pt", "step": 100, "loss": [0.5, None], "by": {"who": "é"}})
    texts = (("format", "pt"), ("step", "100"), ("loss", "[0.5, null]"), ("by", '{"who": "\\u00e9"}'))
    assert edits(answer(folder, "ART015")) == (SetMetadata("model.safetensors", texts),)
    assert not [f for f in plan(folder).after.judgement.findings if f.rule == "ART015"]


@pytest.mark.parametrize("metadata", ["text", [1], 5])
def test_metadata_that_is_no_object_stays(metadata: Any, tmp_path: Path) -> None:
    assert "not even an object" in str(answer(with_metadata(tmp_path, metadata), "ART015"))


def test_metadata_stays_where_more_is_damaged_or_it_is_no_metadata(tmp_path: Path) -> None:
    folder = with_metadata(tmp_path / "a", {"step": 1}, d2t={"dtype": "I32"})
    assert "More than its metadata" in str(answer(folder, "ART015"))
    folder = with_metadata(tmp_path / "b", {"step": list(range(300_000))})
    assert "more than a megabyte" in str(answer(folder, "ART015"))


# --- omit-file ----------------------------------------------------------------------------------------------------

NULL = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": None, "exclude_modules": ["lm_head"]}}


@pytest.mark.parametrize("text", ["", "{}", "null", json.dumps(NULL), '{"quantization": null}'])
def test_a_quantisation_that_says_nothing_is_left_out(text: str, tmp_path: Path) -> None:
    folder = write(draft_of(), tmp_path)
    (folder / "hf_quant_config.json").write_text(text)
    assert edits(answer(folder, "QNT001")) == (OmitFile("hf_quant_config.json"),)
    assert not [f for f in plan(folder).after.judgement.findings if f.rule == "QNT001"]


@pytest.mark.parametrize(
    "text", ['{"quant_algo": "FP8"}', '{"quantization": {"kv_cache_quant_algo": "FP8"}}', "{", "[1]"]
)
def test_a_quantisation_that_says_something_is_not_reported(text: str, tmp_path: Path) -> None:
    folder = write(draft_of(), tmp_path)
    (folder / "hf_quant_config.json").write_text(text)
    assert not [f for f in plan(folder).before.judgement.findings if f.rule == "QNT001"]


def test_the_file_stays_beside_weights_that_are_quantised(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors["midlayer.mlp.up_proj.weight_scale"] = floats(np.ones(1), "F32")
    folder = write(draft, tmp_path)
    (folder / "hf_quant_config.json").write_text("{}")
    assert "midlayer.mlp.up_proj.weight_scale is stored" in str(answer(folder, "QNT001"))


def test_neither_weights_nor_what_is_absent_is_left_out(tmp_path: Path) -> None:
    folder = write(draft_of(), tmp_path)
    assert refused("omit-file", folder, name="model.safetensors") == "absent"
    assert refused("omit-file", folder, name="x.json") == "absent"
    assert refused("omit-file", folder, name="config.json", refuse="stored") == "stored"
