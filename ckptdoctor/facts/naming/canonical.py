"""Names: what each stored tensor would be called without prefixes, and in the usual layout."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Named", "Prefix", "canonical_names", "prefixes_of"]

MAX_STRIPPED = 8
_DEEPEST = 8
_IN_LAYER = re.compile(r"(midlayer|layers\.\d+)\.")


@dataclass(frozen=True)
class Named:
    """A stored name and its canonical form: prefixes off, layer 0 called `layers.0`.

    `prefix` is what was taken off (`""` for nothing), `alias` the layer's name as stored (`midlayer`,
    `layers.0`; `""` outside layers). `private` is the trainer whose own name it is (rules/facts/naming.yaml,
    `private_names`; `""` for a name that engines may know).
    """

    stored: str
    canonical: str
    prefix: str
    alias: str
    private: str = ""


@dataclass(frozen=True)
class Prefix:
    """A prefix that stands before names: how many carry it, whose it is, and whether the head is among them.

    `kind` is `trainer` (nobody strips it), `model` (some engines understand it) or `doubled`
    (`model.model.`, or a trainer's prefix twice).
    """

    text: str
    kind: str
    source: str
    count: int
    of: int
    example: str
    covers_head: bool


def canonical_names(names: Iterable[str], naming: Mapping[str, Any], *, strip_model: bool) -> dict[str, Named]:
    """Stored name → `Named`. With `strip_model`, a leading `model.` is a prefix too (drafts, not whole models)."""
    prefixes = [row["text"] for row in naming["trainer_prefixes"]]
    if strip_model:
        prefixes.append(naming["model_prefix"])
    aliases = [(re.compile(row["from"]), row["to"]) for row in naming["layer_aliases"]]
    single = [(re.compile(row["from"]), row["to"]) for row in naming["parameter_aliases"]] if strip_model else []
    found = {name: _name(name, prefixes, aliases, single) for name in names}
    if strip_model and (around := _around([n.canonical for n in found.values()], naming["layouts"]["bare"])):
        found = {name: _name(name, [*prefixes, around], aliases, single) for name in found}
    return _with_private(found, naming) if strip_model else found


def _around(canonical: Sequence[str], bare: Sequence[str]) -> str:
    """A prefix that is not known and that every name of a draft begins with, but for those that often go without one.

    Only where a decoder layer and a parameter outside of layers stand under it; `""` otherwise.
    """
    inner = [name for name in canonical if not name.startswith(tuple(bare))]
    if not inner:
        return ""
    common = min(inner).split(".")[:_DEEPEST]
    last = max(inner).split(".")
    while common and common != last[: len(common)]:
        common.pop()
    for length in range(len(common), 0, -1):
        prefix = ".".join(common[:length]) + "."
        rest = [name.removeprefix(prefix) for name in inner]
        if any(_IN_LAYER.match(r) for r in rest) and any(re.match(r"(fc|norm)\.weight$", r) for r in rest):
            return prefix
    return ""


def _with_private(found: Mapping[str, Named], naming: Mapping[str, Any]) -> dict[str, Named]:
    """The same with a trainer's own names understood, where all the signs of that trainer are there."""
    canonical = [n.canonical for n in found.values()]
    result = dict(found)
    for row in naming["private_names"]:
        if not all(any(re.search(sign, name) for name in canonical) for sign in row["signs"]):
            continue
        if any(re.search(sign, name) for name in canonical for sign in row.get("unless", ())):
            continue
        patterns = [(re.compile(old), new) for old, new in row["names"].items()]
        for name, known in found.items():
            for pattern, new in patterns:
                meaning, changed = pattern.subn(new, known.canonical)
                if changed:
                    result[name] = Named(name, meaning, known.prefix, "", row["trainer"])
                    break
    return result


def _name(
    stored: str,
    prefixes: list[str],
    aliases: list[tuple[re.Pattern[str], str]],
    single: list[tuple[re.Pattern[str], str]],
) -> Named:
    rest, taken = stored, ""
    for _ in range(MAX_STRIPPED):
        prefix = next((p for p in prefixes if rest.startswith(p) and len(rest) > len(p)), None)
        if prefix is None:
            break
        taken, rest = taken + prefix, rest[len(prefix) :]
    canonical, alias = rest, ""
    for pattern, to in aliases:
        canonical, changed = pattern.subn(to, rest)
        if changed:
            alias = pattern.match(rest).group().rstrip(".")  # type: ignore[union-attr]
            break
    else:
        layer = re.match(r"layers\.\d+", rest)
        alias = layer.group() if layer else ""
        for pattern, to in single:
            canonical = pattern.sub(to, canonical)
    return Named(stored, canonical, taken, alias)


def prefixes_of(named: Iterable[Named], naming: Mapping[str, Any]) -> tuple[Prefix, ...]:
    """The prefixes that were taken off, most frequent first."""
    all_named = list(named)
    counts = Counter(n.prefix for n in all_named if n.prefix)
    sources = {row["text"]: row["from"] for row in naming["trainer_prefixes"]}
    model = naming["model_prefix"]
    found: list[Prefix] = []
    by_prefix: dict[str, list[Named]] = {}
    for name in all_named:
        by_prefix.setdefault(name.prefix, []).append(name)
    for text, count in counts.most_common():
        carriers = by_prefix[text]
        pieces = _pieces(text, (*sources, model))
        trainer = next((sources[piece] for piece in pieces if piece in sources), None)
        if trainer is None and any(piece != model for piece in pieces):
            trainer = "an object around the draft"
        doubled = any(pieces.count(piece) > 1 for piece in pieces)
        found.append(
            Prefix(
                text=text,
                kind="doubled" if doubled else "trainer" if trainer else "model",
                source=trainer or "a trainer that saves the draft inside a model",
                count=count,
                of=len(all_named),
                example=carriers[0].stored,
                covers_head=any(n.canonical.startswith("lm_head.") for n in carriers),
            )
        )
    return tuple(found)


def _pieces(text: str, known: Sequence[str]) -> list[str]:
    """A prefix as the known ones that it is made of, the longest first, and words that are not known."""
    pieces: list[str] = []
    while text:
        piece = max((p for p in known if text.startswith(p)), key=len, default=text.partition(".")[0] + ".")
        pieces.append(piece)
        text = text[len(piece) :]
    return pieces
