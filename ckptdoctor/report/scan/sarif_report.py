"""The report as SARIF 2.1.0, for code scanning: each finding at its file, a finding of a config at its line."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from typing import Any
from urllib.parse import quote

from ckptdoctor.findings import Examination, Finding, Ignored, Location, Report, Severity, fingerprint
from ckptdoctor.jsontext import as_plain, dumps
from ckptdoctor.report.scan.told import IN_MACHINES, kind_of, more_words, told
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.report.wording import PATH_LIMIT, failure, fault_lines, file_path, serving_line, unserved, words
from ckptdoctor.text import show

__all__ = ["render"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVEL = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
# What code scanning calls how sure a rule is; severities of a rule stay what they are in its findings.
_PRECISION = {"certain": "very-high", "likely": "medium", "possible": "low"}
_TEXT_FILES = (".json", ".jsonl", ".yaml", ".yml", ".toml", ".txt", ".md", ".jinja", ".py", ".sh", ".env", ".service")


def render(report: Report, surface: Surface) -> str:  # noqa: ARG001  # the signature that all reporters have
    """One run with all checkpoints. Paths are URIs relative to the current folder where they lie in it."""
    from ckptdoctor.version import __version__

    rules = _rules(report)
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    results = [
        _result(e, f, index, more) for e in report.examinations for f, more in told(e.findings, kind_of, IN_MACHINES)
    ]
    results += [
        _set_aside(e, item, index, more)
        for e in report.examinations
        for item, more in told(e.ignored, lambda i: kind_of(i.finding), IN_MACHINES)
    ]
    _tell_apart(results)
    driver = {
        "name": "ckptdoctor",
        "version": __version__,
        "semanticVersion": __version__,
        "shortDescription": {"text": "The checkpoint doctor for draft models of speculative decoding."},
        "rules": rules,
    }
    notifications = [{"level": "warning", "message": {"text": words(caveat)}} for caveat in report.caveats]
    notifications += [_failure(path, reason) for path, reason in report.failed]
    notifications += [
        {"level": "error", "message": {"text": words(f"{show(e.path, PATH_LIMIT)}: {fault}")}}
        for e in report.examinations
        for fault in fault_lines(e.faults)
    ]
    notifications += [_serving(e) for e in report.examinations if unserved(e)]
    notifications += [{"level": "note", "message": {"text": words(remark)}} for remark in report.remarks]
    run = {
        "tool": {"driver": driver},
        "columnKind": "utf16CodeUnits",
        "invocations": [{"executionSuccessful": not report.failed, "toolExecutionNotifications": notifications}],
        "results": results,
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rules(report: Report) -> list[dict[str, Any]]:
    """The rules that fired, each once, with the help that code scanning shows."""
    found: dict[str, dict[str, Any]] = {}
    for examination in report.examinations:
        for finding in (*examination.findings, *(item.finding for item in examination.ignored)):
            if finding.rule not in found:
                found[finding.rule] = _rule(report, finding)
    return list(found.values())


def _rule(report: Report, finding: Finding) -> dict[str, Any]:
    """What holds for every finding of a rule: nothing here may come from the one that happens to be the first."""
    about = report.rules.get(finding.rule)
    name = show(finding.name.replace("-", " "))
    severity = about.severity if about is not None else finding.severity
    background = words(about.why if about is not None else "") or f"{name}."
    reports = "" if about is None or not about.seen_in else f"\n\nReported in {words(', '.join(about.seen_in))}."
    return {
        "id": finding.rule,
        "name": "".join(part.capitalize() for part in name.split()) or finding.rule,
        "shortDescription": {"text": name},
        "fullDescription": {"text": show(background, 1000)},
        "help": {"text": f"{background}{reports}", "markdown": f"**{finding.rule} {name}**\n\n{background}{reports}"},
        "defaultConfiguration": {"level": _LEVEL[severity]},
        "properties": {
            "tags": ["speculative-decoding", "draft-model", finding.rule.rstrip("0123456789")],
            "precision": _PRECISION[finding.confidence.value],
            "problem.severity": "recommendation" if severity is Severity.NOTE else severity.value,
        },
    }


def _result(examination: Examination, finding: Finding, index: dict[str, int], more: int) -> dict[str, Any]:
    seen = f"You would see: {finding.effect}" if finding.effect else ""
    left_out = more_words(more, finding.rule)
    parts = (words(part) for part in (finding.message, seen, finding.advice, left_out) if part)
    fix = finding.fix.summary if finding.fix is not None and finding.fix.refused is None else None
    return {
        "ruleId": finding.rule,
        "ruleIndex": index[finding.rule],
        "level": _LEVEL[finding.severity],
        "message": {"text": "\n".join(parts)},
        **_places(examination.path, finding.location),
        "partialFingerprints": {"ckptdoctor/v1": fingerprint(finding)},
        "properties": {
            "confidence": finding.confidence.value,
            "engines": [words(engine) for engine in finding.engines],
            "evidence": as_plain(finding.evidence),
            **({"fix": words(fix)} if fix is not None else {}),
        },
    }


def _set_aside(examination: Examination, item: Ignored, index: dict[str, int], more: int) -> dict[str, Any]:
    until = f" (until {item.expires})" if item.expires else ""
    suppression = {"kind": "external", "status": "accepted", "justification": words(f"{item.reason}{until}")}
    return {**_result(examination, item.finding, index, more), "suppressions": [suppression]}


def _tell_apart(results: list[dict[str, Any]]) -> None:
    """Give later findings of a rule on the same line a hash of their own.

    Code scanning hashes the line, and would take them for one finding. The first keeps the line's hash.
    """
    seen: Counter[tuple[str, str, int]] = Counter()
    marks: Counter[str] = Counter()
    for result in results:
        place = result["locations"][0]["physicalLocation"]
        key = (result["ruleId"], place["artifactLocation"]["uri"], place["region"]["startLine"])
        seen[key] += 1
        if seen[key] > 1:
            mark = result["partialFingerprints"]["ckptdoctor/v1"]
            marks[mark] += 1
            result["partialFingerprints"]["primaryLocationLineHash"] = f"{mark}:{marks[mark]}"


def _places(path: str, location: Location) -> dict[str, Any]:
    """Where a finding is shown, and its own file where that is another one.

    Code scanning wants a line of a text file: it shows nothing without one, and it hashes the whole file for it, which
    for weights would take minutes. So what is about weights stands at the first line of their config.json.
    """
    file = file_path(path, location.file)
    shown = file
    if location.line is None and not file.endswith(_TEXT_FILES):
        folders = (file, posixpath.dirname(file), path)
        configs = (posixpath.join(folder, "config.json") for folder in folders)
        shown = next((config for config in configs if os.path.isfile(config)), file)  # noqa: PTH113
    place: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(shown)},
            "region": {"startLine": max(location.line or 1, 1)},
        }
    }
    names = [(location.tensor, "member"), (location.config_key, "property")]
    logical = [{"fullyQualifiedName": show(name, PATH_LIMIT), "kind": kind} for name, kind in names if name]
    if logical:
        place["logicalLocations"] = logical
    if shown == file:
        return {"locations": [place]}
    return {
        "locations": [place],
        "relatedLocations": [{"id": 1, "physicalLocation": {"artifactLocation": {"uri": _uri(file)}}}],
    }


def _uri(path: str) -> str:
    """`path` as a URI: relative to the current folder when it lies in there, which is what code scanning follows."""
    scheme, mark, rest = path.partition("://")
    if mark and scheme.isalnum():
        return f"{scheme}://{_quoted(rest)}"
    if not path.startswith("/"):
        return _quoted(posixpath.normpath(path))
    whole, here = posixpath.normpath(path), _here()
    if here is not None and whole.startswith(f"{here}/"):
        return _quoted(whole[len(here) + 1 :])
    return f"file://{_quoted(whole)}" if whole != here else "."


def _here() -> str | None:
    try:
        return os.getcwd().rstrip("/")  # noqa: PTH109  # a text, without links followed
    except OSError:
        return None


def _quoted(text: str) -> str:
    # A lone surrogate is a byte that is no UTF-8, or came from JSON and is no byte at all.
    return quote(text.encode("utf-8", "surrogateescape" if _only_bytes(text) else "backslashreplace"), safe="/@")


def _only_bytes(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" and not "\udc80" <= char <= "\udcff" for char in text)


def _serving(examination: Examination) -> dict[str, Any]:
    """How a draft is served that is not known to be: no result, since nothing was found, and no silence."""
    text = f"{show(examination.path, PATH_LIMIT)}: {serving_line(examination)}"
    place = {"physicalLocation": {"artifactLocation": {"uri": _uri(examination.path)}}}
    return {"level": "note", "message": {"text": words(text)}, "locations": [place]}


def _failure(path: str, reason: str) -> dict[str, Any]:
    return {
        "level": "error",
        "message": {"text": words(f"could not examine {show(path, PATH_LIMIT)}: {failure(path, reason)}")},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(path)}}}],
    }
