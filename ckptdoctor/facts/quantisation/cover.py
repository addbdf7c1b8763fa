"""Which modules a scheme covers, against how each is stored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckptdoctor.facts.quantisation.module_kinds import MOST_SHOWN, kind_of, last_part
from ckptdoctor.facts.quantisation.scheme import Scheme, engine_name, fused_name
from ckptdoctor.facts.quantisation.store import Module

__all__ = ["Skipped", "Split", "Uncovered", "find_skipped", "find_splits", "find_uncovered"]

_PREFIXES = ("", "model.", "language_model.", "model.language_model.", "language_model.model.", "model.model.")
_BLOCK = re.compile(r"^(.*?\b(?:mtp_layers|mtp\.layers|layers|mtp)\.\d+|midlayer|(?:.*\.)?mtp)\b")


@dataclass(frozen=True)
class Uncovered:
    """Modules that are stored plain and not named by the list of a scheme that is for all.

    `kind`: `layers` (projections of decoder layers), `fc` or `head`. `reach`: `none` (no engine finds them in the
    list), `other name` (an entry names them, under a name that their engine does not use; `entry`), or the one engine
    that finds them (`vllm`, `sglang`). `blocks` are where they stand, `whole` says that nothing in these is
    quantised, `entries` what would have to be in the list. `certain`: no release that was read serves them. `inside`:
    heads in the file of their target.
    """

    kind: str
    reach: str
    blocks: tuple[str, ...]
    modules: tuple[str, ...]
    count: int
    dtype: str
    example: str
    file: str
    whole: bool
    entries: tuple[str, ...]
    entry: str | None
    certain: bool
    inside: bool


@dataclass(frozen=True)
class Skipped:
    """Modules that are stored packed while the scheme leaves them alone. `everywhere`: in SGLang and vLLM alike."""

    modules: tuple[str, ...]
    count: int
    example: str
    file: str
    everywhere: bool
    engines: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """A set that engines keep in one parameter, of which `left` are left alone and `others` are not.

    `by`: `list` (the list names some of them) or `storage` (some are stored plain). `plain` says that all are stored
    plain, and `entries` what the list lacks then.
    """

    where: str
    left: tuple[str, ...]
    others: tuple[str, ...]
    by: str
    plain: bool
    entries: tuple[str, ...]
    file: str


def _other_names(name: str, layers: int | None) -> Iterator[str]:
    """Names under which the same module goes: other prefixes, layers that are counted on, `midlayer`, `mtp_block`."""
    core = name
    while core.startswith(("model.", "language_model.")):
        core = core.partition(".")[2]
    cores = [core]
    head = re.match(r"^(?:mtp\.layers|mtp_layers|mtp)\.(\d{1,5})\.(.*)$", core)
    if head is not None:
        number, rest = int(head.group(1)), head.group(2)
        cores += [f"mtp.layers.{number}.{rest}", f"mtp_layers.{number}.{rest}", f"mtp.{number}.{rest}"]
        cores += [f"layers.{layers + number}.{rest}"] if layers is not None else []
    numbered = re.match(r"^layers\.(\d{1,6})\.(.*)$", core)
    if numbered is not None:
        number, rest = int(numbered.group(1)), numbered.group(2)
        if number == 0:
            cores.append(f"midlayer.{rest}")
        if layers is not None:
            cores += [f"layers.{layers + number}.{rest}"] if number < layers else []
            cores += [f"{stem}.{number - layers}.{rest}" for stem in ("mtp.layers", "mtp_layers", "mtp")
                      if number >= layers]  # fmt: skip
    if core.startswith("midlayer."):
        cores.append("layers.0." + core.removeprefix("midlayer."))
    cores += [c.replace(".mtp_block.", ".") for c in cores if ".mtp_block." in c]
    cores += [re.sub(r"(layers\.\d+)\.", r"\1.mtp_block.", c, count=1) for c in cores if ".mtp_block." not in c]
    for prefix in _PREFIXES:
        for text in cores:
            if prefix + text != name:
                yield prefix + text


def _spared(scheme: Scheme, name: str) -> tuple[str, ...]:
    found = set(scheme.spared_by(name)) | set(scheme.spared_by(engine_name(name)))
    fused = fused_name(name)
    if fused is not None:
        found |= set(scheme.spared_by(fused))
    return tuple(sorted(found))


def _other_entry(scheme: Scheme, name: str, layers: int | None) -> str | None:
    """The name under which a list names the module, if it is another than its own."""
    return next(
        (n for n in _other_names(name, layers) if scheme.spared_by(n) or scheme.spared_by(engine_name(n))), None
    )


def _block_of(name: str) -> str:
    match = _BLOCK.match(name)
    return match.group(1) if match else name


def find_uncovered(
    shown: Sequence[Module],
    scheme: Scheme,
    words: Mapping[str, Any],
    layers: int | None,
    splits: Sequence[Split],
    *,
    inside: bool,
) -> tuple[Uncovered, ...]:
    """The plain modules that the scheme is for, by kind and by what finds them."""
    if not scheme.weights or not scheme.rules.judged or scheme.opaque or scheme.at_load:
        return ()
    split = {f"{s.where}.{n}".lstrip(".") for s in splits for n in (*s.left, *s.others)}
    groups: dict[tuple[str, str], list[tuple[Module, str | None]]] = {}
    for module in shown:
        kind = kind_of(module, words)
        if kind is None or not module.is_plain or module.name in split:
            continue
        if (kind == "head" and not scheme.quantises_head) or (
            scheme.rules.applies == "experts" and "experts" not in module.name
        ):
            continue
        # vLLM builds fc of Qwen's heads plain under NVFP4, and no release of SGLang gives fc a scheme.
        if kind == "fc" and (scheme.method == "modelopt" or not inside):
            continue
        spared = _spared(scheme, module.name)
        entry = None
        if not spared:
            entry = _other_entry(scheme, module.name, layers)
            if entry is not None and not inside:
                continue
        if len(spared) == 2:
            continue
        reach = spared[0] if spared else "other name" if entry is not None else "none"
        groups.setdefault((kind, reach), []).append((module, entry))
    return tuple(_uncovered(k, r, rows, shown, scheme, inside=inside) for (k, r), rows in sorted(groups.items()))


def _uncovered(
    kind: str,
    reach: str,
    rows: Sequence[tuple[Module, str | None]],
    shown: Sequence[Module],
    scheme: Scheme,
    *,
    inside: bool,
) -> Uncovered:
    names = [module.name for module, _ in rows]
    blocks = tuple(dict.fromkeys(_block_of(name) for name in names))
    weight = rows[0][0].tensors[rows[0][0].weight or ""]
    return Uncovered(
        kind=kind,
        reach=reach,
        blocks=blocks[:MOST_SHOWN],
        modules=tuple(names[:MOST_SHOWN]),
        count=len(names),
        dtype=weight.dtype,
        example=weight.name,
        file=weight.file,
        whole=kind == "layers" and not any(m.is_packed for m in shown if _block_of(m.name) in blocks),
        entries=tuple(dict.fromkeys(text for name in names for text in (name, engine_name(name)))),
        entry=next((entry for _, entry in rows if entry is not None), None),
        certain=kind == "layers" and not inside and not scheme.reads_headers,
        inside=inside,
    )


def find_skipped(shown: Sequence[Module], scheme: Scheme) -> tuple[Skipped, ...]:
    """The packed modules that the scheme leaves alone, those that every engine leaves alone first."""
    if not scheme.weights or not scheme.rules.judged or scheme.opaque:
        return ()
    groups: dict[tuple[str, ...], list[Module]] = {}
    for module in shown:
        if module.is_packed and last_part(module.name) not in ("lm_head", "embed_tokens"):
            engines = scheme.spared_by(module.name)
            # What reads the headers finds what is packed, but not where a list is for it.
            if engines and not (scheme.rules.applies == "experts" and "experts" not in module.name):
                groups.setdefault(engines, []).append(module)
    found = []
    for engines, modules in sorted(groups.items(), key=lambda item: -len(item[0])):
        info = modules[0].tensors[modules[0].weight or ""]
        names = tuple(m.name for m in modules[:MOST_SHOWN])
        found.append(Skipped(names, len(modules), info.name, info.file, len(engines) == 2, engines))
    return tuple(found)


def find_splits(
    shown: Sequence[Module], scheme: Scheme, words: Mapping[str, Any], layers: int | None
) -> tuple[Split, ...]:
    """The fused sets whose parts are not treated alike."""
    if not scheme.weights or not scheme.rules.judged or scheme.opaque:
        return ()
    by_name = {m.name: m for m in shown}
    found: list[Split] = []
    for fused in words["fused"]:
        for name in [n for n in by_name if last_part(n) == fused[0] and "experts" not in n]:
            where = name.rpartition(".")[0]
            parts = {p: m for p in fused if (m := by_name.get(f"{where}.{p}".lstrip("."))) is not None}
            if len(parts) == len(fused) and (split := _split(where, parts, scheme, layers)) is not None:
                found.append(split)
    return tuple(found[:MOST_SHOWN])


def _split(where: str, parts: Mapping[str, Module], scheme: Scheme, layers: int | None) -> Split | None:
    plain = [p for p, m in parts.items() if m.is_plain]
    packed = [p for p, m in parts.items() if m.is_packed]
    file = next(iter(parts.values())).tensors[next(iter(parts.values())).weight or ""].file
    if plain and packed:
        return Split(where, tuple(plain), tuple(packed), "storage", False, (), file)
    if scheme.rules.form == "negative":  # its patterns are held against the name of the whole, not of the parts
        return None

    def left_alone(part: str) -> bool:
        name = f"{where}.{part}".lstrip(".")
        return bool(scheme.spared_by(name)) or _other_entry(scheme, name, layers) is not None

    fused = fused_name(f"{where}.{next(iter(parts))}")
    if fused is not None and scheme.spared_by(fused):
        return None
    left = [p for p in parts if left_alone(p)]
    others = [p for p in parts if p not in left]
    if not left or not others:
        return None
    entries = tuple(f"{where}.{p}".lstrip(".") for p in others)
    return Split(where, tuple(left), tuple(others), "list", len(plain) == len(parts), entries, file)
