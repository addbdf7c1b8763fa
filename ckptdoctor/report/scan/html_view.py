"""What the HTML page alone shows beside the view of a report: facts, load plans, pictures and addresses."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ckptdoctor.findings import Examination
from ckptdoctor.report.initial_values import LEFT, is_defined
from ckptdoctor.report.wording import OUTCOME_STYLE, PATH_LIMIT, SERVED
from ckptdoctor.text import listing, numbers, plural, show

__all__ = ["PlanView", "address", "facts", "image", "plans"]

_RESIDUAL = {"before_norm": "taken before the norm", "configured": "as norm_before_residual says"}
_LISTED = 64
_ROWS = 400
_ISSUE = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+#[0-9]+")


@dataclass(frozen=True)
class PlanView:
    """One load plan. `parameters`, `unused` and `wiring` are rows; the last of a parameter's is how bad it is."""

    release: str
    outcome: str
    style: str
    model_class: str
    summary: str
    reasons: tuple[str, ...]
    parameters: tuple[tuple[str, ...], ...]
    unused: tuple[tuple[str, ...], ...]
    wiring: tuple[tuple[str, str, str], ...]
    remarks: tuple[tuple[str, str], ...]


def address(report: str) -> str | None:
    """Where a public report is to be read; None where that is not known. Nobody goes there unasked."""
    if _ISSUE.fullmatch(report):
        repository, _, number = report.partition("#")
        return f"https://github.com/{repository}/issues/{number}"
    return report if report.startswith("https://") else None


def facts(examination: Examination) -> Iterator[tuple[str, str]]:
    """A few facts of the draft and its target: those that a person compares first."""
    draft, target = examination.draft, examination.target or {}
    names = (
        ("kind", "algorithm"), ("written by", "dialect"), ("architecture", "architecture"),
        ("hidden size", "hidden_size"), ("draft vocabulary", "draft_vocab_size"), ("vocabulary", "vocab_size"),
        ("auxiliary layer ids", "aux_layer_ids"), ("tensors", "tensors"), ("bytes", "bytes"),
    )  # fmt: skip
    for label, key in names:
        if (value := draft.get(key)) is not None and value != "unknown":
            yield label, _value(value)
    for label, key in (("target", "path"), ("target layers", "num_layers"), ("target hidden size", "hidden_size")):
        if (value := target.get(key)) is not None:
            yield label, _value(value)


def _value(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        more = f", … {len(value) - _LISTED:,} more" if len(value) > _LISTED else ""
        return ", ".join(show(item) for item in value[:_LISTED]) + more
    return show(value, PATH_LIMIT)


def plans(examination: Examination) -> list[PlanView]:
    """The load plans of the named releases, else of the newest ones."""
    return [_plan(plan) for plan in examination.plans or examination.newest]


def _plan(plan: Mapping[str, Any]) -> PlanView:
    total = plan["counts"]
    told = [f"{total['loaded']} of {plural(total['parameters'], 'parameter')} loaded"]
    told += [f"{total['shared']} taken from the target"] if total["shared"] else []
    told += [f"{total['uninitialised']} left as initialised"] if total["uninitialised"] else []
    told += [f"{plural(total['dropped'], 'stored tensor')} dropped"] if total["dropped"] else []
    remarks = [("not proven", text) for text in plan["unproven"]] + [("remark", text) for text in plan["remarks"]]
    if not plan["executed"]:
        remarks.append(("remark", "Part of this was read in the engine's source and not executed."))
    return PlanView(
        release=f"{plan['engine']} {plan['version']}",
        outcome=SERVED[plan["outcome"]],
        style=OUTCOME_STYLE[plan["outcome"]],
        model_class=plan["model_class"] or "",
        summary=", ".join(told) if plan["parameters"] else "",
        reasons=tuple(plan["reasons"]),
        parameters=_rows(_parameter(row) for row in plan["parameters"]),
        unused=_rows(_unused(plan)),
        wiring=tuple(_wiring(plan)),
        remarks=tuple(remarks),
    )


def _parameter(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Name, shape, where its values come from, and how bad that is."""
    shape = "?" if row["shape"] is None else "×".join(str(n) for n in row["shape"]) or "scalar"
    keys, unread = listing(row["keys"], 3), "" if row["used"] else ", never read"
    text, style = {
        "shared": (f"the target's (instead of {keys})" if row["keys"] else "the target's", "quiet"),
        "loaded": (f"{keys}{unread}", "quiet" if unread else "fix"),
        "partly": (f"{keys}; {listing(row['parts_missing'])} {LEFT[row['initial']]}", "error"),
    }.get(row["state"], (f"{LEFT[row['initial']]}{unread}", ""))
    if not style:
        style = "quiet" if unread else "warning" if is_defined(row["initial"]) else "error"
    return row["name"], shape, text, style


def _unused(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Stored tensors that no parameter takes, and what becomes of them."""
    taken = {key for row in plan["parameters"] for key in row["keys"]} | {plan["wiring"].get("map")}
    for stored in plan["stored"]:
        if stored["fate"] != "used" or stored["name"] not in taken:
            fate = "not needed" if stored["fate"] == "used" else stored["fate"].replace("_", " ")
            yield stored["name"], f"{fate}: {stored['why']}" if stored["why"] else fate


def _wiring(plan: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What flows where: a label, the words, and how bad it is."""
    wiring, trained = plan["wiring"], plan["trained_boundaries"]
    if wiring.get("final_state"):
        yield "captured", "the final state of the target", ""
    else:
        known = {phase: b for phase, b in plan["captured"].items() if b is not None}
        same = len({tuple(b) for b in known.values()}) == 1
        for phase, boundaries in list(known.items())[: 1 if same else None]:
            label = "captured boundaries" if same else f"captured boundaries, {phase.replace('_', ' ')}"
            differs = trained is not None and boundaries != trained
            yield label, _ids(boundaries), "error" if differs else ""
    if trained is not None:
        because = wiring.get("trained_because")
        yield "trained on", f"{_ids(trained)}{f' ({because})' if because else ''}", ""
    if wiring.get("ids") and wiring.get("ids_from"):
        yield "ids from", f"{wiring['ids_from']} {_ids(wiring['ids'])}", ""
    if wiring.get("fc"):
        yield "fc", str(wiring["fc"]), "error" if wiring["fc"] == "skipped" else ""
    if wiring.get("residual"):
        yield "residual", _RESIDUAL.get(str(wiring["residual"]), str(wiring["residual"])), ""
    if plan["parameters"]:
        mapped = wiring.get("map")
        yield "draft id to target id", f"+ {show(mapped)}" if mapped else "the same (no map)", ""


def _ids(values: Sequence[int]) -> str:
    return numbers(values, _LISTED)


def _rows(rows: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """The rows of a table, and where there are very many how many more, in a row of its own."""
    every = list(rows)
    more = len(every) - _ROWS
    if more <= 0:
        return tuple(every)
    return (*every[:_ROWS], (f"and {more:,} more", *("" for _ in every[0][1:])))


def image(svg: str) -> Markup:
    """The picture as an address that holds all of it: as an image its styles and ids stay its own, and nothing runs."""
    # The alphabet of base64 has nothing to escape.
    return Markup("data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8")).decode("ascii"))  # noqa: S704
