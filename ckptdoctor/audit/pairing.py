"""Which model of the audited trees is the target of a draft: the one that it names, else the only one that fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ckptdoctor.facts import Facts, Target
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.text import listing, show
from ckptdoctor.unknown import known_or

__all__ = ["Model", "Models", "Pairing", "Wants", "is_model", "model_of", "wants_of"]

_CACHE = re.compile(r"models--(?P<org>[^/]+?)--(?P<name>[^/]+)/snapshots/[^/]+$")
_NAME_LIMIT = 500


@dataclass(frozen=True)
class Model:
    """An ordinary model that may be a target, with what its `Place` says of it.

    `names` are the names that a draft may call it by, in lower case; `config` marks the content of its config.json.
    """

    key: str
    path: str
    mark: str
    names: tuple[str, ...]
    hidden_size: int | None
    num_layers: int | None
    vocab_size: int | None
    model_type: str | None
    config: str
    root: str | None = None
    inner: str | None = None


@dataclass(frozen=True)
class Wants:
    """What a draft says of its target; None where it says nothing. `deepest` is the largest captured layer."""

    name: str | None = None
    hidden_size: int | None = None
    vocab_size: int | None = None
    num_layers: int | None = None
    model_type: str | None = None
    deepest: int | None = None

    def as_data(self) -> dict[str, Any]:
        """It as a plain object."""
        return asdict(self)

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> Wants:
        """What `as_data` gave."""
        return Wants(**{field.name: data.get(field.name) for field in fields(Wants)})


@dataclass(frozen=True)
class Pairing:
    """The target that a draft is scanned with, or None, and why, in a sentence. `path` and `mark` are the target's.

    `source` is where it comes from: `audit` (the audited trees), `hub` (read there), `given` (by the person).
    """

    model: Model | None
    why: str
    path: str | None = None
    mark: str | None = None
    source: str | None = None

    def as_data(self) -> dict[str, Any]:
        """It as a plain object."""
        return {"path": self.path, "why": self.why, "source": self.source, "mark": self.mark}


class Models:
    """The ordinary models of an audit."""

    def __init__(self, models: Iterable[Model] = ()) -> None:
        self.all = tuple(sorted(models, key=lambda model: model.key))
        self._by_name: dict[str, list[Model]] = {}
        self._by_size: dict[tuple[int, int], list[Model]] = {}
        for model in self.all:
            for name in model.names:
                self._by_name.setdefault(name, []).append(model)
            if model.hidden_size and model.vocab_size:
                self._by_size.setdefault((model.hidden_size, model.vocab_size), []).append(model)

    def target_of(self, key: str, wants: Wants) -> Pairing:
        """The target for the draft `key`. Of several that are the same by their config, the first by name."""
        if wants.name is not None:
            return self._named(key, wants, wants.name)
        if wants.hidden_size is None or wants.vocab_size is None:
            return Pairing(None, "its config names no target, nor the sizes of one")
        found = [m for m in self._by_size.get((wants.hidden_size, wants.vocab_size), ()) if _fits(m, wants)]
        sizes = f"hidden size {wants.hidden_size} and {wants.vocab_size} tokens"
        found = _without(found, key)
        if len(found) == 1:
            return _paired(found[0], f"the only model here with {sizes}, and the config names no other")
        if found:
            return Pairing(None, f"ambiguous: {len(found)} models have {sizes} ({listing(m.key for m in found)})")
        return Pairing(None, f"no model here fits {sizes}, and the config names none")

    def _named(self, key: str, wants: Wants, name: str) -> Pairing:
        told = show(name, _NAME_LIMIT)
        for number, form in enumerate(_forms(name)):
            found = _without(self._by_name.get(form, []), key)
            # The last part of a path alone may be `main` or `checkpoint-500`: the sizes have to speak for it too.
            others, found = found, [m for m in found if number == 0 or _sized(m, wants)]
            if others and not found:
                return Pairing(None, f"its config names {told}; {listing(m.key for m in others)} has other sizes")
            if len(found) == 1:
                return _paired(found[0], f"its config names {told}")
            if found:
                several = listing(m.key for m in found)
                return Pairing(None, f"ambiguous: its config names {told}, which may be {several}")
        return Pairing(None, f"its config names {told}, which is not here")


def _paired(model: Model, why: str) -> Pairing:
    return Pairing(model, why, model.path, model.mark, "audit")


def _without(found: Iterable[Model], key: str) -> list[Model]:
    """`found` without the draft itself and without second copies of one and the same model."""
    kept: dict[str, Model] = {}
    for model in found:
        if model.key != key:
            kept.setdefault(model.config, model)
    return list(kept.values())


def _sized(model: Model, wants: Wants) -> bool:
    pairs = ((model.hidden_size, wants.hidden_size), (model.vocab_size, wants.vocab_size))
    return _fits(model, wants) and all(a is None or b is None or a == b for a, b in pairs)


def _fits(model: Model, wants: Wants) -> bool:
    depth = model.num_layers
    if wants.num_layers is not None and depth is not None and wants.num_layers != depth:
        return False
    if wants.deepest is not None and depth is not None and wants.deepest > depth:
        return False
    return wants.model_type is None or model.model_type is None or wants.model_type == model.model_type


def _forms(name: str) -> list[str]:
    """What a model may be listed as that a draft calls `name`: its last two parts, then the last alone."""
    clean = name.strip().rstrip("/").removeprefix("hf://")
    cached = _CACHE.search(clean)
    if cached:
        clean = f"{cached['org']}/{cached['name']}"
    parts = [part for part in clean.lower().split("/") if part not in ("", ".", "..")]
    return ["/".join(parts[-2:]), *(parts[-1:] if len(parts) > 1 else [])] if parts else []


def is_model(facts: Facts) -> bool:
    """Whether this is an ordinary model that does not claim to be a draft."""
    kind = facts.draft.architecture
    claims = kind.algorithm not in (None, "plain") or kind.format_name is not None or kind.wrapped
    marks = knowledge().words["pairing"]["draft_marks"]
    return facts.draft.kind.model and not claims and not facts.config.all_of(marks)


def model_of(key: str, path: str, mark: str, target: Target, config: str) -> Model:
    """The model at `path` as drafts may name it; `target` is what its config says."""
    own = [target.document.get("_name_or_path"), target.document.get("name_or_path")]
    names = {form for name in (_unpinned(path), key, *own) if isinstance(name, str) for form in _forms(name)}
    return Model(
        key, path, mark, tuple(sorted(names)), known_or(target.hidden_size, None), known_or(target.num_layers, None),
        known_or(target.vocab_size, None), target.model_type, config,
    )  # fmt: skip


def _unpinned(path: str) -> str:
    return path.partition("@")[0] if path.startswith("hf://") else path


def wants_of(facts: Facts) -> Wants:
    """What the draft says of its target, in its config and in the shapes of its tensors."""
    words = knowledge().words["pairing"]
    config = facts.config
    ids = facts.draft.aux.ids
    layers = config.size("num_target_layers")
    claimed = config.size("hidden_size")
    width = facts.draft.target_hidden_size
    return Wants(
        name=_text(config.all_of(words["target_names"])),
        hidden_size=width if width is not None else (claimed.value if claimed else None),
        vocab_size=facts.vocab.claimed_size,
        num_layers=layers.value if layers else None,
        model_type=_text(config.all_of(words["target_types"])),
        deepest=max(ids) if ids else None,
    )


def _text(found: Iterable[Any]) -> str | None:
    return next((f.value for f in found if isinstance(f.value, str) and 0 < len(f.value.strip()) <= _NAME_LIMIT), None)
