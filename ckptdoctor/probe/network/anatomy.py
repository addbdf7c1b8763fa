"""`Anatomy`: what the network of a draft is made of. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.probe.network.turning import Turning

__all__ = ["ACTIVATION", "EPS", "Anatomy", "Latent", "Part"]

EPS = 1e-6
"""rms_norm_eps where the config gives none: LlamaConfig, Qwen3Config and DeepseekV3Config of transformers 5.24, and
EConfig of the EAGLE reference."""
ACTIVATION = "silu"


@dataclass(frozen=True)
class Part:
    """A stored tensor, or of one that engines fuse the rows from `first` on. `shape` is that of the part."""

    info: TensorInfo
    shape: tuple[int, ...]
    first: int | None = None

    @property
    def name(self) -> str:
        """The name in the file."""
        return self.info.name


@dataclass(frozen=True)
class Latent:
    """The sizes of MLA: low-rank query (None for a plain one) and key-value, the parts of a head without and with a
    position, and the size of a value."""

    query: int | None
    key_value: int
    plain: int
    turned: int
    value: int


@dataclass(frozen=True)
class Anatomy:
    """What the network is made of.

    `algorithm` is `eagle3` or `peagle`, `attention` `llama`, `qwen3` (with q_norm and k_norm) or `mla`. `hidden` is H,
    `target_width` T, `states` K, the number of states that fc takes (1 without fc). `fc`, `fc_norm`, `input_norm`,
    `hidden_norm`, `input_layernorm`, `norm` and `head` say which parts are stored. `first_norms` is the name of the
    first norm of each layer after the first. `windows` has the sliding window of each layer, None for the whole text;
    `parallel` says that all further tokens of a chain are drafted at once, from masked positions, with which the window
    moves on. `mask_token` is the token at masked positions. `tied` says that the head is the embedding. `vocab_size` is
    that of the embedding, `draft_vocab_size` the number of ids that the head gives.
    """

    algorithm: str
    attention: str
    hidden: int
    target_width: int
    states: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    turning: Turning
    eps: float = EPS
    activation: str = ACTIVATION
    latent: Latent | None = None
    windows: tuple[int | None, ...] = (None,)
    parallel: bool = False
    first_norms: tuple[str, ...] = ()
    fc: bool = True
    fc_norm: bool = False
    input_norm: bool = False
    hidden_norm: bool = True
    input_layernorm: bool = True
    norm: bool = True
    head: bool = True
    tied: bool = False
    mask_hidden: bool = False
    mask_token: int | None = None
    parts: Mapping[str, Part] = field(default_factory=dict, repr=False, compare=False)
