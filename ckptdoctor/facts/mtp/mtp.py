"""Multi-token prediction: which layout and kind, how many layers are declared and stored, and what they lack.

The layers stand in the target's own checkpoint or in one of their own. Tables: rules/facts/mtp.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.draft import Draft
from ckptdoctor.facts.knowledge import Knowledge
from ckptdoctor.facts.mtp.claims import MtpClaim, MtpClaims, claims_of_mtp
from ckptdoctor.facts.mtp.module_parts import (
    MtpExperts,
    MtpGap,
    MtpProjection,
    experts_of,
    gaps_of,
    halves_of,
    kind_of,
    projections_of,
)
from ckptdoctor.facts.mtp.modules import MtpModules, find_modules, tails_of
from ckptdoctor.facts.target import Target
from ckptdoctor.unknown import Known, Unknown

__all__ = ["MtpHeads", "describe_mtp"]

_INCOMPLETE = ("index_missing_shard", "index_malformed", "shard_missing", "too_many_tensors")
_SHARD = re.compile(r"-\d+-of-\d+\.")
_NO_WIDTH = Unknown("a projection of the MTP layers that is stored unpacked")
_NO_TARGET = Unknown("the target (--target PATH)")


@dataclass(frozen=True)
class MtpHeads:
    """MTP layers, or what a config says of them.

    `layout` is how they are stored: `mtp` (mtp.*), `layers` (model.layers.N.* behind the last layer), `mtp_layers`
    (model.mtp_layers.N.*), `indexed` (model.mtp_block.N.*), `assistant` (Gemma 4's), or `none`. `kind` is the module:
    `nextn`, `split`, `qwen`, `mimo`, `ernie`, `assistant`, `dspark` (no MTP at all, but stages of DSpark under mtp.*),
    `unknown` or `none`. `where` names the layers for a person (`model.layers.61.*`), `root` is what stands before that
    (`language_model.`).

    `whole` says that layers of the model itself are stored too, `alone` that the config is that of a draft and nothing
    else. `complete` is False when a file is damaged or not there, so that absence proves nothing.

    `declared` is the number of layers that the config names at `declared_key`, None where it does not;
    `claims` all such fields, `disagree` those of the others that say another number, `malformed` those that say none.
    `stored` counts the steps: layers with a projection of their own, or all layers of one module.

    `first` is the number of the first stored layer and `depth` the config's number of layers at `depth_key`.
    `trunk_depth` counts the model's own layers where they are all there from 0 on. `place` says whether engines find
    the layers: `right`; `exported` (number 0 beside num_hidden_layers 1, as SGLang exports them); `counted` (depth
    counts them, so that engines look behind them); `off` (anything else); `open` where it cannot be told.

    `gaps` are parts that must be there, by layer; `halves` sets of which a part is stored. `experts` are layers with
    fewer experts than they number or than the config says. `projections` are those of another shape than the config's
    width. `embedding` and `head` are `own`, `beside` (the model's own, in the same checkpoint) or `absent`.
    `doubles` are names under mtp.* that are also names of the model (`head.weight`). `stems` is what stands before
    the parts of each layer, by its number, and `tails` the names behind it; those of the module as a whole stand at -1.
    """

    layout: str
    kind: str
    where: str
    root: str
    whole: bool
    alone: bool
    complete: bool
    declared: int | None
    declared_key: str | None
    declared_line: int | None
    claims: tuple[MtpClaim, ...]
    disagree: tuple[MtpClaim, ...]
    malformed: tuple[MtpClaim, ...]
    stored: int
    indices: tuple[int, ...]
    first: int | None
    depth: int | None
    depth_key: str | None
    depth_line: int | None
    trunk_depth: int | None
    place: str
    gaps: tuple[MtpGap, ...]
    halves: tuple[MtpGap, ...]
    experts: tuple[MtpExperts, ...]
    projections: tuple[MtpProjection, ...]
    width: Known[int]
    target_width: Known[int]
    embedding: str
    head: str
    doubles: tuple[str, ...]
    speculators: bool
    stems: Mapping[int, str] = field(default_factory=dict)
    tails: Mapping[int, frozenset[str]] = field(default_factory=dict)

    @property
    def is_mtp(self) -> bool:
        """Whether layers for multi-token prediction are stored."""
        return self.kind not in ("none", "dspark")

    @property
    def declares(self) -> bool:
        """Whether the config says that there are MTP layers."""
        return self.declared is not None and self.declared > 0

    @property
    def other_stem(self) -> bool:
        """Whether the layers stand under a stem that SGLang and vLLM do not look for."""
        if self.layout == "mtp_layers":
            return self.root != "model." and not self.speculators
        return self.layout == "mtp" and self.kind == "qwen" and self.root != ""


def describe_mtp(
    checkpoint: Checkpoint, config: Config, draft: Draft, target: Target | None, known: Knowledge
) -> MtpHeads | None:
    """None where nothing of the kind is stored or declared. Never raises for any content."""
    if (draft.kind.known and draft.kind.heads != "mtp") or not checkpoint.names_sound:
        return None
    words: Mapping[str, Any] = known.words["mtp"]
    claims = claims_of_mtp(config, words)
    count = claims.count
    declared = count.value if count is not None else None
    alone = _is_draft_alone(config, draft, words)
    expected = bool(declared) or alone
    if not checkpoint.tensors or (not draft.kind.is_draft and not expected):
        return None
    found = find_modules(checkpoint.tensors, claims.depth, declared, words, known.naming)
    is_stored = bool(found.layers) or found.top is not None or _assistant(checkpoint, found, words)
    if not is_stored and not expected:
        return None
    kind = kind_of(found, words)
    tensors, naming = checkpoint.tensors, known.naming
    width = _width(checkpoint, found, kind, words)
    embedding, head, doubles = _matrices(checkpoint, found, kind, words)
    first = min(found.layers, default=None)
    trunk = _trunk_depth(found)
    numbered = {**found.layers, **({-1: found.top} if found.top is not None else {})}
    return MtpHeads(
        layout=found.layout,
        kind=kind,
        where=_where(found),
        root=_root(found),
        whole=bool(found.trunk) and found.layout != "assistant",
        alone=alone,
        complete=_is_complete(checkpoint),
        declared=declared,
        declared_key=count.key if count else None,
        declared_line=count.line if count else None,
        claims=claims.counts,
        disagree=tuple(c for c in claims.counts if c.value is not None and c.value != declared),
        malformed=tuple(c for c in claims.counts if c.value is None),
        stored=_steps(found, kind, words),
        indices=tuple(sorted(found.layers)),
        first=first,
        depth=claims.depth,
        depth_key=claims.depth_key,
        depth_line=claims.depth_line,
        trunk_depth=trunk,
        place=_place(found, claims, trunk),
        gaps=gaps_of(found, kind, tensors, words),
        halves=halves_of(found, kind, words),
        experts=experts_of(found, claims.experts, tensors, words, naming),
        projections=() if claims.odd_projection else projections_of(found, kind, tensors, claims.hidden, words),
        width=width,
        target_width=_NO_TARGET if target is None else target.hidden_size,
        embedding=embedding,
        head=head,
        doubles=doubles,
        speculators=config.at("speculators_model_type") is not None,
        stems={n: layer.stem for n, layer in numbered.items()},
        tails={n: tails_of(layer) for n, layer in numbered.items()},
    )


def _is_draft_alone(config: Config, draft: Draft, words: Mapping[str, Any]) -> bool:
    name = draft.architecture.name
    field = config.at("speculators_model_type")
    if field is not None:
        return isinstance(field.value, str) and field.value == "mtp"
    return name is not None and re.search(words["draft_classes"], name) is not None


def _assistant(checkpoint: Checkpoint, found: MtpModules, words: Mapping[str, Any]) -> bool:
    """Whether all parts of Gemma 4's assistant are there; `found` then says so."""
    if all(any(re.search(pattern, name) for name in checkpoint.tensors) for pattern in words["assistant"]):
        found.layout = "assistant"
        return True
    return False


def _is_complete(checkpoint: Checkpoint) -> bool:
    if any(fault.kind in _INCOMPLETE for fault in checkpoint.faults):
        return False
    return checkpoint.whole_folder or not any(_SHARD.search(name) for name in checkpoint.files)


def _where(found: MtpModules) -> str:
    if found.layout == "assistant":
        return "pre_projection"
    if not found.layers:
        return f"{found.top.stem}*" if found.top is not None else ""
    if found.layout == "layers":
        return f"{found.layers[min(found.layers)].stem}*"
    first = found.layers[min(found.layers)]
    return f"{found.top.stem}*" if found.top is not None else f"{first.stem}*"


def _root(found: MtpModules) -> str:
    if found.layers:
        return found.layers[min(found.layers)].root
    return found.top.root if found.top is not None else ""


def _steps(found: MtpModules, kind: str, words: Mapping[str, Any]) -> int:
    if found.layout == "assistant":
        return 1
    entry = words["kinds"].get(kind, {})
    if entry.get("per") == "layer":
        own = [layer for layer in found.layers.values() if set(entry["signs"]) & set(layer.parts)]
        if own:
            return len(own)
    return len(found.layers) or int(found.top is not None)


def _trunk_depth(found: MtpModules) -> int | None:
    trunk = found.trunk
    return len(trunk) if trunk and max(trunk) == len(trunk) - 1 else None


def _place(found: MtpModules, claims: MtpClaims, trunk: int | None) -> str:
    """Whether engines, which go by num_hidden_layers, find the stored layers."""
    if not found.layers:
        return "open"
    first, stored = min(found.layers), len(found.layers)
    if found.layout != "layers":
        return "right" if first == 0 else "off"
    if claims.depth is None:
        return "open"
    if first == claims.depth:
        return "right"
    if found.trunk:
        if trunk is None or trunk != first:
            return "open" if trunk is None else "off"
        return "counted" if claims.depth == first + stored else "off"
    return "exported" if first == 0 and claims.depth == 1 else "off"


def _width(checkpoint: Checkpoint, found: MtpModules, kind: str, words: Mapping[str, Any]) -> Known[int]:
    """The width of the states that come in."""
    if found.layout == "assistant":
        names = [n for n in checkpoint.tensors if n.endswith("post_projection.weight")]
        shapes = [checkpoint.tensors[n].shape for n in names]
        return next((s[0] for s in shapes if len(s) == 2), _NO_WIDTH)
    every = projections_of(found, kind, checkpoint.tensors, None, words, every=True)
    return every[0].rows if every else _NO_WIDTH


def _matrices(
    checkpoint: Checkpoint, found: MtpModules, kind: str, words: Mapping[str, Any]
) -> tuple[str, str, tuple[str, ...]]:
    """Where embedding and head come from, and the names that MTP part and model share."""
    layers = [*found.layers.values(), *([found.top] if found.top else [])]
    filled = {part for layer in layers for part in layer.filled}
    trunk_head = re.compile(words["trunk_head"])
    trunk_embedding = re.compile(words["trunk_embedding"])
    heads = embeddings = False
    for name in checkpoint.tensors:
        heads = heads or trunk_head.match(name) is not None
        embeddings = embeddings or trunk_embedding.match(name) is not None
    embedding = "own" if filled & set(words["own_embedding"]) else "beside" if embeddings else "absent"
    head = "own" if filled & set(words["own_head"]) else "beside" if heads else "absent"
    if found.layout == "assistant":
        return "own" if embeddings else "absent", "own" if heads or embeddings else "absent", ()
    doubles: list[str] = []
    if kind == "dspark":
        for layer in layers:
            for part, names in layer.parts.items():
                if part.startswith(("head", "lm_head", "hc_head")):
                    doubles += [n for n in names if n.removeprefix(layer.stem) in checkpoint.tensors]
    return embedding, head, tuple(doubles[:20])
