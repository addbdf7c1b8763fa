"""Quantisation as a fact: entries of lists, schemes of hostile configs, forms and shapes of packed modules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builder import build
from builder.recipes import recipe_of
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.quantisation.schemes import scheme_of
from ckptdoctor.facts.quantisation.shapes import misshapen
from ckptdoctor.facts.quantisation.store import gather, unpacked
from ckptdoctor.scanning import scan

NAME = "model.layers.3.self_attn.q_proj"


def infos(**shapes: tuple[str, tuple[int, ...]]) -> dict[str, TensorInfo]:
    stem = "m.q_proj."
    return {stem + name: TensorInfo(stem + name, dtype, shape, "f") for name, (dtype, shape) in shapes.items()}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["quant_method", "quant_algo", "ignore", "config_groups", "bits", "group_size", "weight_block_size", "dynamic",
        "extra_config", "block_name_to_quantize", "modules_to_not_convert", "quantization", "quantized_layers",
        "exclude", "global_quant_config", "format", "lm_head", "exclude_modules"]  # fmt: skip
METHODS = [n for row in knowledge().words["quantisation"]["methods"] for n in row["names"]]


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6), st.sampled_from([*METHODS, "", "strange"]))
def test_no_config_raises(raw: dict[str, Any], method: str) -> None:
    for body in (raw, {**raw, "quant_method": method}):
        for place in ("quantization_config", ""):
            scheme = scheme_of(body, "config.json", place, None, knowledge())
            if scheme is not None:
                scheme.spared_by(NAME)


@pytest.mark.parametrize(
    ("tensors", "form", "shape"),
    [
        (infos(weight=("BF16", (64, 32))), "plain", (64, 32)),
        (infos(weight=("F8_E4M3", (64, 32)), weight_scale=("F32", (1,))), "float8", (64, 32)),
        (infos(weight=("U8", (64, 16)), weight_scale=("F8_E4M3", (64, 2))), "four bits", (64, 32)),
        (infos(weight_packed=("U8", (64, 16)), weight_scale=("F8_E4M3", (64, 2))), "four bits", (64, 32)),
        (infos(weight=("I8", (64, 32)), weight_scale=("F32", (64, 1))), "int8", (64, 32)),
        (infos(qweight=("I32", (4, 64)), scales=("F16", (1, 64)), qzeros=("I32", (1, 8))), "packed", (64, 32)),
        (infos(qweight=("I32", (8, 64)), scales=("F16", (1, 64)), qzeros=("I32", (1, 16))), "packed", (64, 32)),
        (infos(qweight=("I32", (32, 8)), scales=("F16", (1, 64)), qzeros=("I32", (1, 8))), "packed", (64, 32)),
        (infos(**{"weight": ("U8", (1024, 1)), "weight.absmax": ("F32", (32,))}), "bitsandbytes", (1024, 1)),
        (infos(weight_scale=("F32", (1,))), "none", None),
    ],
)  # fmt: skip
def test_the_form_and_the_matrix_behind_it(
    tensors: dict[str, TensorInfo], form: str, shape: tuple[int, int] | None
) -> None:
    module = gather(tensors)["m.q_proj"]
    assert module.form == form
    assert module.logical_shape == shape
    assert misshapen(module, None, (16, 32)) is None


def test_recognition_sees_matrices_where_weights_are_packed() -> None:
    tensors = infos(weight_packed=("I32", (64, 4)), weight_scale=("BF16", (64, 1)))
    assert unpacked(tensors)["m.q_proj.weight"].shape == (64, 32)
    plain = infos(weight=("BF16", (64, 32)))
    assert unpacked(plain) is plain


HOSTILE: list[Any] = [
    7, "fp8", [], [1], {}, {"quant_method": 5}, {"quant_method": ["fp8"]}, {"quant_method": "fp8", "ignored_layers": 9},
    {"quant_method": "fp8", "weight_block_size": [0, -1]}, {"quant_method": "fp8", "weight_block_size": [10**30, 1]},
    {"quant_method": "gptq", "bits": 10**40, "group_size": -7, "dynamic": {"-:(a+)+$": {}}},
    {"quant_method": "gptq", "bits": 0, "group_size": 0}, {"quant_method": "awq", "bits": "four"},
    {"quant_method": "compressed-tensors", "config_groups": {"a": 1, "b": {"targets": 3, "weights": []}}},
    {"quant_method": "compressed-tensors", "config_groups": {"a": {"targets": ["re:(.*)*x"], "weights": {"num_bits":
    4}}}}, {"quant_method": "compressed-tensors", "ignore": ["re:" + "(" * 400, "re:[", None, {}]},
    {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["*" * 5000]},
    {"quant_method": "modelopt", "quant_algo": 3}, {"quant_algo": "FP8", "quantization": {"quantization": {}}},
    {"quant_method": "auto-round", "extra_config": {"((": {"bits": 16}}, "block_name_to_quantize": [[["x"]], 3]},
    {"quant_method": "quark", "exclude": {"a": 1}, "global_quant_config": []},
    {"quant_method": "fp8", "modules_to_not_convert": ["x" * 10] * 30000},
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("scheme", ["w4a16", "gptq"])
def test_no_config_of_a_packed_draft_stops_a_scan(value: Any, scheme: str, tmp_path: Path) -> None:
    change = [{"quantise": {"scheme": scheme}}, {"set_config": {"quantization_config": value}}]
    about = {"imitates": "x", "source": "x", "wrong": "x", "expect": {}}
    entry = {**about, "dialect": "specforge-eagle3", "change": change}
    recipe = recipe_of("hostile", entry)
    build(recipe, tmp_path / "draft")
    (tmp_path / "draft" / "hf_quant_config.json").write_text(json.dumps({"quantization": value}), encoding="utf-8")
    (tmp_path / "draft" / "target" / "config.json").write_text(
        json.dumps({"hidden_size": 64, "quantization_config": value}), encoding="utf-8"
    )
    examination = scan(tmp_path / "draft", target=tmp_path / "draft" / "target")
    assert not [s for s in examination.skipped if "error" in str(s)]
