"""The short sentences that every format for people shares: counts, places, and what was not judged."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ckptdoctor.findings import Examination, Fault, Location, Report, Severity, Skip
from ckptdoctor.text import listing, plural, show

__all__ = [
    "OUTCOME_STYLE",
    "PATH_LIMIT",
    "SERVED",
    "Unjudged",
    "beside_serving",
    "counts",
    "failure",
    "fault_lines",
    "file_path",
    "nothing_found",
    "place",
    "serving_line",
    "serving_rows",
    "skipped_rules",
    "total",
    "unjudged",
    "unserved",
    "words",
]

PATH_LIMIT = 4096
"""Characters of a path that are shown: a cut path helps nobody."""

SERVED = {
    "served": "served as trained",
    "degraded": "degraded",
    "broken": "broken without a message",
    "refused": "refused with an error",
    "unknown": "not known",
}
"""The outcomes of a plan, in words."""

OUTCOME_STYLE = {"served": "fix", "degraded": "warning", "broken": "error", "refused": "error", "unknown": "unknown"}
"""The style that each outcome is printed in."""

_TEXT_LIMIT = 16_000
_NAMED = 3
_OPTION = re.compile(r"^(?P<what>.*\S)\s*\((?P<option>--[a-z][a-z-]*)(?: (?P<operand>[A-Z-]+))?\)$", re.DOTALL)
_OPERANDS = {"--target": "PATH", "--launch": "LINE", "--engine": "NAME"}


@dataclass(frozen=True)
class Unjudged:
    """The rules that were skipped for one and the same reason."""

    needs: str
    rules: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """`2 rules need the target: pass --target PATH`."""
        verb = "needs" if len(self.rules) == 1 else "need"
        what, how = self.needs, ""
        if found := _OPTION.match(self.needs):
            option = found["option"]
            operand = found["operand"] or _OPERANDS.get(option, "")
            what, how = found["what"], f": pass {option} {operand}".rstrip()
        return f"{plural(len(self.rules), 'rule')} {verb} {show(what)}{how}"


def unjudged(skips: Iterable[Skip]) -> list[Unjudged]:
    """The skips grouped by what they need, the need that blocks most rules first."""
    groups: dict[str, dict[str, None]] = {}
    for skip in skips:
        groups.setdefault(skip.needs, {})[skip.rule] = None
    found = [Unjudged(needs, tuple(rules)) for needs, rules in groups.items()]
    return sorted(found, key=lambda group: -len(group.rules))


_FAULTY = {"rule": "judged", "repair": "worked out", "plan": "planned"}
_CALLED = {"rule": "rule", "repair": "repair", "plan": "release"}


def fault_lines(faults: Iterable[Fault]) -> list[str]:
    """What was left out because ckptdoctor itself is wrong there, a sentence for each kind of part."""
    kinds: dict[str, dict[str, str]] = {}
    for fault in faults:
        kinds.setdefault(fault.kind, {}).setdefault(fault.part, fault.problem)
    return [
        f"{plural(len(parts), _CALLED[kind])} could not be {_FAULTY[kind]} because of a fault of ckptdoctor: "
        + _several([f"{show(part)} ({show(problem, 300)})" for part, problem in parts.items()])
        for kind, parts in kinds.items()
    ]


def _several(told: list[str]) -> str:
    more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
    return ", ".join(told[:_NAMED]) + more


def beside_serving(examination: Examination) -> str:
    """What has to be said beside `served as trained` where there are errors; empty where nothing has to be."""
    served = [p["outcome"] for p in examination.plans] or [s.outcome for s in examination.serving]
    if "served" not in served or all(f.severity is not Severity.ERROR for f in examination.findings):
        return ""
    return "This is what becomes of names, shapes and captured layers; the errors above come on top of it."


def serving_rows(examination: Examination) -> list[tuple[str, str, str]]:
    """How the files are served: release or range, outcome, first reason. The releases that were named, else all."""
    if examination.plans:
        return [
            (f"{p['engine']} {p['version']}", p["outcome"], next(iter(p["reasons"]), "")) for p in examination.plans
        ]
    return [(f"{s.name} {s.span}", s.outcome, s.reason) for s in examination.serving]


def serving_line(examination: Examination) -> str:
    """The named releases, else the newest one of each engine, in one line: `vllm 0.33.0: not known (why)`."""
    if examination.plans:
        rows = serving_rows(examination)
    else:
        rows = [(f"{s.name} {s.last}", s.outcome, s.reason) for s in examination.serving if s.is_newest]
    return "; ".join(f"{name}: {SERVED[outcome]}{f' ({why})' if why else ''}" for name, outcome, why in rows)


def unserved(examination: Examination) -> str:
    """What has to stand in every headline above a draft that is not known to be served; empty for any other draft.

    Named releases are told apart. Errors and warnings say themselves that something is wrong, but not that of another
    release nothing is known.
    """
    told = any(f.severity is not Severity.NOTE for f in examination.findings)
    if examination.plans:
        plans = [p for p in examination.plans if p["outcome"] == "unknown" or (p["outcome"] != "served" and not told)]
        named = [f"{p['engine']} {p['version']}: {SERVED[p['outcome']]}" for p in plans[:_NAMED]]
        more = [f"and {len(plans) - _NAMED} more"] if len(plans) > _NAMED else []
        return ", ".join((*named, *more))
    outcomes = {s.outcome for s in examination.serving}
    if told or not outcomes or "served" in outcomes:
        return ""
    engines = listing(dict.fromkeys(s.name for s in examination.serving))
    if "unknown" not in outcomes:
        return f"no known release of {engines} serves it as trained"
    if all(s.outcome != "unknown" for s in examination.serving if s.is_newest):
        return f"the newest releases of {engines} do not serve it as trained, and of older ones it is not known"
    return f"it is not known whether any release of {engines} serves it as trained"


def nothing_found(examination: Examination) -> str:
    """The sentence above a report without findings. It never says more than the outcomes below it do."""
    left_out = bool(examination.skipped or examination.faults)
    rest = "" if not left_out else " Some rules could not be judged, so this is no all-clear."
    if (said := unserved(examination)) != "":
        about = f"this is what is known of serving it: {said}" if examination.plans else said
        return f"No rule found anything, but {about}.{rest}"
    if any(outcome != "served" for _, outcome, _ in serving_rows(examination)):
        return f"No rule found anything. Some releases serve this draft as trained, and not all: see below.{rest}"
    if left_out:
        return "Nothing to report from what could be judged. Some rules could not be, so this is no all-clear."
    return "Nothing to report."


def skipped_rules(skips: Iterable[Skip]) -> int:
    """How many rules were skipped; one that is skipped for several items or engines counts once."""
    return len({skip.rule for skip in skips})


def counts(examination: Examination) -> str:
    """`1 error, 2 notes; 3 rules not judged`, and what `unserved` says."""
    levels = [
        plural(count, severity.value)
        for severity in Severity
        if (count := sum(f.severity is severity for f in examination.findings))
    ]
    text = _joined(levels, skipped_rules(examination.skipped), len(examination.faults))
    said = unserved(examination)
    return f"{text}; {said}" if said else text


def total(report: Report) -> str:
    """The last line over several paths: `3 checkpoints: 1 error; 2 rules not judged; 1 path not examined`."""
    levels = [plural(n, s.value) for s in Severity if (n := report.count(s))]
    skipped = skipped_rules(skip for e in report.examinations for skip in e.skipped)
    faults = sum(len(e.faults) for e in report.examinations)
    text = f"{plural(len(report.examinations), 'checkpoint')}: {_joined(levels, skipped, faults)}"
    said = [clause for e in report.examinations if (clause := unserved(e))]
    if said:
        text += f"; {said[0]}" if len(report.examinations) == 1 else f"; {len(said)} not known to be served as trained"
    return f"{text}; {plural(len(report.failed), 'path')} not examined" if report.failed else text


def _joined(levels: list[str], skipped: int, faults: int) -> str:
    text = ", ".join(levels) or "no findings"
    text = f"{text}; {plural(skipped, 'rule')} not judged" if skipped else text
    return f"{text}; {plural(faults, 'fault')} of ckptdoctor" if faults else text


def words(text: str) -> str:
    """`text` on one line and harmless: line ends of a rule's YAML are spaces, all else that is not printable is seen.

    Messages were capped where they were made; this cuts only what is no message.
    """
    return show(re.sub(r"[ \t]*[\n\t][ \t\n]*", " ", text.strip()), _TEXT_LIMIT)


def failure(path: str, reason: str) -> str:
    """What follows `could not examine`; a reason that begins with the path does not name it twice."""
    for start in (path, show(path, PATH_LIMIT), show(path)):
        if reason.startswith(f"{start}: "):
            return reason[len(start) + 2 :]
    return reason


def file_path(path: str, file: str | None) -> str:
    """The file `file` of the checkpoint at `path` (a folder, or one file of it), as a path; `path` without a file."""
    if file is None or path == file or path.endswith(f"/{file}"):
        return path
    folder = posixpath.dirname(path) if os.path.isfile(path) else path  # noqa: PTH113  # any string, even one with NUL
    return posixpath.join(folder, file.lstrip("/"))


def place(location: Location) -> str:
    """Where a finding sits: `config.json:12, draft_vocab_size`; empty when it is about the checkpoint."""
    parts: list[str] = []
    if location.file is not None:
        line = "" if location.line is None else f":{location.line}"
        parts.append(f"{show(location.file)}{line}")
    elif location.line is not None:
        parts.append(f"line {location.line}")
    if location.tensor is not None:
        parts.append(show(location.tensor))
    if location.config_key is not None:
        parts.append(show(location.config_key))
    if location.offset is not None:
        parts.append(f"byte {location.offset}")
    return ", ".join(parts)
