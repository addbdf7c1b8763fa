"""Medusa heads as they are measured: every layout, what is lost of them, and configs that hold anything at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builder.container import encode
from builder.dialects import make
from builder.draft import Tensor
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe
from ckptdoctor.facts.medusa.medusa import MedusaHeads


def zeros(*shape: int) -> Tensor:
    size = 2
    for dimension in shape:
        size *= dimension
    return Tensor("F16", shape, bytes(size))


def heads_of(folder: Path, tensors: dict[str, Tensor], config: Any) -> MedusaHeads:
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(encode(tensors, {"format": "pt"}))
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = describe(open_checkpoint(str(folder)), None).medusa
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("dialect", "layout", "prefix", "with_target", "heads"),
    [
        ("medusa-original", "original", "", False, 5),
        ("medusa-vllm", "vllm", "", False, 5),
        ("model-optimizer-medusa", "original", "medusa_heads.", True, 2),
    ],
)
@pytest.mark.parametrize("layers", [1, 2])
def test_each_layout_is_read(
    tmp_path: Path, dialect: str, layout: str, prefix: str, with_target: bool, heads: int, layers: int
) -> None:
    if dialect == "model-optimizer-medusa" and layers > 1:
        pytest.skip("the exporter writes one layer")
    draft = make(dialect, {"layers": layers})
    found = heads_of(tmp_path / "draft", draft.tensors, draft.config)
    assert (found.layout, found.prefix, found.with_target) == (layout, prefix, with_target)
    assert (found.heads, found.layers, found.own_outputs, found.width, found.rows) == (heads, layers, heads, 64, 512)
    assert (found.incomplete, found.odd_shapes) == ((), ())


def test_tensorrts_converted_names_are_a_layout_too(tmp_path: Path) -> None:
    tensors = {f"medusa_heads.{h}.medusa_layers.0.linear.weight": zeros(8, 8) for h in range(3)}
    tensors |= {f"medusa_heads.{h}.lm_head.weight": zeros(16, 8) for h in range(3)}
    found = heads_of(tmp_path / "draft", tensors, {"num_medusa_heads": 3})
    assert (found.layout, found.heads, found.own_outputs) == ("tensorrt", 3, 3)


@pytest.mark.parametrize("lost", ["0.0.linear.weight", "1.0.linear.bias", "2.1.weight"])
def test_a_part_that_the_others_have_is_missing(tmp_path: Path, lost: str) -> None:
    draft = make("medusa-original", {})
    del draft.tensors[lost]
    found = heads_of(tmp_path / "draft", draft.tensors, draft.config)
    assert [(h.head, h.absent, len(h.missing)) for h in found.incomplete] == [(int(lost[0]), False, 1)]


@pytest.mark.parametrize("head", [0, 2])
def test_a_head_between_others_is_absent(tmp_path: Path, head: int) -> None:
    draft = make("medusa-original", {})
    tensors = {name: t for name, t in draft.tensors.items() if not name.startswith(f"{head}.")}
    found = heads_of(tmp_path / "draft", tensors, draft.config)
    assert [(h.head, h.absent) for h in found.incomplete] == [(head, True)]


def test_heads_without_any_bias_or_output_lack_nothing(tmp_path: Path) -> None:
    tensors = {f"{h}.0.linear.weight": zeros(8, 8) for h in range(4)}
    found = heads_of(tmp_path / "draft", tensors, {"medusa_num_heads": 4})
    assert (found.incomplete, found.own_outputs, found.rows, found.shared_output) == ((), 0, None, False)


FIELDS = ("medusa_num_heads", "medusa_num_layers", "medusa", "num_heads", "model_type", "base_model_name_or_path")
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.text(max_size=5),
    st.lists(st.none(), max_size=2),
    st.dictionaries(st.sampled_from(["num_medusa_heads", "x"]), st.integers(), max_size=2),
)


@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING))
def test_no_config_makes_the_examiner_raise(config: dict[str, Any]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        tensors = {"0.0.linear.weight": zeros(4, 4), "4095.0.linear.weight": zeros(4, 4), "0.1.weight": zeros(8, 4)}
        found = heads_of(Path(place) / "draft", tensors, config)
    assert found.heads == 2
    assert len(found.incomplete) <= 64
