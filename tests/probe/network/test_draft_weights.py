"""Weights come out alike from whatever file, prefix, dtype and shard they are stored in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")

from builder.container import encode  # noqa: E402
from builder.draft import Tensor  # noqa: E402
from builder.values import random_tensor  # noqa: E402
from recipe_cases import TRAINERS  # noqa: E402

from ckptdoctor.checkpoint import open_checkpoint  # noqa: E402
from ckptdoctor.errors import CannotExamineError  # noqa: E402
from ckptdoctor.facts import describe  # noqa: E402
from ckptdoctor.probe.network.anatomy_reading import anatomy_of  # noqa: E402
from ckptdoctor.probe.network.network import open_draft  # noqa: E402
from ckptdoctor.probe.network.weights import read_weights  # noqa: E402

DRAFT = TRAINERS / "sf_eagle3_llama_sglang"


def weights_of(folder: Path) -> dict[str, Any]:
    checkpoint = open_checkpoint(str(folder))
    facts = describe(checkpoint, None)
    return read_weights(checkpoint, facts, anatomy_of(facts))


def stored() -> dict[str, Tensor]:
    """The tensors of the draft as the file has them."""
    from builder.container import split

    header, data = split((DRAFT / "model.safetensors").read_bytes())
    return {
        name: Tensor(entry["dtype"], tuple(entry["shape"]), data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
        if name != "__metadata__"
    }


def as_torch() -> dict[str, Any]:
    kinds = {"BF16": torch.bfloat16, "I64": torch.int64, "BOOL": torch.bool}
    return {
        name: torch.frombuffer(bytearray(t.data), dtype=kinds[t.dtype]).reshape(t.shape) for name, t in stored().items()
    }


def draft(folder: Path, **files: bytes) -> Path:
    folder.mkdir()
    shutil.copy(DRAFT / "config.json", folder)
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def same(one: dict[str, Any], other: dict[str, Any], tolerance: float = 0.0) -> bool:
    return one.keys() == other.keys() and all(
        torch.allclose(one[name].double(), other[name].double(), rtol=0, atol=tolerance) for name in one
    )


def test_names_and_dtypes() -> None:
    found = weights_of(DRAFT)
    assert {name: weight.dtype for name, weight in found.items() if weight.dtype != torch.float32} == {
        "d2t": torch.int64
    }
    assert "t2d" not in found
    assert found["layers.0.self_attn.q_proj.weight"].shape == (64, 128)
    raw = as_torch()
    assert torch.equal(found["fc.weight"], raw["fc.weight"].float())
    assert torch.equal(found["d2t"], raw["d2t"])


def test_prefixes_and_other_layer_names_are_the_same_draft(tmp_path: Path) -> None:
    prefixed = {f"draft_model.model.{name}": tensor for name, tensor in stored().items()}
    other = {name.replace("midlayer.", "layers.36."): tensor for name, tensor in stored().items()}
    for number, tensors in enumerate((prefixed, other)):
        folder = draft(tmp_path / str(number), model__safetensors=encode(tensors))
        assert same(weights_of(folder), weights_of(DRAFT))


def test_shards_are_one_draft(tmp_path: Path) -> None:
    tensors = stored()
    halves = [dict(list(tensors.items())[0::2]), dict(list(tensors.items())[1::2])]
    files = {f"model-0000{n + 1}-of-00002__safetensors": encode(half) for n, half in enumerate(halves)}
    index = {
        "weight_map": {
            name: f"model-0000{n + 1}-of-00002.safetensors" for n, half in enumerate(halves) for name in half
        }
    }
    folder = draft(tmp_path / "draft", **files)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert same(weights_of(folder), weights_of(DRAFT))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 0.0), ("float64", 0.0), ("float16", 1e-3)])
def test_pickles_and_other_dtypes(dtype: str, tolerance: float, tmp_path: Path) -> None:
    folder = draft(tmp_path / "draft")
    tensors = {n: t.to(getattr(torch, dtype)) if t.is_floating_point() else t for n, t in as_torch().items()}
    torch.save({"state_dict": tensors, "epoch": 3}, folder / "pytorch_model.bin")
    assert same(weights_of(folder), weights_of(DRAFT), tolerance)


def test_projections_stored_as_one_are_the_same_draft(tmp_path: Path) -> None:
    tensors = as_torch()
    at = "midlayer."
    for fused, own in (("self_attn.qkv_proj", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
                       ("mlp.gate_up_proj", ("mlp.gate_proj", "mlp.up_proj"))):  # fmt: skip
        tensors[f"{at}{fused}.weight"] = torch.cat([tensors.pop(f"{at}{name}.weight") for name in own])
    folder = draft(tmp_path / "pickled")
    torch.save(tensors, folder / "pytorch_model.bin")
    assert same(weights_of(folder), weights_of(DRAFT))
    stored_as_one = {
        name: Tensor(
            {torch.bfloat16: "BF16", torch.int64: "I64", torch.bool: "BOOL"}[t.dtype],
            tuple(t.shape),
            t.contiguous().view(torch.uint8).numpy().tobytes(),
        )
        for name, t in tensors.items()
    }
    other = draft(tmp_path / "plain", model__safetensors=encode(stored_as_one))
    assert same(weights_of(other), weights_of(DRAFT))


def test_a_file_that_ends_too_early_says_so(tmp_path: Path) -> None:
    folder = draft(tmp_path / "draft", model__safetensors=(DRAFT / "model.safetensors").read_bytes())
    checkpoint = open_checkpoint(str(folder))
    facts = describe(checkpoint, None)
    made = anatomy_of(facts)
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(2000)
    with pytest.raises(CannotExamineError, match="ends inside"):
        read_weights(checkpoint, facts, made)


def test_a_tensor_without_values_says_so(tmp_path: Path) -> None:
    folder = draft(tmp_path / "draft")
    tensors = as_torch()
    tensors["fc.weight"] = tensors["fc.weight"].to_sparse()
    torch.save(tensors, folder / "pytorch_model.bin")
    with pytest.raises(CannotExamineError, match=r"fc\.weight"):
        weights_of(folder)


def test_what_the_draft_lacks_comes_from_its_target(tmp_path: Path) -> None:
    target = tmp_path / "target"
    shutil.copytree(DRAFT / "target", target)
    matrices = {name: random_tensor(name, (512, 64)) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    (target / "model.safetensors").write_bytes(encode(matrices))
    network, _, _ = open_draft(str(DRAFT), str(target))
    assert network.weights["embed_tokens.weight"].shape == (512, 64)
    assert network.weights["lm_head.weight"].shape == (128, 64)
    with pytest.raises(CannotExamineError, match="--target"):
        open_draft(str(DRAFT))[0].embed(torch.tensor([1]))
    full = {name: tensor for name, tensor in stored().items() if name not in ("lm_head.weight", "d2t", "t2d")}
    folder = draft(tmp_path / "full", model__safetensors=encode(full))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "draft_vocab_size": 512}))
    network, anatomy, _ = open_draft(str(folder), str(target))
    assert anatomy.draft_vocab_size == 512
    assert torch.equal(network.weights["lm_head.weight"], as_float(matrices["lm_head.weight"]))


def as_float(tensor: Tensor) -> Any:
    return torch.frombuffer(bytearray(tensor.data), dtype=torch.bfloat16).float().reshape(tensor.shape)
