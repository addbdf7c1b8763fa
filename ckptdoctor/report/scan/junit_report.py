"""The report as JUnit XML: a suite for each checkpoint, a failed case for each finding that counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from ckptdoctor.findings import Examination, Finding, Ignored, Report, Severity
from ckptdoctor.report.scan.told import IN_MACHINES, kind_of, more_words, told
from ckptdoctor.report.terminal.surface import Surface
from ckptdoctor.report.wording import (
    PATH_LIMIT,
    SERVED,
    counts,
    failure,
    fault_lines,
    file_path,
    place,
    unjudged,
    unserved,
    words,
)
from ckptdoctor.text import show

__all__ = ["render"]

# What XML 1.0 cannot hold, even escaped.
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(report: Report, surface: Surface) -> str:  # noqa: ARG001  # the signature that all reporters have
    """One document. What is below the severity that fails (`report.fail_on`) is a case that passes and says so."""
    root = ET.Element("testsuites", name="ckptdoctor")
    suites = [_suite(report, examination) for examination in report.examinations]
    suites += [_unread(path, reason) for path, reason in report.failed]
    for kind in ("tests", "failures", "errors", "skipped"):
        root.set(kind, str(sum(int(suite.get(kind, "0")) for suite in suites)))
    root.extend(suites)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _suite(report: Report, examination: Examination) -> ET.Element:
    path = _clean(show(examination.path, PATH_LIMIT))
    suite = ET.Element("testsuite", name=path)
    for finding, more in told(examination.findings, kind_of, IN_MACHINES):
        case = _case(suite, examination, finding)
        if _fails(finding, report.fail_on):
            failed = ET.SubElement(case, "failure", type=finding.severity.value, message=_clean(finding.message))
            failed.text = _told(finding, more)
        else:
            ET.SubElement(case, "system-out").text = _told(finding, more)
    for item, more in told(examination.ignored, lambda i: kind_of(i.finding), IN_MACHINES):
        ET.SubElement(_case(suite, examination, item.finding), "skipped", message=_set_aside(item, more))
    for group in unjudged(examination.skipped):
        case = ET.SubElement(suite, "testcase", classname=path, name=f"not judged: {_clean(', '.join(group.rules))}")
        ET.SubElement(case, "skipped", message=_clean(group.sentence))
    for fault in fault_lines(examination.faults):
        case = ET.SubElement(suite, "testcase", classname=path, name="fault of ckptdoctor")
        ET.SubElement(case, "error", type="fault of ckptdoctor", message=_clean(fault))
    for name, why in _not_known(examination):
        case = ET.SubElement(suite, "testcase", classname=path, name=_clean(name))
        ET.SubElement(case, "skipped", message=_clean(why))
    if not examination.findings and not unserved(examination):
        ET.SubElement(suite, "testcase", classname=path, name="nothing found")
    _tell_apart(suite)
    suite.set("tests", str(len(suite)))
    for kind, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(kind, str(sum(case.find(tag) is not None for case in suite)))
    lines = [*examination.caveats, examination.title, counts(examination), *report.remarks]
    ET.SubElement(suite, "system-out").text = "\n".join(_clean(text) for text in lines if text)
    return suite


def _not_known(examination: Examination) -> Iterator[tuple[str, str]]:
    """What is neither a failure nor a success: a name and a reason for each case that is shown as skipped."""
    if examination.plans:
        for plan in examination.plans:
            if plan["outcome"] == "unknown":
                yield f"{plan['engine']} {plan['version']}: {SERVED['unknown']}", next(iter(plan["reasons"]), "")
    elif said := unserved(examination):
        yield "serving", said


def _tell_apart(suite: ET.Element) -> None:
    """Number what has one name: services that show JUnit keep one case of each."""
    seen: Counter[str] = Counter()
    for case in suite:
        name = case.get("name", "")
        seen[name] += 1
        if seen[name] > 1:
            case.set("name", f"{name} ({seen[name]})")


def _unread(path: str, reason: str) -> ET.Element:
    name = _clean(show(path, PATH_LIMIT))
    suite = ET.Element("testsuite", name=name, tests="1", failures="0", errors="1", skipped="0")
    case = ET.SubElement(suite, "testcase", classname=name, name="could not be examined")
    ET.SubElement(case, "error", type="not examined", message=_clean(failure(path, reason)))
    return suite


def _case(suite: ET.Element, examination: Examination, finding: Finding) -> ET.Element:
    path, location = show(examination.path, PATH_LIMIT), finding.location
    about = f" ({part})" if (part := location.tensor or location.config_key) else ""
    name = _clean(f"{finding.rule} {finding.name}{show(about)}")
    case = ET.SubElement(suite, "testcase", classname=_clean(path), name=name)
    if location.file is not None:
        case.set("file", _clean(show(file_path(examination.path, location.file), PATH_LIMIT)))
    if location.line is not None:
        case.set("line", str(location.line))
    return case


def _told(finding: Finding, more: int) -> str:
    fix = finding.fix
    repair = "" if fix is None or fix.refused is not None else f"{fix.summary} ({fix.safety})"
    parts = [
        ("at", place(finding.location)),
        ("you would see", finding.effect),
        ("next", finding.advice),
        ("fix available", repair),
    ]
    lines = [finding.message, *(f"{label}: {text}" for label, text in parts if text)]
    lines += [left_out] if (left_out := more_words(more, finding.rule)) else []
    return "\n".join(_clean(line) for line in lines)


def _set_aside(item: Ignored, more: int) -> str:
    until = f" (until {item.expires})" if item.expires else ""
    return _clean(f"set aside: {item.reason}{until}{f' (and {more:,} more)' if more else ''}")


def _fails(finding: Finding, fail_on: str) -> bool:
    return fail_on != "never" and finding.severity.rank >= Severity(fail_on).rank


def _clean(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", words(text))
