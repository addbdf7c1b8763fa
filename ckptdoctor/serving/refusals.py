"""The loud errors that rows of a contract give: those of every class, and those of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ckptdoctor.facts import Facts
from ckptdoctor.launch.line import Launch
from ckptdoctor.serving.config.understanding import is_translated
from ckptdoctor.serving.contract.contracts import Reader, Release
from ckptdoctor.serving.contract.settings import Settings, evaluate
from ckptdoctor.serving.layers.capture import runner_of
from ckptdoctor.serving.plan import Refusal
from ckptdoctor.serving.words import Reason, faults
from ckptdoctor.text import show
from ckptdoctor.unknown import Unknown

__all__ = ["damage", "general_symbols", "in_order", "row_refusals"]


def general_symbols(facts: Facts, settings: Settings, release: Release, launch: Launch | None) -> dict[str, Any]:
    """The symbols that do not depend on the class: `translated`, `runner` (which model runner the target gets), and
    those of the contract."""
    runner = runner_of(release.reader(), facts.target, launch)
    symbols: dict[str, Any] = {"translated": is_translated(facts, release), "runner": runner}
    for name, expression in release.contract.raw.get("symbols", {}).items():
        symbols[name] = evaluate(expression, symbols, settings)
    return symbols


def row_refusals(
    entry: Mapping[str, Any], symbols: Mapping[str, Any], settings: Settings, reader: Reader
) -> tuple[list[Refusal], list[Reason]]:
    """The rows of `refuses`, of the engine and of the class, that hold, and those of which nobody can tell."""
    found, opens = [], []
    for row in (*reader.contract.raw.get("refuses", ()), *entry.get("refuses", ())):
        holds = evaluate(row["if"], symbols, settings)
        # Most conditions speak of other drafts; whether such a row is one of this release does not matter.
        if not isinstance(holds, Unknown) and not holds:
            continue
        if not reader.holds(row):
            continue
        if isinstance(holds, Unknown):
            values = {"reason": _filled(row["reason"], symbols), "needs": holds.needs}
            opens.append(Reason("open", "condition", values))
        elif not row.get("certain", True):
            opens.append(Reason("open", "odd_setting", {"reason": _filled(row["reason"], symbols)}))
        else:
            found.append(Refusal(str(row["stage"]), _filled(row["reason"], symbols), str(row.get("about", ""))))
            reader.note(row)
    return found, opens


def _filled(reason: Any, symbols: Mapping[str, Any]) -> str:
    text = str(reason)
    for name, value in symbols.items():
        text = text.replace(f"{{{name}}}", "…" if isinstance(value, Unknown) else show(value))
    return text


def damage(facts: Facts) -> list[Refusal]:
    """The loud error of a damaged weight file, which no reader of safetensors opens."""
    kinds = set(faults()["weights_refused"])
    found = next((f for f in facts.files.faults if f.kind in kinds and f.file in facts.files.names), None)
    return [] if found is None else [Refusal("load", f"{show(found.file)} is damaged")]


def in_order(first: Sequence[Refusal], then: Sequence[Refusal]) -> list[Refusal]:
    """Loud errors in the order in which a real start would meet them."""
    order = {"config": 0, "class": 1, "construct": 2, "start": 3, "load": 4, "first_forward": 5}
    return sorted([*first, *then], key=lambda r: order[r.stage])
