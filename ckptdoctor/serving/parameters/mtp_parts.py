"""What a class of MTP layers expects of each layer, against what is stored: `rules/serving/mtp-parts.yaml`.

The expectation is that of a family of models; what an engine does about a gap stands in its contract.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckptdoctor.facts.mtp.mtp import MtpHeads
from ckptdoctor.serving.contract.settings import Settings, evaluate
from ckptdoctor.unknown import Unknown

__all__ = ["MODULE", "Gap", "gaps", "plain_gaps", "strangers", "with_text_config"]

MODULE = -1
"""The number of what belongs to the module as a whole."""

MAX_EXPERTS = 4096
_BIASES = (".bias", "_bias")


@dataclass(frozen=True)
class Gap:
    """One tensor that is not stored. `kind` is what an engine builds it as: `norm`, `torch`, `bias` or `own`; `whole`
    says that nothing at all is stored of the parameter that it belongs to."""

    name: str
    kind: str
    whole: bool


def gaps(family: Mapping[str, Any], mtp: MtpHeads, stem: str, number: int, settings: Settings) -> list[Gap]:
    """What the layer `number` of `mtp`, whose names begin with `stem`, lacks; `MODULE` for the module as a whole."""
    rows = family.get("module" if number == MODULE else "layer", ())
    stored = mtp.tails.get(number, frozenset())
    wanted = list(_wanted(rows, family, number, settings))
    lost = [(name, row) for name, row in wanted if name not in stored and not _is_fused(row, stored)]
    there = {row.get("in", name) for name, row in wanted if name in stored}
    return [Gap(stem + name, row.get("kind", "own"), row.get("in", name) not in there) for name, row in lost]


def plain_gaps(parts: Mapping[str, Any], mtp: MtpHeads) -> list[Gap]:
    """What layers lack of which no family is known: the parts that every such module has (`mtp.gaps`)."""
    plain = re.compile(parts["plain"])
    return [
        Gap(f"{gap.where}.{name}", "norm" if plain.search(name) else "own", True)
        for gap in (*mtp.gaps, *mtp.halves)
        for name in gap.names
    ]


def strangers(family: Mapping[str, Any], mtp: MtpHeads, stems: Mapping[int, str]) -> list[str]:
    """Stored names of the layers and of the module (`stems` by number) that no class of this family has."""
    found = []
    for number, stem in stems.items():
        rows: Sequence[Mapping[str, Any]] = family.get("module" if number == MODULE else "layer", ())
        known = {_part(name) for row in rows for name in (row["name"], row.get("in", row["name"]))}
        patterns = [re.compile(re.escape(part).replace(r"\{e\}", "[0-9]+")) for part in known]
        patterns += [re.compile(pattern) for pattern in family["known"]]
        for name in sorted(mtp.tails.get(number, ())):
            part = _part(name)
            if not name.endswith(_BIASES) and not any(p.fullmatch(part) for p in patterns):
                found.append(stem + name)
    return found


def _part(name: str) -> str:
    return name.removesuffix(".weight").removesuffix(".bias").removesuffix(".e_score_correction_bias")


def _is_fused(row: Mapping[str, Any], stored: frozenset[str]) -> bool:
    fused = row.get("in")
    return fused is not None and (fused in stored or f"{fused}.weight" in stored)


def _wanted(
    rows: Sequence[Mapping[str, Any]], family: Mapping[str, Any], number: int, settings: Settings
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The names that must be there, each with its row. What rests on a value that is not known is not wanted."""
    symbols: dict[str, Any] = {"number": number}
    for name, expression in family.get("symbols", {}).items():
        symbols[name] = evaluate(expression, symbols, settings)
    for row in rows:
        holds = evaluate(row["if"], symbols, settings) if "if" in row else True
        if isinstance(holds, Unknown) or not holds:
            continue
        if "each" not in row:
            yield str(row["name"]), row
            continue
        count = evaluate(row["each"], symbols, settings)
        for expert in range(min(count, MAX_EXPERTS) if type(count) is int else 0):
            yield str(row["name"]).replace("{e}", str(expert)), row


def with_text_config(settings: Settings) -> Settings:
    """The settings with those of text_config, where a model's sizes stand beside those of its other parts."""
    inner = settings.get("text_config")
    return replace(settings, values={**inner, **settings.values}) if isinstance(inner, Mapping) else settings
