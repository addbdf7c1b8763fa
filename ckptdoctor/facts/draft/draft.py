"""`Draft`: what a checkpoint is as a draft, one normalised form whatever the dialect."""

from __future__ import annotations

from dataclasses import dataclass

from ckptdoctor.facts.config import Malformed
from ckptdoctor.facts.draft.absent_sizes import AbsentSize
from ckptdoctor.facts.draft.aux_layers import AuxLayers
from ckptdoctor.facts.draft.dtypes import Dtypes
from ckptdoctor.facts.draft.layout import Incomplete, Missing, Stranger
from ckptdoctor.facts.draft.sizes import ShapeMismatch, Size
from ckptdoctor.facts.draft.unmerged import Unmerged
from ckptdoctor.facts.kind import Kind
from ckptdoctor.facts.naming.canonical import Prefix
from ckptdoctor.facts.naming.private_names import PrivateNames
from ckptdoctor.facts.rope.positions import Positions
from ckptdoctor.facts.rope.scaling import Scaling
from ckptdoctor.facts.rope.target import RopeOfBoth
from ckptdoctor.unknown import Known, Unknown

__all__ = ["Architecture", "Draft", "Fc", "Flags", "Matrix", "Names", "Writing"]


@dataclass(frozen=True)
class Architecture:
    """`architectures` of the config. `algorithm` and `attention` are what that class builds, where it is known.

    `as_text` says that the name is no item of a list, `ordinary` that it is that of an ordinary model. `nested` is a
    class name that stands in an inner object alone, where no engine looks for it. `in_layers` says that the config is
    in the speculators format, whose engines go by its model_type instead: `format_algorithm` is the kind of draft that
    `speculators_model_type` means, `layer_attention` the attention that the model_type of the layer inside means.
    `wrapped` says that the config is in the form of the first vLLM releases with EAGLE, model_type eagle around the
    layer's config.
    """

    name: str | None
    line: int | None
    algorithm: str | None
    attention: str | None
    ordinary: bool = False
    nested: str | None = None
    in_layers: bool = False
    wrapped: bool = False
    as_text: bool = False
    format_name: str | None = None
    format_algorithm: str | None = None
    layer_type: str | None = None
    layer_attention: str | None = None


@dataclass(frozen=True)
class Writing:
    """Who wrote the draft, and what that writer is known to do (rules/writers).

    `id` is `unknown` when no writer's signs suffice. `records_ids`, `map` and `mask` (of a draft vocabulary: d2t and
    t2d) are `always`, `sometimes`, `mostly` or `never`; `map_order` is `ascending` or `frequency`. All are `unknown`
    for an unknown writer. `rope_base` is the rotary base that it trains with whatever the config says, None where it
    goes by the config or nothing is known.
    """

    id: str
    name: str
    records_ids: str
    map: str
    mask: str
    map_order: str
    rope_base: float | None = None


@dataclass(frozen=True)
class Matrix:
    """A stored matrix: [rows, columns]. `transposed` says that it is the wrong way round: as many rows as the
    draft is wide, and as many columns as the config or the map has tokens."""

    name: str
    file: str
    rows: int
    columns: int
    dtype: str
    transposed: bool = False


@dataclass(frozen=True)
class Fc:
    """The projection that fuses the target's states.

    `expected_in` is captured layers times the target's width as the config gives both; `mismatch` says
    how the stored width differs: `none`, `target_hidden_size` (it fits the target's real width, which
    the config does not give), `aux_count` (it fits another number of layers, `states`), `width` (it fits
    no number of layers), or `transposed` (as the flag). `square` says that input and output are as wide as the
    embedding, where SGLang and the EAGLE reference skip it. `transposed` says that it takes what it should give, and
    gives what it should take.
    """

    name: str
    file: str
    in_features: int
    out_features: int
    has_bias: bool
    expected_in: Known[int]
    states: int | None
    mismatch: Known[str]
    square: bool
    transposed: bool = False


@dataclass(frozen=True)
class Transposed:
    """A matrix that is stored as [rows, columns] and should be [columns, rows]."""

    name: str
    file: str
    rows: int
    columns: int


@dataclass(frozen=True)
class Flags:
    """Flags as the config states them; None where it does not."""

    norm_before_residual: bool | None
    norm_before_fc: bool | None
    fc_norm: bool | None
    norm_output: bool | None
    use_aux_hidden_state: bool | None
    bias: bool | None
    attention_bias: bool | None
    qkv_bias: bool | None
    eagle_fc_bias: bool | None
    embed_requires_grad: bool | None
    tie_word_embeddings: bool | None


@dataclass(frozen=True)
class Names:
    """The stored names against the parameter table of the algorithm.

    `prefixes` stand before names; `layer_names` is how the layers are called in the file (`midlayer`,
    `layers.0`); `layer_stems` are other names under which most of the parts of a layer stand (`decoder.`).
    `collisions` are stored names that mean a parameter which another name already gives. `private` are a
    trainer's own names, which count as what they mean. `numberless` says that the one stored layer has a name without a
    number (`midlayer`), beside which there can be no other. `qkv_biases` are the stored biases of q, k and v,
    `fused` the projections that are stored as one matrix as engines keep them, `unmerged` the weights that are not
    there as one.
    """

    prefixes: tuple[Prefix, ...]
    missing: tuple[Missing, ...]
    incomplete: tuple[Incomplete, ...]
    strangers: tuple[Stranger, ...]
    collisions: tuple[str, ...]
    layer_names: tuple[str, ...]
    layer_stems: tuple[str, ...]
    private: tuple[PrivateNames, ...]
    has_input_norm: bool
    fc_norm_count: int
    numberless: bool = False
    fused: tuple[str, ...] = ()
    unmerged: tuple[Unmerged, ...] = ()
    qkv_biases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Draft:
    """A draft.

    `algorithm` is `eagle1`, `eagle3`, `peagle`, `dflash`, `dspark`, `mtp`, `medusa`, `plain` or
    `unknown`; `variant` names a relative (`domino`, `dflash2`, `eagle3.1`). `block` is True for the
    algorithms that draft a block in one pass. `tabled` is True where the full set of parameters is
    known, so that missing ones can be told. `attention` is `llama`, `qwen3` (with q_norm and k_norm) or
    `mla`. `depth_claimed` and `depth_stored` count decoder layers. `target_hidden_size` is the config's
    word. `depth_of_target` says that num_hidden_layers is the number of layers of the target that was named, which is
    not known of any other. `model_type` is the config's kind: its own, else that of the layer inside, else that of the
    speculators format. `scaling` are its descriptions of rotary scaling, in both spellings; `rope` is its rotary
    embedding against the target's. `sizes` are claims of the config that no tensor bears out, `shapes` tensors that fit
    no size, `absent_sizes` those that are not given and that engines fill in with others than the tensors have.
    """

    algorithm: str
    algorithm_name: str
    kind: Kind
    variant: str | None
    block: bool
    tabled: bool
    attention: Known[str]
    architecture: Architecture
    writer: Writing
    has_config: bool
    model_type: str | None
    hidden_size: Known[int]
    heads: int | None
    kv_heads: int | None
    head_dim: int | None
    vocab_size: int | None
    target_hidden_size: int | None
    depth_claimed: int | None
    depth_claimed_line: int | None
    depth_claimed_key: str | None
    depth_stored: Known[int]
    first_attention_input: Known[int]
    fc: Known[Fc | None]
    head: Known[Matrix | None]
    embedding: Known[Matrix | None]
    names: Known[Names]
    sizes: Known[tuple[Size, ...]]
    absent_sizes: Known[tuple[AbsentSize, ...]]
    shapes: Known[tuple[ShapeMismatch, ...]]
    flags: Flags
    aux: AuxLayers
    positions: Positions
    scaling: tuple[Scaling, ...]
    rope: Known[RopeOfBoth]
    dtypes: Dtypes
    malformed: tuple[Malformed, ...]
    depth_of_target: bool = False

    @property
    def transposed(self) -> Known[tuple[Transposed, ...]]:
        """fc, the head and the embedding where they are stored the wrong way round."""
        fc, found = self.fc, []
        if isinstance(fc, Unknown) or isinstance(self.head, Unknown) or isinstance(self.embedding, Unknown):
            return Unknown("the headers of the weights")
        if fc is not None and fc.transposed:
            found.append(Transposed(fc.name, fc.file, fc.out_features, fc.in_features))
        for matrix in (self.head, self.embedding):
            if matrix is not None and matrix.transposed:
                found.append(Transposed(matrix.name, matrix.file, matrix.rows, matrix.columns))
        return tuple(found)
