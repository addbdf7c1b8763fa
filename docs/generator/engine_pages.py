"""A page for each engine, from its contract: what was read and executed, classes, behaviours by release, targets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ckptdoctor.resources import rules_dir
from ckptdoctor.serving.contract.contracts import Contract, contracts, evidence
from generator.markdown import code, page, prose, table

__all__ = ["engine_page", "engines_index"]

_HEADS = ("what", "from", "is", "seen in", "how")


def engines_index() -> str:
    """The table of all engines."""
    rows = []
    for contract in contracts().values():
        executed, read = evidence(contract)
        releases = contract.releases
        span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]} ({len(releases)})"
        rows.append((f"[{contract.name}]({contract.engine}.md)", span, str(executed), str(read)))
    return page(
        "# Engines",
        "What engines do with a draft, release by release, as `plan`, `compat` and `scan --engine` know it. An entry "
        "that was executed was seen in a run of the engine's own code; one that was read was found in its source. "
        "A finding that rests on an entry which was only read is a warning at most.",
        table(("engine", "releases", "entries executed", "entries read"), rows),
    )


def engine_page(contract: Contract) -> str:
    """All that the contract of one engine says."""
    executed, read = evidence(contract)
    raw = contract.raw
    parts = [
        f"# {contract.name}",
        f"{executed} entries were executed, {read} were read. From `rules/serving/{contract.engine}.yaml`"
        + (f" and `rules/serving/{contract.engine}-targets.yaml`." if contract.targets else "."),
        f"Releases that were read: {', '.join(contract.releases)}.",
        "An entry holds from its release until the next one of the same name.",
        "## Configs and class names",
        table(_HEADS, _rows(raw, _schema("serving")["properties"])),
        table(("name in config.json", "class here", "from"), _names(raw["architectures"])),
        *_renamed(raw),
        *_general(raw),
    ]
    for name, entry in raw["classes"].items():
        parts += _class(name, entry)
    if contract.targets:
        parts += _targets(contract.targets)
    return page(*parts)


@lru_cache(maxsize=2)
def _schema(name: str) -> Any:
    return json.loads((rules_dir() / "schema" / f"{name}.schema.json").read_text(encoding="utf-8"))


def _is_timeline(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) and "value" in v for v in value)


def _rows(holder: Mapping[str, Any], described: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """The timelines of `holder`, an entry a row; `described` gives the words of their variants."""
    for name, timeline in holder.items():
        if not _is_timeline(timeline):
            continue
        for number, entry in enumerate(timeline):
            yield (
                code(name) if number == 0 else "",
                str(entry["from"]),
                _value(entry["value"], described.get(name, {})),
                prose(str(entry.get("source", ""))),
                str(entry.get("evidence", "read")),
            )


def _value(value: Any, described: Mapping[str, Any]) -> str:
    words = next((v["description"] for v in _variants(described) if v.get("const") == value), None)
    if isinstance(value, str):
        return f"{code(value)}: {prose(words)}" if words else code(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{code(k)} → {code(v)}" for k, v in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(code(v) for v in value) or "none"
    return code(value)


def _variants(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every `{const, description}` under a schema."""
    if isinstance(schema, Mapping):
        if "const" in schema and "description" in schema:
            yield schema
        for value in schema.values():
            yield from _variants(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _variants(value)


def _names(rows: Iterable[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    for row in rows:
        condition = f" if {code(row['if'])}" if "if" in row else ""
        until = f", until {row['until']}" if "until" in row else ""
        yield code(row["name"]) + condition, row["class"], f"{row.get('from', '')}{until}"


def _renamed(raw: Mapping[str, Any]) -> Iterator[str]:
    if raw.get("renamed_in_drafts"):
        yield "Names that mean another class in a draft:"
        yield table(
            ("name in config.json", "is taken for", "from"),
            [(_renamed_from(r), code(r["to"]), _from(r)) for r in raw["renamed_in_drafts"]],
        )


def _renamed_from(row: Mapping[str, Any]) -> str:
    return code(row["name"]) if "name" in row else f"any, with model_type {code(row['model_type'])}"


def _from(row: Mapping[str, Any]) -> str:
    return f"{row.get('from', '')}" + (f", until {row['until']}" if "until" in row else "")


def _general(raw: Mapping[str, Any]) -> Iterator[str]:
    """What ends a start whatever the class is."""
    if "refuses" in raw:
        yield "## Whatever the class"
        meant = ", ".join(f"{code(name)} is {code(expression)}" for name, expression in raw.get("symbols", {}).items())
        yield f"Here and for every class {meant}." if meant else ""
        yield _refusals(raw["refuses"])


def _refusals(rows: Iterable[Mapping[str, Any]]) -> str:
    return table(
        ("stops at", "if", "from", "because", "seen in", "how"),
        [
            (
                row["stage"],
                code(row["if"]),
                str(row.get("from", "")) + (f", until {row['until']}" if "until" in row else ""),
                prose(row["reason"]),
                prose(row["source"]),
                row["evidence"],
            )
            for row in rows
        ],
    )


def _class(name: str, entry: Mapping[str, Any]) -> Iterator[str]:
    described = _schema("serving")["$defs"]["class"]["properties"]["behaviours"].get("properties", {})
    yield f"## Class {name}"
    yield f"{code(entry['name'])} loads drafts of these kinds: {', '.join(entry.get('algorithms', ())) or 'any'}."
    if "parameters" in entry:
        yield table(
            ("parameter", "shape", "holds before loading", "only if"),
            [
                (
                    code(row["name"]),
                    code(row["shape"]) if "shape" in row else "",
                    str(row.get("initial", "random")),
                    code(row["if"]) if "if" in row else "",
                )
                for row in entry["parameters"]
                if "name" in row
            ],
        )
    yield table(_HEADS, _rows(entry.get("behaviours", {}), described))
    yield _refusals(entry.get("refuses", ()))


def _targets(targets: Mapping[str, Any]) -> Iterator[str]:
    schema = _schema("targets")
    yield "## Targets"
    yield (
        "Which states of a target are captured. Boundary b is the residual stream after b layers, 0 the embedding "
        "output, n the number of layers."
    )
    yield table(_HEADS, _rows(targets, schema["properties"]))
    for row in targets["targets"]:
        yield f"### {', '.join(name if name != '*' else 'every other class' for name in row['classes'])}"
        since = ", ".join(f"{name} from {since}" for name, since in row["classes"].items() if name != "*")
        gone = ", ".join(f"{name} until {until}" for name, until in row.get("removed", {}).items())
        yield ". ".join(part for part in (since, gone) if part) + "." if since or gone else ""
        yield table(_HEADS, _rows(row, schema["$defs"]["target"]["properties"]))
