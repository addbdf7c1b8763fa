"""The kinds of attention of a block drafter's layers (`layer_types`) and the window of those that slide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.block.fields import Stated, flag_of, read_values, stated
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.draft import Draft

__all__ = ["LayerKinds", "read_layer_kinds"]

_SLIDING = "sliding_attention"
_MOST = 4096


@dataclass(frozen=True)
class LayerKinds:
    """`layer_types` of the draft: how many (None: not stated), for how many layers.

    `malformed` is a value that is no list. `alike` is the list with one entry for each layer, where all entries are the
    same. `window_missing` says that a layer slides and no window is stated, nor one that transformers fills in
    (Qwen3Config has 4096 where use_sliding_window is true). `swa_without_window` is use_swa of dflash_config with no
    window.
    """

    key: str | None
    line: int | None
    count: int | None
    layers: int | None
    malformed: Stated | None
    alike: tuple[str, ...] | None
    window_missing: bool
    swa_without_window: bool


def read_layer_kinds(config: Config, draft: Draft, fields: Mapping[str, Any]) -> LayerKinds:
    """Read `layer_types` and the windows (rules/facts/block.yaml)."""
    field = next(iter(config.all_of(fields["layer_types"])), None)
    kinds = field.value if field is not None else None
    proper = isinstance(kinds, list) and len(kinds) <= _MOST
    slides = isinstance(kinds, list) and proper and _SLIDING in kinds
    by_default = flag_of(config, fields["window_by_default"])
    window = read_values(config, fields["window"]).first is not None or (by_default is not None and by_default.value)
    swa = flag_of(config, fields["use_swa"])
    entries = kinds if isinstance(kinds, list) and proper else []
    same = entries[0] if entries and isinstance(entries[0], str) and all(e == entries[0] for e in entries) else None
    layers = draft.depth_claimed
    return LayerKinds(
        key=field.key if field is not None else None,
        line=field.line if field is not None else None,
        count=len(kinds) if isinstance(kinds, list) and proper else None,
        layers=layers,
        alike=(same,) * layers if same is not None and layers is not None and layers <= _MOST else None,
        malformed=stated(field) if field is not None and not proper else None,
        window_missing=slides and not window,
        swa_without_window=swa is not None and swa.value is True and not slides and not window,
    )
