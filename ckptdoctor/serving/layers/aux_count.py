"""How many captured layers a class builds fc for: the named variants of `aux_count` in contracts."""

from __future__ import annotations

from typing import Any

from ckptdoctor.serving.contract.settings import Settings
from ckptdoctor.unknown import Unknown

__all__ = ["aux_count"]

# Where block drafters' ids are looked for before num_hidden_layers is taken as their number.
_BLOCK_IDS = {
    "nested block ids or depth": [
        "dflash_config.target_layer_ids", "eagle_config.target_layer_ids", "dflash_config.layer_ids",
        "eagle_config.layer_ids",
    ],
    "resolved block ids or depth": [
        "eagle_aux_hidden_state_layer_ids", "dflash_config.target_layer_ids", "dspark_target_layer_ids",
        "target_layer_ids", "dflash_config.layer_ids", "eagle_config.layer_ids",
    ],
}  # fmt: skip


def aux_count(variant: str | None, settings: Settings) -> Any:
    """How many captured layers fc is built for: the named variants of `aux_count`."""
    if variant is None or variant == "three":
        return 3
    nested, top = "eagle_config.eagle_aux_hidden_state_layer_ids", "eagle_aux_hidden_state_layer_ids"
    if variant == "block_ids":
        ids = settings.first(["dflash_config.target_layer_ids", "target_layer_ids", "dflash_config.layer_ids"])
        return len(ids) if isinstance(ids, list) else Unknown("target_layer_ids in config.json")
    if variant in _BLOCK_IDS:
        # An empty list counts where the key alone is asked for.
        asked = settings.has if variant.startswith("nested") else settings.get
        ids = next((settings.get(p) for p in _BLOCK_IDS[variant] if asked(p)), None)
        return len(ids) if isinstance(ids, list) else settings.get("num_hidden_layers")
    if variant.startswith("declared"):
        declared = settings.first(
            ["num_aux_layers", "num_aux_hidden_states"] if "top" in variant else ["num_aux_hidden_states"]
        )
        if type(declared) is int:
            return declared
    places = {"declared, nested or three": [nested], "nested, top or three": [nested, top]}.get(variant, [top, nested])
    ids = next((v for p in places if (v := settings.get(p))), None)
    # Not only lists: an engine takes the length of what stands there.
    return len(ids) if isinstance(ids, (list, str)) else 3
