"""Layers for multi-token prediction: where they are found, how many there are, and what nothing is said of."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from builder import Recipe
from builder.building import build
from builder.container import encode
from builder.dialects import make
from builder.recipes import recipe_of
from hypothesis import given
from hypothesis import strategies as st
from recipe_cases import need_shared

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe
from ckptdoctor.facts.mtp.mtp import MtpHeads
from ckptdoctor.scanning import scan

FULL = ["dialect", "layout", "kind", "place", "stored", "declared", "embedding", "head"]


def recipe(dialect: str, change: Any = None) -> Recipe:
    entry = {"imitates": "-", "source": "-", "wrong": None, "dialect": dialect, "change": change, "expect": {}}
    return recipe_of(dialect, entry)


def heads(dialect: str, folder: Path, change: Any = None) -> MtpHeads:
    build(recipe(dialect, change), folder / "draft")
    found = describe(open_checkpoint(str(folder / "draft")), None).mtp
    assert found is not None
    return found


@pytest.mark.parametrize(
    FULL,
    [
        ("mtp-qwen", "mtp", "qwen", "right", 1, 1, "beside", "beside"),
        ("mtp-qwen-next", "mtp", "qwen", "right", 1, None, "beside", "beside"),
        ("mtp-deepseek", "layers", "nextn", "right", 1, 1, "own", "own"),
        ("mtp-glm", "layers", "nextn", "right", 1, 1, "beside", "beside"),
        ("mtp-nextn", "layers", "nextn", "exported", 1, 1, "absent", "absent"),
        ("mtp-mimo", "mtp_layers", "mimo", "right", 1, 1, "beside", "beside"),
        ("mtp-nemotron", "mtp", "nextn", "right", 1, 1, "beside", "beside"),
        ("mtp-longcat", "mtp", "nextn", "right", 1, 1, "own", "beside"),
        ("mtp-ernie", "indexed", "ernie", "right", 1, 1, "beside", "beside"),
        ("mtp-assistant", "assistant", "assistant", "open", 1, None, "own", "own"),
        ("mtp-stages", "mtp", "dspark", "right", 3, 3, "beside", "beside"),
        ("speculators-mtp", "mtp_layers", "mimo", "right", 1, 1, "absent", "beside"),
    ],
)
def test_every_published_layout_is_recognised(
    dialect: str, layout: str, kind: str, place: str, stored: int, declared: int | None, embedding: str, head: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    found = heads(dialect, tmp_path)
    assert (found.layout, found.kind, found.place) == (layout, kind, place)
    assert (found.stored, found.declared) == (stored, declared)
    assert (found.embedding, found.head) == (embedding, head)
    assert (found.gaps, found.halves, found.experts, found.projections) == ((), (), (), ())


@pytest.mark.parametrize("dialect", ["mtp-qwen", "mtp-deepseek", "mtp-mimo", "mtp-nemotron"])
def test_shards_say_the_same_as_one_file(dialect: str, tmp_path: Path) -> None:
    whole = heads(dialect, tmp_path)
    draft = make(dialect, {})
    folder = tmp_path / "shards"
    folder.mkdir()
    names = list(draft.tensors)
    weight_map: dict[str, str] = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        (folder / file).write_bytes(encode({n: draft.tensors[n] for n in part}, {"format": "pt"}))
        weight_map |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (folder / "config.json").write_text(json.dumps(draft.config))
    split = describe(open_checkpoint(str(folder)), None).mtp
    assert split is not None
    assert (split.layout, split.kind, split.stored, split.gaps) == (whole.layout, whole.kind, whole.stored, ())
    # One shard alone proves no absence.
    alone = describe(open_checkpoint(str(folder / "model-00001-of-00002.safetensors")), None).mtp
    assert alone is None or not alone.complete


def test_an_ordinary_model_has_no_mtp(tmp_path: Path) -> None:
    build(recipe("plain-model"), tmp_path / "draft")
    facts = describe(open_checkpoint(str(tmp_path / "draft")), None)
    assert (facts.draft.algorithm, facts.mtp) == ("plain", None)


@pytest.mark.parametrize(
    "key",
    ["num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "num_mtp_modules", "text_config.n_predict"],
)
def test_the_number_is_read_under_every_name(key: str, tmp_path: Path) -> None:
    change = [{"remove_config": ["num_nextn_predict_layers"]}, {"set_config": {key: 1}}]
    found = heads("mtp-glm", tmp_path, change)
    assert (found.declared, found.declared_key) == (1, key)


def test_two_layers_of_the_trunk_kind_are_two(tmp_path: Path) -> None:
    change = [
        {"copy": {"pattern": r"^model\.layers\.3\.", "to": "model.layers.4."}},
        {"set_config": {"num_nextn_predict_layers": 2}},
    ]
    found = heads("mtp-deepseek", tmp_path, change)
    assert (found.stored, found.indices, found.place) == (2, (3, 4), "right")


def test_layers_of_a_vision_tower_are_none_of_the_model(tmp_path: Path) -> None:
    names = [f"model.vision_tower.encoder.layers.{n}.self_attn.q_proj.weight" for n in range(8)]
    found = heads("mtp-qwen", tmp_path, {"add": {"names": names, "shape": [8, 8]}})
    assert (found.trunk_depth, found.indices) == (3, (0,))


@pytest.mark.shared
@pytest.mark.parametrize(
    ("dialect", "published"),
    [
        ("mtp-qwen", "Qwen__Qwen3.6-27B"),
        ("mtp-deepseek", "deepseek-ai__DeepSeek-V3"),
        ("mtp-nextn", "lmsys__DeepSeek-V3-NextN"),
        ("mtp-mimo", "XiaomiMiMo__MiMo-7B-RL"),
    ],
)
def test_the_names_are_those_that_were_published(dialect: str, published: str) -> None:
    def plain(name: str) -> str:
        return re.sub(r"^model\.layers\.\d+\.", "model.layers.N.", re.sub(r"experts\.\d+\.", "experts.N.", name))

    rows = json.loads((need_shared("zoo") / published / "tensors.json").read_text(encoding="utf-8"))
    theirs = {plain(row["name"]) for row in rows}
    # What quantisation adds, and biases and head norms that are switches of the model.
    theirs = {n for n in theirs if not re.search(r"(scale_inv|\.bias|_bias|[qk]_norm\.weight)$", n)}
    assert theirs <= {plain(name) for name in make(dialect, {}).tensors}


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-3, 9), st.floats(), st.text(max_size=4), st.just(10**30)
)
_VALUES = st.recursive(
    _SCALARS, lambda v: st.lists(v, max_size=2) | st.dictionaries(st.text(max_size=3), v, max_size=2)
)
_KEYS = ["num_nextn_predict_layers", "mtp_num_hidden_layers", "num_hidden_layers", "hidden_size", "n_routed_experts",
         "num_experts", "architectures", "speculators_model_type", "text_config", "hc_mult", "n_predict", "num_layers",
         "quantization_config", "model_type"]  # fmt: skip
_PARTS = st.sampled_from([
    "eh_proj.weight", "enorm.weight", "hnorm", "self_attn.q_proj.weight", "mlp.experts.0.up_proj.weight", "fc.weight",
    "mlp.experts.99999.up_proj.weight", "layers.0.", "0.main_proj.weight", "norm.weight", "shared_head.head.weight",
    "", "input_proj.weight_packed", "embed_tokens.weight", "0.self_attn.kv_b_proj.qweight",
])  # fmt: skip
_STEMS = st.sampled_from([
    "mtp.", "mtp.layers.0.", "mtp.9999999.", "model.mtp_layers.3.", "mtp_layers.0.", "model.layers.0.",
    "model.layers.61.", "model.layers.9999999.", "model.mtp_block.0.", "a.b.c.d.mtp.", "language_model.mtp.fc.",
    "model.mtp_linear_proj.7.", "post_projection.", "pre_projection.", "lm_head.", "layers.1.",
])  # fmt: skip
_SHAPES = st.sampled_from([[4], [4, 8], [8, 4], [1, 2, 2], [2, 4]])


@given(
    config=st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=6),
    tensors=st.dictionaries(st.tuples(_STEMS, _PARTS), _SHAPES, min_size=1, max_size=10),
)
def test_no_content_makes_a_scan_fail(config: dict[str, Any], tensors: dict[tuple[str, str], list[int]]) -> None:
    import tempfile

    from builder.values import random_tensor

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        named = {stem + part: random_tensor(stem + part, shape, "BF16") for (stem, part), shape in tensors.items()}
        (folder / "model.safetensors").write_bytes(encode(named, {"format": "pt"}))
        (folder / "config.json").write_text(json.dumps(config))
        scan(folder, target=None, engines=["vllm==0.33.0", "sglang==0.5.23"])
