"""The parts of `Draft` that take more than a lookup: class, writer, fc, the first attention, and the names."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.draft import Fc, Matrix, Names, Writing
from ckptdoctor.facts.draft.layout import Layout
from ckptdoctor.facts.draft.signs import Verdict
from ckptdoctor.facts.draft.unmerged import unmerged_of
from ckptdoctor.facts.knowledge import Algorithm, Knowledge
from ckptdoctor.facts.naming.canonical import Named, prefixes_of
from ckptdoctor.facts.naming.private_names import private_names_of
from ckptdoctor.facts.target import Target
from ckptdoctor.unknown import Known, Unknown, known_or

__all__ = [
    "fc_of",
    "first_attention_input",
    "matrix_of",
    "model_type_of",
    "names_of",
    "writing_of",
]

_FLOATS = frozenset({"BF16", "F16", "F32", "F64"})


def model_type_of(config: Config) -> str | None:
    """The model_type of the config; None where it is none."""
    places = ("model_type", "transformer_layer_config.model_type", "speculators_model_type")
    return next((f.value for f in config.all_of(places) if isinstance(f.value, str)), None)


def writing_of(written: Verdict, known: Knowledge) -> Writing:
    """What is known of the writer that the signs name."""
    if written.winner is None:
        return Writing("unknown", "an unknown writer", "unknown", "unknown", "unknown", "unknown")
    writer = known.writers[written.winner]
    said = writer.conventions
    return Writing(
        writer.id, writer.name, said["records_ids"], said["map"], said["mask"], said["map_order"],
        rope_base=said.get("rope_theta"),
    )  # fmt: skip


def matrix_of(info: TensorInfo | None, hidden: int | None = None, tokens: Container[int] = ()) -> Matrix | None:
    """A stored matrix; None for what has not two dimensions. It should be [one of `tokens`, `hidden`]."""
    if info is None or len(info.shape) != 2:
        return None
    rows, columns = info.shape
    transposed = info.dtype in _FLOATS and rows == hidden and columns != hidden and columns in tokens
    return Matrix(info.name, info.file, rows, columns, info.dtype, transposed and rows not in tokens)


def first_attention_input(canonical: Mapping[str, TensorInfo]) -> Known[int]:
    """Columns of the query projection of layer 0."""
    for projection in ("q_proj", "q_a_proj", "qkv_proj"):
        info = canonical.get(f"layers.0.self_attn.{projection}.weight")
        if info is not None and len(info.shape) == 2:
            return info.shape[1]
    return Unknown("a query projection in layer 0")


def fc_of(
    canonical: Mapping[str, TensorInfo],
    values: Mapping[str, int],
    claimed: Known[int],
    algorithm: Algorithm,
    target: Target | None,
) -> Known[Fc | None]:
    """fc as stored, against what the config makes it; None where none is stored."""
    info = canonical.get("fc.weight")
    if info is None or len(info.shape) != 2 or not algorithm.tabled:
        return None
    out, width_in = info.shape
    width = values.get("T") or values.get("H")
    expected: Known[int]
    if algorithm.kind.fc_takes_embedding:
        expected = 2 * values["H"] if "H" in values else Unknown("hidden_size in config.json")
    elif isinstance(claimed, Unknown):
        expected = claimed
    else:
        expected = claimed * width if width else Unknown("hidden_size in config.json")
    states = width_in // width if width and width_in % width == 0 else None
    mismatch: Known[str]
    # The width of the draft on its input and not on its output is what only a transposed one has.
    transposed = info.dtype in _FLOATS and width_in == values.get("H") != out and out == expected
    if isinstance(expected, Unknown):
        mismatch = expected
    elif transposed:
        mismatch = "transposed"
    elif expected == width_in:
        mismatch = "none"
    else:
        real_width = known_or(target.hidden_size, None) if target is not None else None
        if real_width and not isinstance(claimed, Unknown) and claimed * real_width == width_in:
            mismatch, states = "target_hidden_size", claimed
        elif states:
            mismatch = "aux_count"
        else:
            mismatch = "width"
    return Fc(
        name=info.name, file=info.file, in_features=width_in, out_features=out, has_bias="fc.bias" in canonical,
        expected_in=expected, states=states, mismatch=mismatch, square=width_in == values.get("H"),
        transposed=transposed,
    )  # fmt: skip


def names_of(
    layout: Layout, named: Mapping[str, Named], canonical: Mapping[str, TensorInfo], known: Knowledge
) -> Names:
    """The stored names against the parameter table."""
    return Names(
        prefixes=prefixes_of(named.values(), known.naming),
        missing=layout.missing,
        incomplete=layout.incomplete,
        strangers=layout.strangers,
        collisions=layout.collisions,
        layer_names=layout.layer_names,
        layer_stems=layout.stems,
        private=private_names_of(named.values()),
        has_input_norm="input_norm.weight" in canonical,
        fused=tuple(t.name for n, t in canonical.items() if re.search(r"\.(qkv_proj|gate_up_proj)\.weight", n)),
        unmerged=unmerged_of(named.values(), known.naming),
        numberless=layout.layer_names == ("midlayer",) and len(layout.layers) == 1,
        qkv_biases=tuple(t.name for n, t in canonical.items() if re.search(r"\.self_attn\.(q|k|v|qkv)_proj\.bias$", n)),
        fc_norm_count=sum(re.match(r"fc_norm\.\d+\.weight$", n) is not None for n in canonical),
    )
