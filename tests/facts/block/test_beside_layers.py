"""Sizes of a block drafter's parts, solved from the shapes of their tensors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.block.beside_layers import Parts, read_parts
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.knowledge import knowledge

_SIZES = st.integers(1, 512)


def _parts(shapes: dict[str, tuple[int, ...]], known: dict[str, int], layers: int = 1) -> Parts:
    tensors = {name: TensorInfo(name, "BF16", shape, "model.safetensors") for name, shape in shapes.items()}
    words = knowledge()
    return read_parts(tensors, Config(None, words), words.words["block"], known, layers)


def _missing(parts: Parts) -> dict[str, int]:
    return {size.name: size.stored for size in parts.missing_sizes}


@given(hidden=_SIZES, gru=_SIZES, width=_SIZES, vocab=_SIZES)
def test_the_sizes_of_a_domino_projector_are_solved_from_its_tensors(
    hidden: int, gru: int, width: int, vocab: int
) -> None:
    shapes = {
        "prefix_gru.weight_ih_l0": (3 * gru, hidden),
        "prefix_gru.weight_hh_l0": (3 * gru, gru),
        "embed_proj.0.weight": (width, hidden + gru),
        "embed_proj.2.weight": (vocab, width),
    }
    parts = _parts(shapes, {"H": hidden, "V": vocab, "D": vocab})
    assert _missing(parts) == {"gru_hidden_dim": gru, "emb_dim": width}
    assert parts.shapes == ()


@given(kernel=st.integers(1, 8), group=st.integers(1, 32), groups=st.integers(1, 16))
def test_a_size_below_the_line_is_solved_too(kernel: int, group: int, groups: int) -> None:
    hidden = group * groups
    shapes = {
        "layers.0.attention_conv.base_kernel": (2, kernel, hidden),
        "layers.0.attention_conv.kernel_projection.weight": (2 * kernel * groups, hidden),
    }
    parts = _parts(shapes, {"H": hidden})
    assert _missing(parts) == {"conv_kernel_size": kernel, "conv_group_size": group}
    assert parts.incomplete[0].lacking == (
        "layers.0.mlp_conv.base_kernel",
        "layers.0.mlp_conv.kernel_projection.weight",
    )


@pytest.mark.parametrize("shape", [(), (7,), (0, 0), (5, 5, 5), (2**40, 1)])
def test_shapes_of_any_kind_are_measured_and_not_believed(shape: tuple[int, ...]) -> None:
    parts = _parts({"markov_head.markov_w1.weight": shape}, {"H": 64, "V": 512, "D": 512})
    assert [size.tensor for size in parts.shapes] == ["markov_head.markov_w1.weight"]


def test_tensors_that_disagree_among_themselves_give_no_size() -> None:
    shapes = {"markov_head.markov_w1.weight": (512, 16), "markov_head.markov_w2.weight": (512, 24)}
    parts = _parts(shapes, {"H": 64, "V": 512, "D": 512})
    assert parts.sizes == ()
    assert len(parts.shapes) == 1
