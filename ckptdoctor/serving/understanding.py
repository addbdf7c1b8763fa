"""How an engine release understands a draft: its config after translation, and the class it builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.serving.contracts import Release
from ckptdoctor.serving.plan import Refusal
from ckptdoctor.serving.settings import Settings, evaluate
from ckptdoctor.text import listing, show
from ckptdoctor.unknown import Unknown

__all__ = ["Understood", "understand"]

ANY = "*"
"""The name of a row of `architectures` that takes any class, or none."""


@dataclass(frozen=True)
class Understood:
    """The config as the engine has it, the class name it ends up with, and the contract's entry for it."""

    settings: Settings
    architecture: str | None
    entry: Mapping[str, Any] | None
    refusal: Refusal | None = None
    remarks: tuple[str, ...] = ()


def understand(facts: Facts, release: Release) -> Understood:
    """Translate the config and find the class. A refusal says at which stage the start ends."""
    contract = release.contract
    values = facts.config.document.object if facts.config.document is not None else {}
    target = facts.target.architecture if facts.target is not None else None
    settings = Settings(values, frozenset(facts.tensors), target)
    if not facts.config.present:
        return Understood(settings, None, None, Refusal("config", "there is no config.json that can be read"))
    configured = _configured(settings, release)
    if isinstance(configured, Refusal):
        return Understood(settings, None, None, configured)
    settings = configured
    if not settings.get("model_type") and release.value(contract.raw.get("model_type")) == "needed":
        return Understood(settings, None, None, Refusal("config", "config.json has no model_type"))
    rows = [r for r in contract.raw["architectures"] if release.holds(r) and _chosen(r, facts, settings)]
    names = _names(settings, facts, release)
    if not names and not any(r["name"] == ANY for r in rows):
        return Understood(settings, None, None, Refusal("class", "config.json has no architectures"))
    name, entry = _class(names, rows, release)
    if entry is None:
        reason = f"{contract.name} {release.version} has no class for {show(name or '')}"
        return Understood(settings, name, None, Refusal("class", reason))
    opened = release.value(contract.raw.get("files"))
    if opened is not None and not set(opened) & set(facts.files.names):
        return Understood(settings, name, entry, Refusal("load", f"{contract.name} opens {listing(opened, 3)} only"))
    return Understood(settings, name, entry)


def _names(settings: Settings, facts: Facts, release: Release) -> list[str]:
    """The class names of the config as the engine looks for them; some names mean another class in a draft."""
    listed = settings.get("architectures")
    names = [n for n in listed if isinstance(n, str)] if isinstance(listed, list) else []
    in_drafts: Mapping[str, str] = release.value(release.contract.raw.get("renamed_in_drafts"), {})
    if names:
        names[0] = in_drafts.get(names[0], names[0])
    return [_named(n, facts.draft.algorithm, release) for n in names]


def _class(
    names: Sequence[str], rows: Sequence[Mapping[str, Any]], release: Release
) -> tuple[str | None, Mapping[str, Any] | None]:
    """The first name that the engine has a class for, and the contract's entry for it: the name alone for a
    class whose parameters the contract does not know."""
    raw = release.contract.raw
    for name in names or (None,):
        row = next((r for r in rows if r["name"] in (name, ANY)), None)
        if row is not None:
            return name, raw["classes"][row["class"]]
        if any(name in r["names"] for r in raw.get("registered", ()) if release.holds(r)):
            return name, {"name": name}
    return (names[0] if names else None), None


def _chosen(row: Mapping[str, Any], facts: Facts, settings: Settings) -> bool:
    """Whether the condition of a row of `architectures` holds: some engines choose by more than the name."""
    if "if" not in row:
        return True
    holds = evaluate(row["if"], {"algorithm": facts.draft.algorithm}, settings)
    return not isinstance(holds, Unknown) and bool(holds)


def _configured(settings: Settings, release: Release) -> Settings | Refusal:
    """The config after the engine's own reading: the named variants of `speculators`, then `config`.

    `refuse`: configs in the speculators format are not read. `translate`: by the rules of `translation`.
    `flatten`: the keys of transformer_layer_config join the others. `nested_only`: sizes are read from
    transformer_layer_config alone, whatever the format. `as_any_other`: transformer_layer_config is not known.
    """
    how = release.value(release.contract.raw.get("speculators"), "refuse")
    inner = settings.get("transformer_layer_config")
    inner = inner if isinstance(inner, Mapping) else {}
    nested = settings.has("speculators_model_type") or settings.has("transformer_layer_config")
    config: Mapping[str, Any] = release.value(release.contract.raw.get("config"), {})
    if nested and how == "refuse":
        return Refusal("config", f"{release.contract.name} does not read configs in the speculators format")
    if nested and how == "translate":
        return _translate(settings, release)
    values = dict(settings.values)
    if nested and how == "flatten":
        values |= inner
    if how == "nested_only":
        values = {**inner, **{k: v for k, v in values.items() if k in config.get("outer", ())}}
    known = {k: v for k, v in values.items() if k not in config.get("forgets", ())}
    return replace(settings, values={**config.get("defaults", {}), **known})


def _named(name: str, algorithm: str, release: Release) -> str:
    """The class name that the engine looks for: some put their own prefix in front."""
    naming = release.contract.raw.get("naming", {})
    if not isinstance(naming, Mapping):
        return name
    method = {"peagle": "eagle3"}.get(algorithm, algorithm)
    how = release.value(naming.get(method))
    if how is None:
        return name
    kept = any(name.startswith(p) for p in how["keep_prefix"]) or any(name.endswith(s) for s in how["keep_suffix"])
    return name if kept else f"{how['prefix']}{name}"


def _translate(settings: Settings, release: Release) -> Settings | Refusal:
    kind = settings.get("speculators_model_type")
    table = release.contract.raw.get("translation", {}).get(kind)
    how = release.value(table)
    inner = settings.get("transformer_layer_config")
    if how is None or not isinstance(inner, Mapping):
        return Refusal("config", f"{release.contract.name} {release.version} does not know speculators configs of type {show(kind)}")
    values = dict(inner)
    for key, default in how["copies"].items():
        values[key] = settings.get(key, default)
    for key in how["when_set"]:
        if settings.get(key) is not None:
            values[key] = settings.get(key)
    classes = how["classes"]
    chosen = classes.get(values.get("model_type", "llama"), classes.get("*"))
    if chosen is None:
        return Refusal("config", f"speculators configs with model_type {show(values.get('model_type'))} are not known")
    values["architectures"] = [chosen]
    if "block" in how:
        ids = settings.get("aux_hidden_state_layer_ids")
        if not isinstance(ids, list):
            return Refusal("config", "aux_hidden_state_layer_ids is missing")
        shift = -1 if how["block"] == "minus_one" else 0
        values["eagle_aux_hidden_state_layer_ids"] = ids
        values["dflash_config"] = {
            "mask_token_id": settings.get("mask_token_id"),
            "target_layer_ids": [i + shift for i in ids if type(i) is int],
        }
    return replace(settings, values=values)
