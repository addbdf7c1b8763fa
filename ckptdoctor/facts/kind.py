"""`Kind`: what holds for every draft of one algorithm, as `kind` in rules/algorithms says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["UNKNOWN_KIND", "Kind"]


@dataclass(frozen=True)
class Kind:
    """What holds for every draft of one algorithm.

    `known`: the algorithm was recognised. `model`: an ordinary model, which only some engines take for a draft.
    `may_hold_target`: such a checkpoint may be the target's own, with the draft in it. `captures_states`: the draft
    takes states of several layers of the target; `fuses_states`: fc makes one of them, from which a chain of tokens
    goes on. `fc_takes_embedding`: fc takes the embedding beside the one state. `parallel`: further tokens are drafted
    at once, from masked positions. `trains_embedding`: the embedding is trained with the draft. `takes_embedding`: the
    draft embeds tokens, with the target's matrix where it has none. `ids_counted_in_depth`: num_target_layers counts
    the captured layers. `heads` names the reader of heads on the target (`mtp`, `medusa`), `serves_as` the kinds whose
    classes take it as well, `tabled_parts` the optional parts that are in its table of parameters.
    """

    known: bool = True
    model: bool = False
    may_hold_target: bool = False
    captures_states: bool = False
    fuses_states: bool = False
    fc_takes_embedding: bool = False
    parallel: bool = False
    trains_embedding: bool = False
    takes_embedding: bool = True
    ids_counted_in_depth: bool = False
    heads: str | None = None
    serves_as: tuple[str, ...] = ()
    tabled_parts: tuple[str, ...] = ()

    @classmethod
    def from_mapping(cls, raw: Mapping[str, Any]) -> Kind:
        """The kind as rules/algorithms has it."""
        taken: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
        return cls(**taken)

    @property
    def is_draft(self) -> bool:
        """Whether it is a draft, and neither an ordinary model nor something that nobody knows."""
        return self.known and not self.model


UNKNOWN_KIND = Kind(known=False, takes_embedding=False)
"""What is taken to hold where no algorithm was recognised."""
