"""A quantisation that says nothing is left out, and neither weights nor one that says something."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from treating.files import edits, refused
from treatment_cases import answer, draft_of, floats, plan, write

from ckptdoctor.repair.edits import OmitFile

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
