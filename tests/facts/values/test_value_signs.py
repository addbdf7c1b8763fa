"""Values of weights: what is measured, in constant memory, and what is a sign of weights that were never trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builder.values import floats
from measuring.values import opened, values
from recipe_cases import RECIPES, found, need_torch, scan_of

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.repair.fixing import fix


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F32"])
@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda random, rows, columns: random.standard_normal((rows, columns)) * 0.02, "initializer_range"),
        (lambda random, rows, columns: random.uniform(-1, 1, (rows, columns)) / columns**0.5, "nn.Linear"),
        (
            lambda random, rows, columns: random.uniform(-1, 1, (rows, columns)) * (6 / (rows + columns)) ** 0.5,
            "xavier_uniform_",
        ),
        (lambda random, rows, columns: random.standard_normal((rows, columns)), "nn.Embedding"),
    ],
)
@pytest.mark.parametrize("shape", [(48, 96), (300, 64), (64, 1000)])
def test_what_initialisers_make_is_known_as_such(
    tmp_path: Path, make: Any, word: str, dtype: str, shape: tuple[int, int]
) -> None:
    array = make(np.random.default_rng(shape[0]), *shape)
    parts = values(opened(tmp_path, {"fc.weight": floats(array, dtype)})).parts
    assert [word in matrix.called for part in parts for matrix in part.matrices] == [True]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda a, r: a * r.lognormal(0, 0.15, (len(a), 1)), id="rows of different weight"),
        pytest.param(lambda a, r: a * r.lognormal(0, 0.15, a.shape[1]), id="columns of different weight"),
        pytest.param(lambda a, r: a + 0.3 * 0.02 * np.outer(r.standard_normal(len(a)), r.standard_normal(a.shape[1])),
                     id="a small low-rank update"),
        pytest.param(lambda a, r: r.standard_t(5, a.shape) * 0.02, id="heavy tails"),
        pytest.param(lambda a, _: a + 0.002, id="a mean"),
        pytest.param(lambda a, _: a * 1.05, id="another spread"),
    ],
)  # fmt: skip
def test_what_training_does_to_a_matrix_takes_it_out(tmp_path: Path, change: Any) -> None:
    random = np.random.default_rng(4)
    array = change(random.standard_normal((512, 512)) * 0.02, random)
    assert values(opened(tmp_path, {"fc.weight": floats(array, "F32")})).parts == ()


def test_zero_centred_norms_begin_at_zero(tmp_path: Path) -> None:
    tensors = {"layers.0.input_layernorm.weight": floats(np.zeros(64))}
    gemma = values(opened(tmp_path / "gemma", tensors, {"model_type": "gemma3_text"}))
    assert ([p.start for p in gemma.parts], gemma.damage.zeros) == ([0.0], ())
    llama = values(opened(tmp_path / "llama", tensors, {"model_type": "llama"}))
    assert (llama.parts, [z.kind for z in llama.damage.zeros]) == ((), ["norm"])


def test_fixed_states_and_biases_may_be_zeros(tmp_path: Path) -> None:
    tensors = {
        "mask_hidden": floats(np.zeros((1, 1, 192))),
        "fc.bias": floats(np.zeros(64)),
        "fc.weight": floats(np.random.default_rng(0).standard_normal((64, 192)) * 0.5),
        "layers.0.self_attn.sinks": floats(np.zeros(8)),
    }
    damage = values(opened(tmp_path, tensors)).damage
    assert (damage.zeros, damage.constants, damage.zero_starts, damage.placeholder) == ((), (), (), False)


@pytest.mark.parametrize(
    "config",
    [
        {"initializer_range": "wide", "num_hidden_layers": 10**9, "dtype": 5},
        {"initializer_range": float("1e300"), "num_hidden_layers": -1, "torch_dtype": ["float16"]},
        {"initializer_range": True, "transformer_layer_config": [], "model_type": {"a": 1}},
        {"transformer_layer_config": {"initializer_range": 0, "model_type": None}},
    ],
)
def test_nothing_that_a_config_holds_stops_the_reading(tmp_path: Path, config: dict[str, Any]) -> None:
    array = np.random.default_rng(0).standard_normal((64, 192)) * 0.02
    assert values(opened(tmp_path, {"fc.weight": floats(array)}, config)).read == 1


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (1, 1), (2, 2, 2, 2)])
def test_tensors_of_any_shape_are_read(tmp_path: Path, shape: tuple[int, ...]) -> None:
    measured = values(opened(tmp_path, {"layers.0.x.weight": floats(np.ones(shape), "F32")}))
    assert measured.read + len(measured.unread) == 1


def test_a_repaired_copy_is_made_with_values_read(tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    assert "VAL004" in found(scan_of(RECIPES["embedding-random"], draft))
    outcome = fix(draft, tmp_path / "out", target=draft / "target", deep=True, unsafe=True, select=["drop-embedding"])
    assert outcome.written is not None
    assert "embed_tokens.weight" not in open_checkpoint(str(tmp_path / "out")).tensors


def test_an_embedding_that_was_trained_is_not_left_out(tmp_path: Path) -> None:
    recipe = RECIPES["embedding-random"]
    recipe = replace(recipe, changes=(*recipe.changes, ("set_config", {"embed_requires_grad": True})))
    (finding,) = [f for f in scan_of(recipe, tmp_path / "draft").findings if f.rule == "VAL004"]
    assert finding.fix is not None
    assert finding.fix.refused is not None


def test_the_same_values_under_other_names_are_found(tmp_path: Path) -> None:
    array = floats(np.random.default_rng(0).standard_normal((64, 128)))
    new = opened(tmp_path / "new", {"mtp_layers.0.mlp.down_proj.weight": array})
    base = {f"model.layers.{n}.mlp.down_proj.weight": floats(np.full((64, 128), n + 0.5)) for n in range(6)}
    old = opened(tmp_path / "old", {**base, "mtp.layers.0.mlp.down_proj.weight": array})
    against = values(new, old).against
    assert against is not None
    assert (against.learned, against.unchanged, against.renamed, against.missing) == (1, 1, 1, ())


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_layer_that_was_really_trained_has_no_sign(tmp_path: Path, dtype: str) -> None:
    need_torch()
    import torch

    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    state = _trained(torch, steps=200)
    tensors = {name: floats(value.to(kind).float().numpy(), {"bfloat16": "BF16", "float32": "F32"}[dtype])
               for name, value in state.items()}  # fmt: skip
    assert values(opened(tmp_path / dtype, tensors)).parts == ()
    fresh = {name: floats(value.float().numpy(), "F32") for name, value in _trained(torch, steps=0).items()}
    (untrained,) = values(opened(tmp_path / f"fresh-{dtype}", fresh)).untrained
    assert (len(untrained.norms), len(untrained.matrices)) == (1, 3)


def _trained(torch: Any, steps: int) -> dict[str, Any]:
    """A small gated layer with a norm that learns a fixed function, as a draft learns its target."""
    width, inner = 64, 128
    random = torch.Generator().manual_seed(1)

    def matrix(rows: int, columns: int) -> Any:
        return (torch.randn(rows, columns, generator=random) * 0.02).requires_grad_()

    names = {"gate_proj": (inner, width), "up_proj": (inner, width), "down_proj": (width, inner)}
    weights = {f"layers.0.mlp.{name}.weight": matrix(*shape) for name, shape in names.items()}
    weights["layers.0.post_attention_layernorm.weight"] = torch.ones(width).requires_grad_()
    gate, up, down, norm = weights.values()
    teacher = torch.randn(width, width, generator=random) / 8
    scales = torch.exp(torch.randn(width, generator=random) * 0.7)
    optimiser = torch.optim.AdamW(weights.values(), lr=2e-3, weight_decay=0.0)
    for _ in range(steps):
        state = torch.randn(128, width, generator=random) * scales
        normed = state * torch.rsqrt((state**2).mean(-1, keepdim=True) + 1e-6) * norm
        guess = (torch.nn.functional.silu(normed @ gate.T) * (normed @ up.T)) @ down.T
        loss = ((guess - torch.tanh(state @ teacher)) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return {name: value.detach() for name, value in weights.items()}
