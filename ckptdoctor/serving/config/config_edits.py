"""Edits of config.json that make a release serve a draft as trained: each one is planned before it is told.

A release may size or capture from another key than the one that is set (vllm-project/vllm#54526: four states, and a
count that only survives the translation inside of transformer_layer_config). The values are those that the files
themselves show, so an edit never says anything of the draft that is not so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from ckptdoctor.checkpoint import JsonDocument
from ckptdoctor.facts import Facts
from ckptdoctor.facts.config import Config, with_value
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.serving.contract.contracts import Contract
from ckptdoctor.serving.plan import LoadPlan
from ckptdoctor.unknown import Unknown, known_or

__all__ = ["Edit", "edited", "serving_edit"]

Edit = tuple[str, Any]
"""A dotted key of config.json and the value that it gets."""

_NESTS = ("", "eagle_config.", "transformer_layer_config.", "transformer_layer_config.eagle_config.")
_LAYERS = "transformer_layer_config."
_MOST = 2
"""Edits that are tried together at most."""


def serving_edit(facts: Facts, contract: Contract, plan: LoadPlan, plan_again: Any) -> tuple[Edit, ...]:
    """The fewest edits with which `plan_again(facts)` is served; none where there are none, or none are needed.

    `plan_again` plans other facts for the same release.
    """
    if plan.outcome == "served" or facts.config.document is None or not facts.config.present:
        return ()
    candidates = list(_candidates(facts, contract))
    for count in range(1, _MOST + 1):
        for edits in combinations(candidates, count):
            changed = edited(facts, edits)
            if changed is not None and plan_again(changed).outcome == "served":
                return edits
    return ()


def edited(facts: Facts, edits: tuple[Edit, ...]) -> Facts | None:
    """The same draft with these values in its config; None where a key has no mapping to stand in."""
    document = facts.config.document
    value = dict(document.object) if document is not None else {}
    for key, new in edits:
        parts = key.split(".")
        if not _can_stand(value, parts[:-1]):
            return None
        value = with_value(value, parts, new)
    return replace(facts, config=Config(JsonDocument("config.json", value, True), knowledge()))


def _can_stand(value: Any, parents: list[str]) -> bool:
    """Whether the `parents` of a key are mappings, or are not there."""
    for part in parents:
        if not isinstance(value, dict):
            return False
        value = value.get(part, {})
    return isinstance(value, dict)


def _candidates(facts: Facts, contract: Contract) -> Iterator[Edit]:
    """What the files show, at each place where an engine may look for it and where it does not stand yet."""
    nested = facts.config.at("transformer_layer_config") is not None
    nests = [n for n in _NESTS if nested or not n.startswith(_LAYERS)]
    if contract.raw.get("speculators") is None:
        nests = [n for n in nests if not n.startswith(_LAYERS)]
    for key, value in _shown(facts):
        for nest in nests:
            field = facts.config.at(nest + key)
            if field is None or field.value != value:
                yield nest + key, value


def _shown(facts: Facts) -> Iterator[Edit]:
    """Keys and the values that tensors, or other keys of the same file, show."""
    draft = facts.draft
    fc = known_or(draft.fc, None)
    states = None if fc is None else fc.states
    if states is not None and not draft.block:
        yield "num_aux_hidden_states", states
    if draft.aux.ids is not None and not draft.block:
        yield "eagle_aux_hidden_state_layer_ids", list(draft.aux.ids)
    size = facts.vocab.draft_size
    if not isinstance(size, Unknown):
        yield "draft_vocab_size", size
    if not isinstance(draft.depth_stored, Unknown) and draft.depth_stored:
        yield "num_hidden_layers", draft.depth_stored
    if facts.target is not None and not isinstance(facts.target.hidden_size, Unknown):
        yield "target_hidden_size", facts.target.hidden_size
    if draft.head is not None:
        yield "tie_word_embeddings", False
