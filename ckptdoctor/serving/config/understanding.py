"""How an engine release understands a draft: its config after translation, and the class it builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.facts.draft.classes import is_ordinary
from ckptdoctor.serving.config.config_kinds import refused_kind, untried_kinds
from ckptdoctor.serving.config.kinds import reads_kind, unread_kind
from ckptdoctor.serving.config.translating import ANY, translate
from ckptdoctor.serving.contract.class_lists import lists_of
from ckptdoctor.serving.contract.contracts import Evidence, Reader, Release
from ckptdoctor.serving.contract.settings import Settings, evaluate
from ckptdoctor.serving.plan import Refusal
from ckptdoctor.serving.words import Reason, faults
from ckptdoctor.text import listing, show
from ckptdoctor.unknown import Unknown

__all__ = ["Understood", "is_translated", "understand"]

_TRANSLATED = ("translate", "flatten")


@dataclass(frozen=True)
class Understood:
    """The config as the engine has it, the class name it ends up with, and the contract's entry for it.

    Without an entry `refusal` says why, or `opens` what is not known. `evidence` is what all of it rests on.
    """

    settings: Settings
    architecture: str | None
    entry: Mapping[str, Any] | None
    evidence: Evidence
    refusal: Refusal | None = None
    remarks: tuple[str, ...] = ()
    opens: tuple[Reason, ...] = ()


def understand(facts: Facts, release: Release) -> Understood:
    """Translate the config and find the class. A refusal says at which stage the start ends."""
    reader = release.reader()
    contract = release.contract
    values = facts.config.document.object if facts.config.document is not None else {}
    target = facts.target.architecture if facts.target is not None else None
    given = reader.value(contract.raw.get("given_in_drafts", {}).get(facts.draft.algorithm), {})
    settings = Settings({**values, **given}, frozenset(facts.tensors), target, facts.files.path)
    opens: list[Reason] = []

    def ends(refusal: Refusal | None, name: str | None = None) -> Understood:
        return Understood(settings, name, None, reader.evidence, refusal, opens=tuple(opens))

    broken = {f.kind for f in facts.files.faults if f.file == "config.json"}
    if broken & set(faults()["beyond_our_limits"]):
        opens.append(Reason("open", "config_beyond_limits"))
        return ends(None)
    lacking = contract.raw.get("lacks", {}).get(facts.draft.algorithm)
    if lacking is not None:
        return ends(Refusal("class", str(lacking)))
    if not reads_kind(facts, release):
        opens.append(unread_kind(facts, settings, reader))
        return ends(None)
    if broken & set(faults()["config_refused"]):
        return ends(Refusal("config", "config.json begins with a byte order mark"))
    if not facts.config.present:
        return ends(Refusal("config", "there is no config.json that can be read"))
    unwrapped = _unwrapped(settings, reader)
    configured = release.part("config", lambda inner: _configured(unwrapped, inner), reader)
    if isinstance(configured, Refusal):
        return ends(configured)
    settings = configured
    untyped = _untyped(facts, settings, reader)
    if isinstance(untyped, Refusal):
        return ends(untyped)
    opens += [*untyped, *_open_values(facts, settings, broken, reader)]
    names = _names(settings, facts, reader)
    # Of rows that name something else it does not matter whether they hold.
    named = [row for row in contract.raw["architectures"] if row["name"] in (ANY, *names)]
    rows = [row for row in named if _chosen(row, facts, settings) and reader.holds(row)]
    if not names and not rows:
        return ends(Refusal("class", "config.json has no architectures"))
    name, entry = _class(names, rows, reader)
    if entry is None:
        return ends(_no_class(name, reader, opens), name)
    opened = reader.value(contract.raw.get("files"))
    if opened is not None and not set(opened) & set(facts.files.names):
        refusal = Refusal("load", f"{contract.name} opens {listing(opened, 3)} only")
        return Understood(settings, name, entry, reader.evidence, refusal, opens=tuple(opens))
    beside = getattr(facts.files.beside, "file", None)
    if opened is not None and beside == opened[0]:
        remark = f"{contract.name} opens {show(beside)}, whose names differ from those of this plan"
        opens.append(Reason("open", "other_file", {"engine": contract.name, "file": show(beside)}))
        return Understood(settings, name, entry, reader.evidence, remarks=(remark,), opens=tuple(opens))
    remarks = _translation(facts, name, reader)
    return Understood(settings, name, entry, reader.evidence, remarks=remarks, opens=tuple(opens))


def _untyped(facts: Facts, settings: Settings, reader: Reader) -> list[Reason] | Refusal:
    """What is open, or refused, because of the model_type."""
    raw, kind = reader.contract.raw, settings.get("model_type")
    translated = is_translated(facts, reader.release)
    untyped = None if kind or translated else reader.value(raw.get("model_type"))
    if untyped == "needed":
        return Refusal("config", "config.json has no model_type")
    if untyped == "guessed":
        return [Reason("open", "model_type_guessed")]
    if not isinstance(kind, str) or translated:
        return []
    lists = lists_of(reader.release)
    known = lists.knows_model_type(kind)
    if known is False:
        if settings.get("auto_map.AutoConfig") is not None:
            return [Reason("open", "model_type_own_code", {"model_type": show(kind)})]
        reader.note(lists.source_of("model_types"))
        return Refusal("config", f"this release does not know the model_type {show(kind)}", "model_type")
    types = reader.peek(raw.get("model_types"))
    if known is None and types is not None and kind not in types:
        return [Reason("open", "model_type_unlisted", {"model_type": show(kind)})]
    return []


def _open_values(facts: Facts, settings: Settings, broken: set[str], reader: Reader) -> Iterator[Reason]:
    """What is open because of odd values, or of a declared quantisation."""
    tables = reader.contract.raw["config_kinds"]
    stored = Settings(facts.config.document.object if facts.config.document is not None else {})
    odd = {field.key for field in facts.draft.malformed}.union(untried_kinds(stored, tables))
    if settings.values.keys() - stored.values.keys():  # a translation, or defaults of this release
        odd.update(untried_kinds(settings, tables))
    tried = reader.peek(reader.contract.raw.get("tried_kinds"), {}) if odd else {}
    if broken & set(faults()["odd_values"]) or any(stored.type_of(key) not in tried.get(key, ()) for key in odd):
        yield Reason("open", "odd_values")
    if (scheme := _scheme(facts, settings)) is not None:
        yield Reason("open", "scheme", {"scheme": scheme})


def _no_class(name: str | None, reader: Reader, opens: list[Reason]) -> Refusal | None:
    """The refusal where the release is known to have no class of this name; else that is open."""
    lists, contract = lists_of(reader.release), reader.contract
    known = lists.registers(name or "")
    if known is False and lists.may_fall_back and is_ordinary(name or ""):
        opens.append(Reason("open", "fallback_class", {"name": show(name or "")}))
        return None
    whole = next((row for row in contract.raw.get("whole", ()) if reader.holds(row)), None)
    if known is False or (known is None and whole is not None):
        reader.note(lists.source_of("registered") if known is False else whole or {})
        return Refusal("class", f"this release has no class for {show(name or '')}")
    if known is True:
        opens.append(Reason("open", "class_without_table", {"name": show(name or "")}))
        return None
    opens.append(Reason("open", "registry_not_read", {"name": show(name or "")}))
    return None


def _scheme(facts: Facts, settings: Settings) -> str | None:
    """Where a way of quantising the draft is declared: engines look at the top of config.json, translated or not."""
    if settings.get("quantization_config") is not None:
        return "quantization_config"
    schemes = facts.quantisation.schemes if facts.quantisation is not None else ()
    return next((show(scheme.place or scheme.file) for scheme in schemes), None)


def _translation(facts: Facts, name: str | None, reader: Reader) -> tuple[str, ...]:
    """A remark where the config is in the speculators format and this release makes another one of it."""
    document = facts.config.document
    if document is None or not _in_layers(Settings(document.object)) or _reading(reader) not in _TRANSLATED:
        return ()
    return (f"config.json is in the speculators format, which this release translates; its class is {show(name)}",)


def _names(settings: Settings, facts: Facts, reader: Reader) -> list[str]:
    """The class names of the config as the engine looks for them; some names mean another class in a draft."""
    listed = settings.get("architectures")
    names = [n for n in listed if isinstance(n, str)] if isinstance(listed, list) else []
    translated = is_translated(facts, reader.release)
    for row in reader.contract.raw.get("renamed_in_drafts", ()):
        if row.get("draft", facts.draft.algorithm) != facts.draft.algorithm:
            continue
        by_type = "model_type" in row and not translated and settings.get("model_type") == row["model_type"]
        if names and (by_type or names[0] == row.get("name")) and reader.holds(row):
            names = [row["to"], *([] if by_type else names[1:])]
            reader.note(row)
            break
    if translated:
        return names  # the translation gives the final name
    return [_named(n, facts.draft.algorithm, settings, reader) for n in names]


def is_translated(facts: Facts, release: Release) -> bool:
    """Whether the config that the engine has is a translation of the one in the file."""
    document = facts.config.document
    return document is not None and _in_layers(Settings(document.object)) and _reading(release.reader()) == "translate"


def _reading(reader: Reader) -> str:
    """How configs in the speculators format are read."""
    return str(reader.value(reader.contract.raw.get("speculators"), "refuse"))


def _in_layers(settings: Settings) -> bool:
    """Whether the config is in the speculators format."""
    return settings.has("speculators_model_type") or settings.has("transformer_layer_config")


def _class(
    names: Sequence[str], rows: Sequence[Mapping[str, Any]], reader: Reader
) -> tuple[str | None, Mapping[str, Any] | None]:
    """The first name that the engine has a class for, and the contract's entry for it: the name alone for a
    class whose parameters the contract does not know."""
    raw, lists = reader.contract.raw, lists_of(reader.release)
    for name in names or (None,):
        row = next((r for r in rows if r["name"] in (name, ANY)), None)
        if row is not None:
            return name, raw["classes"][row["class"]]
        listed = any(name in r["names"] and reader.holds(r) for r in raw.get("registered", ()))
        if name is not None and (listed or lists.registers(name)):
            return name, {"name": name}
    return (names[0] if names else None), None


def _chosen(row: Mapping[str, Any], facts: Facts, settings: Settings) -> bool:
    """Whether the condition of a row of `architectures` holds: some engines choose by more than the name."""
    if "if" not in row:
        return True
    holds = evaluate(row["if"], {"algorithm": facts.draft.algorithm}, settings)
    return not isinstance(holds, Unknown) and bool(holds)


def _configured(settings: Settings, reader: Reader) -> Settings | Refusal:
    """The config after the engine's own reading: the named variants of `speculators`, then `config`.

    `refuse`: configs in the speculators format are not read. `translate`: by the rules of `translation`.
    `flatten`: the keys of transformer_layer_config join the others. `nested_only`: sizes are read from
    transformer_layer_config alone, whatever the format. `as_any_other`: transformer_layer_config is not known.
    """
    nested = _in_layers(settings)
    if not nested and "config" not in reader.contract.raw:
        return settings
    how = _reading(reader)
    inner = settings.get("transformer_layer_config")
    inner = inner if isinstance(inner, Mapping) else {}
    config: Mapping[str, Any] = reader.value(reader.contract.raw.get("config"), {})
    if nested and how == "refuse":
        return Refusal("config", f"{reader.contract.name} does not read configs in the speculators format", "format")
    if nested and how == "translate":
        return translate(settings, reader)
    values = dict(settings.values)
    if nested and how == "flatten":
        values |= inner
    if how == "nested_only":
        values = {**inner, **{k: v for k, v in values.items() if k in config.get("outer", ())}}
    defaults = _by_type(config, values)
    wrong = refused_kind(settings, config, reader.contract.raw["config_kinds"])
    if wrong is not None:
        return Refusal("config", f"{wrong} in config.json is of the wrong kind")
    known = {k: v for k, v in values.items() if k not in config.get("forgets", ())}
    return replace(settings, values={**config.get("defaults", {}), **defaults, **known})


def _unwrapped(settings: Settings, reader: Reader) -> Settings:
    """A wrapped config (model_type eagle around the layer's config) as a flat one, where the release reads it so."""
    inner = settings.get("model")
    if settings.get("model_type") != "eagle" or not isinstance(inner, Mapping):
        return settings
    if reader.value(reader.contract.raw.get("wrapped")) != "unwrap":
        return settings
    outer = {k: v for k, v in settings.values.items() if k not in ("model", "model_type", "architectures")}
    return replace(settings, values={**inner, **outer})


def _by_type(config: Mapping[str, Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The defaults of the config class that a model_type means."""
    kind = values.get("model_type")
    found: Mapping[str, Any] = config.get("defaults_by_type", {}).get(kind, {}) if isinstance(kind, str) else {}
    return found


def _named(name: str, algorithm: str, settings: Settings, reader: Reader) -> str:
    """The class name that the engine looks for.

    Some put their own prefix in front (`prefix`, unless `keep…` says otherwise), replace a name (`replace`), or
    go by `model_type`.
    """
    naming = reader.contract.raw.get("naming", {})
    how = reader.value(naming.get(algorithm)) if isinstance(naming, Mapping) else None
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
