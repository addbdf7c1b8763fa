"""What the config of a block drafter claims of its parts, against the parts that are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ckptdoctor.checkpoint import TensorInfo
from ckptdoctor.facts.block.beside_layers import Parts
from ckptdoctor.facts.block.fields import Stated, flag_of
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.draft.draft import Draft
from ckptdoctor.facts.knowledge import Knowledge
from ckptdoctor.unknown import known_or

__all__ = [
    "ClassName",
    "Confidence",
    "LackingSettings",
    "MaskHidden",
    "Needed",
    "OtherKind",
    "class_name_of",
    "confidence_of",
    "lacking_settings_of",
    "markov_type_of",
    "mask_hidden_of",
    "needed_of",
    "other_kind_of",
]

_FLOATS = frozenset({"BF16", "F16", "F32"})


@dataclass(frozen=True)
class ClassName:
    """The class in `architectures`.

    `trainer` is the trainer whose class it is where no engine has it, `serve_as` the class that engines have for such a
    draft (`engines` says in which), `rewritten` whether that trainer rewrites the name before the draft is served.
    `without_place` are the stored parts that the class cannot hold, `needs` the class that holds them. `missing_part`
    is the part that the class builds and of which nothing is stored.
    """

    trainer: str | None
    serve_as: str | None
    engines: str | None
    rewritten: bool
    without_place: tuple[str, ...]
    needs: str | None
    missing_part: str | None


@dataclass(frozen=True)
class Needed:
    """A part that the config claims (`said` at `key`) and of which nothing is stored."""

    part: str
    said: str
    key: str
    line: int | None


@dataclass(frozen=True)
class OtherKind:
    """A speculators config of one kind (`said`, at `key`) beside the stored part of another kind (`kind`)."""

    said: str
    kind: str
    part: str
    key: str
    line: int | None


@dataclass(frozen=True)
class LackingSettings:
    """The settings of a stored part that stand nowhere in the config."""

    part: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Confidence:
    """The confidence head: `enabled` and `with_markov` as stated, `width` as stored and `expected` from the config.

    `flag` is the key of confidence_head_with_markov, `fits_otherwise` whether the other value of it makes them equal.
    """

    stored: bool
    enabled: Stated | None
    with_markov: bool
    width: int | None
    expected: int | None
    flag: str
    fits_otherwise: bool


@dataclass(frozen=True)
class MaskHidden:
    """The learned state of masked positions (P-EAGLE): `width` is its number of values, `fc_in` the columns of fc."""

    name: str
    file: str
    shape: tuple[int, ...]
    width: int
    fc_in: int | None
    dtype: str
    floating: bool


def mask_hidden_of(tensors: Mapping[str, TensorInfo], draft: Draft) -> MaskHidden | None:
    """mask_hidden as stored; None where it is not."""
    info = next((t for name, t in tensors.items() if name.rsplit(".", 1)[-1] == "mask_hidden"), None)
    if info is None:
        return None
    width = 1
    for size in info.shape:
        width *= size
    fc = known_or(draft.fc, None)
    columns = fc.in_features if fc is not None else None
    return MaskHidden(info.name, info.file, info.shape, width, columns, info.dtype, info.dtype in _FLOATS)


def class_name_of(config: Config, draft: Draft, known: Knowledge, parts: Parts) -> ClassName:
    """What is known of the class that `architectures` names, beside the parts that are stored."""
    table = known.words["block"]
    name = draft.architecture.name or ""
    # Configs in the speculators format get their class from the engine that reads them.
    translated = config.at("speculators_model_type") is not None
    row = {} if translated else table["trainer_classes"].get(name, {})
    variant = None if translated else known.architectures.get(name, {}).get("variant")
    plain = name in table["plain_classes"] and not translated
    # The gate of latent attention has a place where that attention has one.
    gated = draft.attention == "mla"
    without = tuple(p for p in parts.stored if p in table["class_of"] and not (gated and p == "attention gates"))
    without = without if plain else ()
    builds = table["needs"]["class"].get(variant) if variant is not None else None
    return ClassName(
        trainer=row.get("trainer"),
        serve_as=row.get("serve_as"),
        engines=row.get("engines"),
        rewritten=bool(row.get("rewritten")),
        without_place=without,
        needs=table["class_of"][without[0]] if without else None,
        missing_part=builds if builds is not None and builds not in parts.stored else None,
    )


def needed_of(
    config: Config, draft: Draft, known: Knowledge, parts: Parts, projector: Stated | None
) -> tuple[Needed, ...]:
    """The parts that the config claims and that are not stored, but for those that the algorithm's table tells."""
    table = known.words["block"]["needs"]
    found: list[Needed] = []
    part = table["projector"].get(projector.value) if projector is not None else None
    if part is not None and projector is not None and part not in parts.stored and not _tabled(draft, part):
        found.append(Needed(part, projector.text, projector.key, projector.line))
    kind = config.at("speculators_model_type")
    part = table["speculators"].get(kind.value) if kind is not None and isinstance(kind.value, str) else None
    if part is not None and kind is not None and part not in parts.stored:
        found.append(Needed(part, f'"{kind.value}"', kind.key, kind.line))
    return tuple(found)


def other_kind_of(config: Config, known: Knowledge, parts: Parts) -> OtherKind | None:
    """The kind of speculators config that the stored parts belong to, where the config is of another kind.

    Only where nothing is stored of what the config's own kind needs: else the parts of two kinds are there.
    """
    kind = config.at("speculators_model_type")
    table = known.words["block"]
    if kind is None or not isinstance(kind.value, str) or kind.value not in table["speculators_kinds"]:
        return None
    if table["needs"]["speculators"].get(kind.value) in parts.stored:
        return None
    homes = table["kind_of"]
    part = next((p for p in parts.stored if p in homes and homes[p] != kind.value), None)
    return OtherKind(kind.value, homes[part], part, kind.key, kind.line) if part is not None else None


def _tabled(draft: Draft, part: str) -> bool:
    return part in draft.kind.tabled_parts


def lacking_settings_of(config: Config, parts: Parts, table: Mapping[str, Any]) -> tuple[LackingSettings, ...]:
    """What the stored parts need beside their sizes, and the config does not say (`settings` of the table)."""
    found = []
    for part, settings in table["settings"].items():
        names = tuple(name for name, places in settings.items() if not config.all_of(places))
        if part in parts.stored and names:
            found.append(LackingSettings(part, names))
    return tuple(found)


def markov_type_of(parts: Parts, tensors: Mapping[str, TensorInfo], table: Mapping[str, Any]) -> str | None:
    """The kind of Markov head that is stored; None without one."""
    if "Markov head" not in parts.stored:
        return None
    kinds = table["markov_types"].items()
    return next((k for k, part in kinds if any(f"markov_head.{part}." in name for name in tensors)), "vanilla")


def confidence_of(
    tensors: Mapping[str, TensorInfo], config: Config, draft: Draft, table: Mapping[str, Any], parts: Parts
) -> Confidence:
    """The confidence head as declared and as stored."""
    with_markov = flag_of(config, table["fields"]["confidence_with_markov"])
    joined = with_markov is not None and with_markov.value is True
    weight = next((t for n, t in tensors.items() if n.removeprefix("model.") == "confidence_head.proj.weight"), None)
    width = weight.shape[1] if weight is not None and len(weight.shape) == 2 and weight.dtype in _FLOATS else None
    first = next((t for n, t in tensors.items() if n.removeprefix("model.") == "markov_head.markov_w1.weight"), None)
    rank = first.shape[1] if first is not None and len(first.shape) == 2 else None
    hidden = known_or(draft.hidden_size, None)
    expected = hidden + (rank or 0) * joined if hidden is not None and (rank is not None or not joined) else None
    otherwise = hidden + rank * (not joined) if hidden is not None and rank is not None else None
    return Confidence(
        stored="confidence head" in parts.stored,
        enabled=flag_of(config, table["fields"]["confidence"]),
        with_markov=joined,
        width=width,
        expected=expected,
        flag=with_markov.key if with_markov is not None else "confidence_head_with_markov",
        fits_otherwise=width is not None and width == otherwise,
    )
