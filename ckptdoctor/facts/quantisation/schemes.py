"""The schemes that the configs of a checkpoint declare: which way of quantising, and which modules they leave alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ckptdoctor.checkpoint import Checkpoint, JsonDocument
from ckptdoctor.facts.knowledge import Knowledge
from ckptdoctor.facts.quantisation.patterns import readable
from ckptdoctor.facts.quantisation.scheme import _CLASSES, Method, Scheme
from ckptdoctor.limits import LIST_ENTRIES

__all__ = ["declared_in", "read_schemes", "same_effect", "scheme_of"]  # fmt: skip


def read_schemes(checkpoint: Checkpoint, known: Knowledge) -> tuple[Scheme, ...]:
    """Every scheme that the files of the checkpoint declare, the one that engines look at first on top."""
    found = []
    for place in known.words["quantisation"]["places"]:
        name = place.get("file")
        document = checkpoint.config if name is None else _beside(checkpoint, name)
        if document is not None and document.readable and isinstance(document.value, dict):
            raw = _at(document.object, place.get("key", ""))
            if isinstance(raw, dict) and (raw or name is None):
                line = document.line(*place["key"].split(".")) if "key" in place else None
                found.append(scheme_of(raw, document.file, place.get("key", ""), line, known))
    return tuple(scheme for scheme in found if scheme is not None)


def declared_in(document: Mapping[str, Any], file: str, known: Knowledge) -> Scheme | None:
    """The scheme of a target's config.json, without lines; None where it declares none."""
    for place in known.words["quantisation"]["places"]:
        if "key" in place:
            raw = _at(document, place["key"])
            if isinstance(raw, dict):
                return scheme_of(raw, file, place["key"], None, known)
    return None


def scheme_of(raw: Mapping[str, Any], file: str, place: str, line: int | None, known: Knowledge) -> Scheme | None:
    """The object `raw` as a scheme; None for a file that names no way of quantising (QNT001 tells of those)."""
    inner = raw.get("quantization")
    body: Mapping[str, Any] = {**raw, **inner} if isinstance(inner, dict) else raw
    declared = _text(raw.get("quant_method"))
    algorithm = _text(body.get("quant_algo"))
    method = _method(declared, algorithm, body, known)
    if not place and declared is None and algorithm is None and not _has_bits(body):
        return None
    key, entries = _list(body, method)
    groups = _groups(body)
    targets = _targets(body, groups)
    bits, group = _common(groups, body)
    prefix = f"{place}." if place else ""
    nested = "quantization." if isinstance(inner, dict) and key is not None and key in inner else ""
    return Scheme(
        method=method.id,
        declared=declared,
        name=_name(declared, algorithm, body),
        file=file,
        place=place,
        line=line,
        weights=_quantises_weights(body, method, algorithm, groups),
        list_key=None if key is None else f"{prefix}{nested}{key}",
        entries=entries,
        targets=targets,
        prefixes=_prefixes(body),
        bits=bits,
        group=group,
        block=_block(body),
        quantises_head=method.head == "always" or (method.head == "flag" and body.get("lm_head") is True),
        opaque=not readable(entries) or (targets is not None and not readable(targets)),
        rules=method,
    )


def _beside(checkpoint: Checkpoint, name: str) -> JsonDocument | None:
    return checkpoint.json(name) if name in checkpoint.names_in_folder() else None


def _at(value: Any, key: str) -> Any:
    for part in key.split(".") if key else ():
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _has_bits(body: Mapping[str, Any]) -> bool:
    return "bits" in body or "w_bit" in body or "config_groups" in body


def _method(declared: str | None, algorithm: str | None, body: Mapping[str, Any], known: Knowledge) -> Method:
    rows = known.words["quantisation"]["methods"]
    wanted = declared.lower() if declared else None
    if wanted is None and algorithm is not None:
        wanted = "modelopt"
    if wanted is None and "w_bit" in body:
        wanted = "awq"
    if wanted is None and "bits" in body and "desc_act" in body:
        wanted = "gptq"
    for row in rows:
        if wanted in row["names"]:
            fields = {k: v for k, v in row.items() if k != "names"}
            return Method(**{**fields, "lists": tuple(row["lists"]), "append": row.get("append")})
    compares = {engine: "exact" for row in rows for engine in row["compares"]}
    return Method("unknown" if wanted else "missing", (), None, compares, "never", judged=False)


def _name(declared: str | None, algorithm: str | None, body: Mapping[str, Any]) -> str:
    parts = [declared or ("modelopt" if algorithm else None), algorithm or _text(body.get("format"))]
    return " ".join(part for part in parts if part) or "a way that is not named"


def _list(body: Mapping[str, Any], method: Method) -> tuple[str | None, tuple[str, ...]]:
    """The list that is read (the first that is filled, else the first that is there), and what it names."""
    there = [key for key in method.lists if isinstance(body.get(key), (list, dict))]
    key = next((k for k in there if body[k]), there[0] if there else None)
    if key is None:
        return None, ()
    value = body[key]
    if isinstance(value, dict) and method.form == "bits16":
        names: Iterable[Any] = (k for k, v in value.items() if isinstance(v, dict) and _plain_bits(v))
    else:
        names = value
    return key, tuple(str(name) for name in list(names)[:LIST_ENTRIES] if isinstance(name, str))


def _plain_bits(row: Mapping[str, Any]) -> bool:
    bits = row.get("bits")
    return type(bits) is int and bits >= 16


def _groups(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    raw = body.get("config_groups")
    rows = list(raw.values()) if isinstance(raw, dict) else raw if isinstance(raw, list) else []
    return [row for row in rows[:64] if isinstance(row, dict)]


def _targets(body: Mapping[str, Any], groups: list[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """The names that the scheme is for; None for all linear modules, or where classes are named that say nothing."""
    layers = body.get("quantized_layers")
    if isinstance(layers, dict):
        return tuple(name for name in list(layers)[:LIST_ENTRIES] if isinstance(name, str))
    found: list[str] = []
    for row in groups:
        listed = row.get("targets")
        names = [t for t in listed if isinstance(t, str)] if isinstance(listed, list) else []
        if not names or any(t in _CLASSES or ("." not in t and not t.startswith("re:")) for t in names):
            return None
        found += names
    return tuple(found[:LIST_ENTRIES]) if found else None


def _prefixes(body: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The blocks that auto-round was told to quantise (INCConfigParser: names that begin so)."""
    raw = body.get("block_name_to_quantize") or body.get("to_quant_block_names")
    names = raw.split(",") if isinstance(raw, str) else raw if isinstance(raw, list) else []
    flat = [n.strip() for item in names for n in (item if isinstance(item, list) else [item]) if isinstance(n, str)]
    return tuple(n for n in flat[:LIST_ENTRIES] if n) or None


def _count(value: Any) -> int | None:
    return value if type(value) is int and -1 <= value < 2**31 and value != 0 else None


def _common(groups: list[Mapping[str, Any]], body: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Bits and group size where the scheme has one of each for all modules."""
    if groups:
        weights = [row["weights"] for row in groups if isinstance(row.get("weights"), dict)]
        bits = {_count(w.get("num_bits")) for w in weights}
        sizes = {
            -1
            if w.get("strategy") == "channel"
            else _count(w.get("group_size"))
            if w.get("strategy") != "tensor"
            else None
            for w in weights
        }
        return (bits.pop() if len(bits) == 1 else None), (sizes.pop() if len(sizes) == 1 else None)
    overrides = body.get("dynamic") or body.get("extra_config")
    mixed = isinstance(overrides, dict) and any(isinstance(v, dict) and v for v in overrides.values())
    if mixed or isinstance(body.get("quantized_layers"), dict):
        return None, None
    bits_of = body.get("bits", body.get("w_bit"))
    return _count(bits_of), _count(body.get("group_size", body.get("q_group_size")))


def _block(body: Mapping[str, Any]) -> tuple[int, int] | None:
    raw = body.get("weight_block_size")
    if isinstance(raw, list) and len(raw) == 2 and all(type(n) is int and 0 < n < 2**20 for n in raw):
        return raw[0], raw[1]
    return None


def _quantises_weights(
    body: Mapping[str, Any], method: Method, algorithm: str | None, groups: list[Mapping[str, Any]]
) -> bool:
    if method.id == "modelopt":
        return algorithm is not None or bool(groups) or bool(body.get("quantized_layers"))
    if method.id == "compressed-tensors":
        return any(isinstance(row.get("weights"), dict) for row in groups) and body.get("format") != "dense"
    if method.id == "quark":
        globally = body.get("global_quant_config")
        return not isinstance(globally, dict) or globally.get("weight") is not None
    if method.id == "auto-round":
        bits = _count(body.get("bits"))
        return bits is None or bits < 16
    return True


def same_effect(first: Scheme, second: Scheme, modules: Iterable[str]) -> str | None:
    """A module that one of the two schemes leaves alone and the other does not; None where they agree on all."""
    for module in modules:
        if bool(first.spared_by(module)) != bool(second.spared_by(module)):
            return module
    return None
