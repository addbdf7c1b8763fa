"""Symbols for what draft and target must share in one engine: the pages of the key/value cache, and the dtype."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.facts.draft.attention_geometry import KeyValueShape, target_kv_shape
from ckptdoctor.facts.draft.dtypes import own_dtype, target_dtype
from ckptdoctor.launch.line import Launch
from ckptdoctor.serving.contract.settings import Settings
from ckptdoctor.unknown import Known, Unknown

__all__ = ["symbols_beside"]

_DTYPE = re.compile(r"--dtype[=\s]+[\"']?(?!auto\b)\w")
_NOT_KNOWN = Unknown("a flat config of a kind that is computed in a dtype of its own")


def symbols_beside(
    facts: Facts, settings: Settings, claims: Mapping[str, Any], launch: Launch | None
) -> dict[str, Known[int] | Known[str]]:
    """`kv_page` and `target_kv_page`: numbers per token and rank in a page of the draft's and of the target's keys.

    `own_dtype` and `target_dtype`: what each is computed in by an engine that goes by the config of each. Both are
    unknown where the launch line gives one dtype for both.
    """
    ranks = launch.tensor_parallel if launch is not None else 1
    theirs = target_kv_shape(facts.target)
    found: dict[str, Known[int] | Known[str]] = {
        "kv_page": _kv_page(claims, ranks),
        "target_kv_page": theirs if isinstance(theirs, Unknown) else theirs.page(ranks),
        "own_dtype": _NOT_KNOWN,
        "target_dtype": _NOT_KNOWN,
    }
    asked = launch is not None and _DTYPE.search(launch.text) is not None
    gemma = str(settings.get("model_type")).startswith("gemma")
    if facts.target is not None and not asked and not gemma and facts.config.at("hidden_size") is not None:
        word = target_dtype(facts.target)
        own = [settings.get("torch_dtype"), settings.get("dtype")]
        found["own_dtype"] = own_dtype(own)
        found["target_dtype"] = word if isinstance(word, Unknown) else own_dtype([word])
        if isinstance(word, Unknown) and own == [None, None]:  # both are read by the same code, and say the same
            found["target_dtype"] = found["own_dtype"]
    return found


def _kv_page(claims: Mapping[str, Any], ranks: int) -> Known[int]:
    rows, width = claims.get("KV"), claims.get("hd")
    if type(rows) is not int or type(width) is not int or not width or type(claims.get("KL")) is int:
        return Unknown("the key and value heads in config.json")
    return KeyValueShape(rows // width, width).page(ranks)
