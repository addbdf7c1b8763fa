"""What the HTML page shows, as plain values in the order in which they stand there."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from ckptdoctor.findings import Confidence, Examination, Finding, Report
from ckptdoctor.report.wording import (
    OUTCOME_STYLE,
    PATH_LIMIT,
    SERVED,
    beside_serving,
    counts,
    failure,
    nothing_found,
    place,
    serving_rows,
    total,
    unjudged,
    unserved,
)
from ckptdoctor.text import listing, plural, show

__all__ = ["CheckpointView", "FindingView", "PageView", "PlanView", "page_view"]

_LEFT = {"ones": "left at ones", "zeros": "left at zeros", "random": "left random", "empty": "left uninitialised"}
_RESIDUAL = {"before_norm": "taken before the norm", "configured": "as norm_before_residual says"}
_ISSUE = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+#[0-9]+")


@dataclass(frozen=True)
class FindingView:
    """One finding. `labelled` are pairs of a label and a sentence, `reports` public reports and their addresses."""

    anchor: str
    rule: str
    name: str
    severity: str
    unsure: str
    where: str
    message: str
    labelled: tuple[tuple[str, str], ...]
    background: str
    reports: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class PlanView:
    """One load plan. `parameters`, `unused` and `wiring` are rows; the last of a parameter's is how bad it is."""

    release: str
    outcome: str
    style: str
    model_class: str
    summary: str
    reasons: tuple[str, ...]
    parameters: tuple[tuple[str, str, str, str], ...]
    unused: tuple[tuple[str, str], ...]
    wiring: tuple[tuple[str, str, str], ...]
    remarks: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class CheckpointView:
    """One checkpoint. `serving` are rows of release, outcome, style and reason."""

    anchor: str
    path: str
    title: str
    verdict: str
    worst: str
    counts: str
    findings: tuple[FindingView, ...]
    aside: tuple[tuple[str, str, str], ...]
    unjudged: tuple[tuple[str, str], ...]
    serving: tuple[tuple[str, str, str, str], ...]
    serving_title: str
    serving_remark: str
    plans: tuple[PlanView, ...]
    pictures: tuple[tuple[str, Markup], ...]
    facts: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]


@dataclass(frozen=True)
class PageView:
    """The page. `total` is the line over all checkpoints; empty for one. `caveats` stand before everything else."""

    title: str
    total: str
    checkpoints: tuple[CheckpointView, ...]
    failed: tuple[tuple[str, str], ...]
    policy: str
    remarks: tuple[str, ...]
    caveats: tuple[str, ...] = ()


def page_view(report: Report) -> PageView:
    """The page of `report`."""
    several = len(report.examinations) + len(report.failed) > 1
    first = next((e.path for e in report.examinations), next((path for path, _ in report.failed), ""))
    whole = total(report)
    return PageView(
        title=f"ckptdoctor: {whole if several else show(first, PATH_LIMIT)}",
        total=whole if several else "",
        checkpoints=tuple(_checkpoint(report, e, n) for n, e in enumerate(report.examinations, 1)),
        failed=tuple((show(path, PATH_LIMIT), failure(path, reason)) for path, reason in report.failed),
        policy="" if report.policy is None else show(report.policy, PATH_LIMIT),
        remarks=report.remarks,
        caveats=report.caveats,
    )


def _checkpoint(report: Report, examination: Examination, number: int) -> CheckpointView:
    ordered = sorted(examination.findings, key=lambda f: -f.severity.rank)
    worst = ordered[0].severity.value if ordered else ""
    plans = examination.plans or examination.newest
    serving = ((name, SERVED[out], OUTCOME_STYLE[out], why) for name, out, why in serving_rows(examination))
    return CheckpointView(
        anchor=f"c{number}",
        path=show(examination.path, PATH_LIMIT),
        title=examination.title,
        verdict=_verdict(examination, worst),
        worst=worst or "none",
        counts=counts(examination),
        findings=tuple(_finding(report, f, f"c{number}-f{n}") for n, f in enumerate(ordered, 1)),
        aside=tuple(
            (f"{item.finding.rule} {item.finding.name}", item.finding.message,
             f"{item.reason}{f' (until {item.expires})' if item.expires else ''}")
            for item in examination.ignored
        ),
        unjudged=tuple((group.sentence, listing(group.rules, 12)) for group in unjudged(examination.skipped)),
        serving=tuple(serving),
        serving_title="Serving" if examination.plans else "Serving, as far as known",
        serving_remark=beside_serving(examination),
        plans=tuple(_plan(plan) for plan in plans),
        pictures=tuple((picture.title, _image(picture.svg)) for picture in examination.pictures),
        facts=tuple(_facts(examination)),
        commands=examination.next_commands,
    )  # fmt: skip


def _verdict(examination: Examination, worst: str) -> str:
    if worst:
        return {
            "error": "Do not serve this as it is.",
            "warning": "Look at the warnings before it is served.",
            "note": f"There is something to know{f'; {said}' if (said := unserved(examination)) else ''}.",
        }[worst]
    return nothing_found(examination)


def _finding(report: Report, finding: Finding, anchor: str) -> FindingView:
    about = report.rules.get(finding.rule)
    labelled = [
        ("on", listing(finding.engines, 6) if finding.engines else ""),
        ("you would see", finding.effect),
        ("next", finding.advice),
    ]
    if finding.fix is not None and finding.fix.refused is not None:
        labelled.append(("not fixed", finding.fix.refused))
    elif finding.fix is not None:
        labelled.append(("fix available", f"{finding.fix.summary} ({finding.fix.safety})"))
        labelled.append(("assumes", finding.fix.assumption or ""))
    if finding.by_policy:
        labelled.append(("severity", "set by the project's policy"))
    return FindingView(
        anchor=anchor,
        rule=finding.rule,
        name=finding.name,
        severity=finding.severity.value,
        unsure="" if finding.confidence is Confidence.CERTAIN else finding.confidence.value,
        where=place(finding.location),
        message=finding.message,
        labelled=tuple((label, text) for label, text in labelled if text),
        background=about.why if about is not None else "",
        reports=tuple((r, _address(r)) for r in (about.seen_in if about is not None else finding.seen_in)),
    )


def _address(report: str) -> str | None:
    """Where a public report is to be read; None where that is not known. Nobody goes there unasked."""
    if _ISSUE.fullmatch(report):
        repository, _, number = report.partition("#")
        return f"https://github.com/{repository}/issues/{number}"
    return report if report.startswith("https://") else None


def _facts(examination: Examination) -> Iterator[tuple[str, str]]:
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
        return ", ".join(str(item) for item in value)
    return show(value, PATH_LIMIT)


def _plan(plan: Mapping[str, Any]) -> PlanView:
    numbers = plan["counts"]
    told = [f"{numbers['loaded']} of {plural(numbers['parameters'], 'parameter')} loaded"]
    told += [f"{numbers['shared']} taken from the target"] if numbers["shared"] else []
    told += [f"{numbers['uninitialised']} left as initialised"] if numbers["uninitialised"] else []
    told += [f"{plural(numbers['dropped'], 'stored tensor')} dropped"] if numbers["dropped"] else []
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
        parameters=tuple(_parameter(row) for row in plan["parameters"]),
        unused=tuple(_unused(plan)),
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
        "partly": (f"{keys}; {listing(row['parts_missing'])} {_LEFT[row['initial']]}", "error"),
    }.get(row["state"], (f"{_LEFT[row['initial']]}{unread}", ""))
    if not style:
        style = "quiet" if unread else "warning" if row["initial"] in ("ones", "zeros") else "error"
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
    return f"[{', '.join(str(v) for v in values)}]"


def _image(svg: str) -> Markup:
    """The picture as an address that holds all of it: as an image its styles and ids stay its own, and nothing runs."""
    # The alphabet of base64 has nothing to escape.
    return Markup("data:image/svg+xml;base64," + base64.b64encode(svg.encode("utf-8")).decode("ascii"))  # noqa: S704
