"""How an engine release understands a draft: its config after translation, and the class it builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.serving.contracts import Release
from ckptdoctor.serving.plan import Refusal
from ckptdoctor.serving.settings import Settings, evaluate
from ckptdoctor.serving.words import faults
from ckptdoctor.text import listing, show
from ckptdoctor.unknown import Unknown

__all__ = ["Understood", "damage", "is_translated", "understand"]

_TRANSLATED = ("translate", "flatten")
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
    unproven: tuple[str, ...] = ()
    beyond_limits: bool = False


def understand(facts: Facts, release: Release) -> Understood:
    """Translate the config and find the class. A refusal says at which stage the start ends."""
    contract = release.contract
    values = facts.config.document.object if facts.config.document is not None else {}
    target = facts.target.architecture if facts.target is not None else None
    given = release.value(contract.raw.get("given_in_drafts", {}).get(facts.draft.algorithm), {})
    settings = Settings({**values, **given}, frozenset(facts.tensors), target)
    broken = {f.kind for f in facts.files.faults if f.file == "config.json"}
    if broken & set(faults()["beyond_our_limits"]):
        return Understood(settings, None, None, beyond_limits=True)
    if broken & set(faults()["config_refused"]):
        return Understood(settings, None, None, Refusal("config", "config.json begins with a byte order mark"))
    if not facts.config.present:
        return Understood(settings, None, None, Refusal("config", "there is no config.json that can be read"))
    configured = _configured(_unwrapped(settings, release), release)
    if isinstance(configured, Refusal):
        return Understood(settings, None, None, configured)
    settings = configured
    typed = settings.get("model_type") or is_translated(facts, release)
    untyped = None if typed else release.value(contract.raw.get("model_type"))
    if untyped == "needed":
        return Understood(settings, None, None, Refusal("config", "config.json has no model_type"))
    guess = ("config.json has no model_type; it is guessed from the path, or the start ends",)
    unproven = guess if untyped == "guessed" else ()
    if facts.draft.malformed or broken & set(faults()["odd_values"]):
        unproven = (*unproven, "how this release takes the values in config.json that are of the wrong kind")
    if (scheme := _scheme(facts, settings)) is not None:
        unproven = (*unproven, f"what becomes of the parameters under {scheme}")
    types = release.peek(contract.raw.get("model_types"))
    kind = settings.get("model_type")
    if types is not None and isinstance(kind, str) and kind not in types and not is_translated(facts, release):
        unproven = (*unproven, f"whether this release knows the model_type {show(kind)}")
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
    beside = getattr(facts.files.beside, "file", None)
    if opened is not None and beside == opened[0]:
        remark = f"{contract.name} opens {show(beside)}, whose names differ from those of this plan"
        return Understood(settings, name, entry, remarks=(remark,))
    return Understood(settings, name, entry, remarks=_translation(facts, name, release), unproven=unproven)


def _scheme(facts: Facts, settings: Settings) -> str | None:
    """Where a way of quantising the draft is declared: engines look at the top of config.json, translated or not."""
    if settings.get("quantization_config") is not None:
        return "quantization_config"
    schemes = facts.quantisation.schemes if facts.quantisation is not None else ()
    return next((show(scheme.place or scheme.file) for scheme in schemes), None)


def _translation(facts: Facts, name: str | None, release: Release) -> tuple[str, ...]:
    """A remark where the config is in the speculators format and this release makes another one of it."""
    document = facts.config.document
    if document is None or not _in_layers(Settings(document.object)) or _reading(release) not in _TRANSLATED:
        return ()
    return (f"config.json is in the speculators format, which this release translates; its class is {show(name)}",)


def damage(facts: Facts) -> list[Refusal]:
    """The loud error of a damaged weight file, which no reader of safetensors opens."""
    kinds = set(faults()["weights_refused"])
    found = next((f for f in facts.files.faults if f.kind in kinds and f.file in facts.files.names), None)
    return [] if found is None else [Refusal("load", f"{show(found.file)} is damaged")]


def _names(settings: Settings, facts: Facts, release: Release) -> list[str]:
    """The class names of the config as the engine looks for them; some names mean another class in a draft."""
    listed = settings.get("architectures")
    names = [n for n in listed if isinstance(n, str)] if isinstance(listed, list) else []
    translated = is_translated(facts, release)
    for row in release.contract.raw.get("renamed_in_drafts", ()):
        if row.get("draft", facts.draft.algorithm) != facts.draft.algorithm:
            continue
        by_type = "model_type" in row and not translated and settings.get("model_type") == row["model_type"]
        if names and (by_type or names[0] == row.get("name")) and release.holds(row):
            names = [row["to"], *([] if by_type else names[1:])]
            release.note(row)
            break
    if translated:
        return names  # the translation gives the final name
    return [_named(n, facts.draft.algorithm, settings, release) for n in names]


def is_translated(facts: Facts, release: Release) -> bool:
    """Whether the config that the engine has is a translation of the one in the file."""
    document = facts.config.document
    return document is not None and _in_layers(Settings(document.object)) and _reading(release) == "translate"


def _reading(release: Release) -> str:
    """How configs in the speculators format are read."""
    return str(release.value(release.contract.raw.get("speculators"), "refuse"))


def _in_layers(settings: Settings) -> bool:
    """Whether the config is in the speculators format."""
    return settings.has("speculators_model_type") or settings.has("transformer_layer_config")


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
    nested = _in_layers(settings)
    if not nested and "config" not in release.contract.raw:
        return settings
    how = _reading(release)
    inner = settings.get("transformer_layer_config")
    inner = inner if isinstance(inner, Mapping) else {}
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
    defaults = _by_type(config, values)
    kinds = config.get("kinds", {}) if defaults else {}
    wrong = next((k for k, allowed in kinds.items() if settings.type_of(k) not in ("absent", *allowed)), None)
    if wrong is not None:
        return Refusal("config", f"{wrong} in config.json is of the wrong kind")
    known = {k: v for k, v in values.items() if k not in config.get("forgets", ())}
    return replace(settings, values={**config.get("defaults", {}), **defaults, **known})


def _unwrapped(settings: Settings, release: Release) -> Settings:
    """A wrapped config (model_type eagle around the layer's config) as a flat one, where the release reads it so."""
    inner = settings.get("model")
    if settings.get("model_type") != "eagle" or not isinstance(inner, Mapping):
        return settings
    if release.value(release.contract.raw.get("wrapped")) != "unwrap":
        return settings
    outer = {k: v for k, v in settings.values.items() if k not in ("model", "model_type", "architectures")}
    return replace(settings, values={**inner, **outer})


def _by_type(config: Mapping[str, Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The defaults of the config class that a model_type means."""
    kind = values.get("model_type")
    found: Mapping[str, Any] = config.get("defaults_by_type", {}).get(kind, {}) if isinstance(kind, str) else {}
    return found


def _named(name: str, algorithm: str, settings: Settings, release: Release) -> str:
    """The class name that the engine looks for.

    Some put their own prefix in front (`prefix`, unless `keep…` says otherwise), replace a name (`replace`), or
    go by `model_type`.
    """
    naming = release.contract.raw.get("naming", {})
    how = release.value(naming.get(algorithm)) if isinstance(naming, Mapping) else None
    if how is None or name in how.get("keep", ()):
        return name
    if "replace" in how:
        holds = evaluate(how["replace"]["if"], {}, settings)
        return str(how["replace"]["to"] if holds is True and name == how["replace"]["from"] else how["otherwise"])
    if "by_model_type" in how:
        kind = settings.get("model_type")
        return str(how["by_model_type"].get(kind, name)) if isinstance(kind, str) else name
    kept = any(name.startswith(p) for p in how["keep_prefix"]) or any(name.endswith(s) for s in how["keep_suffix"])
    return name if kept else f"{how['prefix']}{name}"


def _translate(settings: Settings, release: Release) -> Settings | Refusal:
    """A config in the speculators format as a flat one.

    `copies`: keys with their defaults; `when_set`: keys that are copied unless null; `renames`: new key: old
    key; `sets`: fixed values; `requires`: keys that must be there; `classes`: by `model_type`; `keeps`: class
    names that stay. `block`: how the captured layers go into dflash_config (`same`, `minus_one`), with the
    keys of `nested`; `block_outside`: the same into target_layer_ids.
    """
    kind = settings.get("speculators_model_type")
    how = release.value(release.contract.raw.get("translation", {}).get(kind)) if isinstance(kind, str) else None
    inner = settings.get("transformer_layer_config")
    if how is None or not isinstance(inner, Mapping):
        engine = f"{release.contract.name} {release.version}"
        return Refusal("config", f"{engine} does not know speculators configs of type {show(kind)}")
    absent = next((key for key in ("speculators_config", *how.get("requires", ())) if settings.get(key) is None), None)
    if absent is not None:
        return Refusal("config", f"{absent} is missing")
    values = dict(inner)
    for key, default in how["copies"].items():
        values[key] = settings.get(key, default)
    for key in how["when_set"]:
        if settings.get(key) is not None:
            values[key] = settings.get(key)
    values |= {new: settings.get(old) for new, old in how.get("renames", {}).items()} | how.get("sets", {})
    chosen = _translated_class(settings, how, values.get("model_type", "llama"))
    if chosen is None:
        return Refusal("config", f"speculators configs with model_type {show(values.get('model_type'))} are not known")
    values["architectures"] = chosen
    ids = settings.get("aux_hidden_state_layer_ids")
    if "block" in how or "block_outside" in how:
        if not isinstance(ids, list):
            return Refusal("config", "aux_hidden_state_layer_ids is missing")
        values["eagle_aux_hidden_state_layer_ids"] = ids
    if "block" in how:
        block = {"mask_token_id": settings.get("mask_token_id"), "target_layer_ids": _shifted(ids, how["block"])}
        values["dflash_config"] = block | {k: v for k in how.get("nested", ()) if (v := settings.get(k)) is not None}
    if "block_outside" in how:
        values["target_layer_ids"] = _shifted(ids, how["block_outside"])
    return replace(settings, values=values)


def _translated_class(settings: Settings, how: Mapping[str, Any], model_type: Any) -> list[str] | None:
    names = settings.get("architectures")
    kept = [n for n in names if n in how.get("keeps", ())] if isinstance(names, list) else []
    chosen = how["classes"].get(model_type if isinstance(model_type, str) else None, how["classes"].get(ANY))
    return kept or (None if chosen is None else [chosen])


def _shifted(ids: Any, how: str) -> list[int]:
    shift = -1 if how == "minus_one" else 0
    return [i + shift for i in ids if type(i) is int]
