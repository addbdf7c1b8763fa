"""The scaling of the rotary embedding: what its kind needs and has, and the sections of positions in three axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.config import Config, Field

__all__ = ["Scaling", "read_scaling", "rotary_number", "sections_of"]

_OLD, _NEW = "rope_scaling", "rope_parameters"
_MOST_SECTIONS = 8


@dataclass(frozen=True)
class Scaling:
    """One description of rotary scaling, where the config has one.

    It stands at `key`, `line`. `kind` is its kind (`default` where it gives none), `known` whether any release of
    SGLang or vLLM has one of this name. `contrary` is the other kind that it names where `type` and `rope_type` differ.
    `lacks` are the fields that the kind cannot do without. `section` are the parts of the rotary frequencies for time,
    height and width, `pairs` how many frequencies there are to part, None where that is not known.
    """

    key: str
    line: int | None
    kind: str
    known: bool
    contrary: str | None
    lacks: tuple[str, ...]
    section: tuple[int, ...] | None
    pairs: int | None

    @property
    def parted(self) -> int | None:
        """How many frequencies the sections part; None without sections."""
        return None if self.section is None else sum(self.section)


def read_scaling(config: Config, place: str, head_dim: int | None, words: Mapping[str, Any]) -> tuple[Scaling, ...]:
    """The descriptions of scaling beside each other at `place` (`rope_scaling` and `rope_parameters`).

    `head_dim` is what the rotary embedding covers; `words` is rules/facts/rope.yaml. One with an object for each kind
    of layer is left out.
    """
    found = []
    for key in (_OLD, _NEW):
        field = config.mapping(place + key)
        if field is not None and field.value:
            if any(isinstance(value, dict) for value in field.value.values()):
                continue
            part = _partial(config, place, field.value)
            found.append(_described(field, key == _OLD, _pairs(head_dim, part), words["scaling"]))
    return tuple(found)


def sections_of(value: Any) -> tuple[int, ...] | None:
    """`mrope_section` as whole numbers; None for anything else."""
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_SECTIONS:
        return None
    return tuple(value) if all(type(v) is int and 0 <= v < 2**20 for v in value) else None


def rotary_number(value: Any) -> float | None:
    """A positive number of a rotary embedding as a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 2**63:
        return None
    return float(value)


def _described(field: Field, old: bool, pairs: int | None, kinds: Mapping[str, Sequence[Any]]) -> Scaling:
    said: Mapping[str, Any] = field.value
    names = [said[key] for key in ("rope_type", "type") if isinstance(said.get(key), str)]
    kind = names[0] if names else "default"
    lacks = [_words(need) for need in kinds.get(kind, ()) if not any(said.get(k) is not None for k in _any_of(need))]
    # rope_scaling without a kind is refused by readers of either spelling; rope_parameters is then of the kind default.
    if old and not names and rotary_number(said.get("factor")) is not None:
        lacks.append("rope_type")
    return Scaling(
        key=field.key,
        line=field.line,
        kind=kind,
        known=kind in kinds,
        contrary=names[1] if len(names) > 1 and names[1] != kind and {*names} != {"default", "mrope"} else None,
        lacks=tuple(lacks),
        section=sections_of(said.get("mrope_section")),
        pairs=pairs,
    )


def _partial(config: Config, place: str, said: Mapping[str, Any]) -> float:
    beside = config.at(place + "partial_rotary_factor")
    part = rotary_number(said.get("partial_rotary_factor", beside.value if beside else None))
    return part if part is not None and part <= 1 else 1.0


def _pairs(head_dim: int | None, part: float) -> int | None:
    return int(head_dim * part) // 2 if head_dim is not None else None


def _any_of(need: Any) -> Sequence[str]:
    return need if isinstance(need, list) else [need]


def _words(need: Any) -> str:
    return " or ".join(_any_of(need))
