"""Sizes that the config does not give, and what engines take for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckptdoctor.facts.config import Config
from ckptdoctor.facts.knowledge import Knowledge

__all__ = ["AbsentSize", "absent_sizes"]

_SYMBOLS = {"hidden_size": "H", "intermediate_size": "I"}


@dataclass(frozen=True)
class AbsentSize:
    """A size that config.json does not give.

    `assumed` is what transformers fills in by the model_type, `stored` what the tensors show (None where they do not
    show it by themselves). `rows` are the query rows, for the number of heads.
    """

    name: str
    assumed: int
    stored: int | None
    rows: int | None


def absent_sizes(config: Config, values: Mapping[str, int], known: Knowledge) -> tuple[AbsentSize, ...]:
    """The sizes that are given nowhere and filled in with another value than the tensors have.

    `values` are the sizes by symbol, as measured. Only for configs of a model_type whose defaults are known, and not
    for the nested ones, which are read without defaults.
    """
    kind = config.at("model_type")
    if kind is None or not isinstance(kind.value, str) or config.at("transformer_layer_config") is not None:
        return ()
    assumed: Mapping[str, int] = known.words["geometry"]["assumed"].get(kind.value, {})
    found = []
    for name, default in assumed.items():
        if config.all_of(known.fields["sizes"][name]):
            continue
        stored = values.get(_SYMBOLS.get(name, ""))
        rows = values.get("Q") if name == "num_attention_heads" else None
        if stored not in (None, default) or (rows is not None and rows % default):
            found.append(AbsentSize(name, default, stored, rows))
    return tuple(found)
