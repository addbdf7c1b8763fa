"""The shapes of a scan's report in JSON: what `rules/schema/report.schema.json` is written from."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from ckptdoctor.findings import Confidence, Severity
from ckptdoctor.report.plan.as_json import Outcome, Plan
from ckptdoctor.report.scan.told import IN_JSON, kind_of, told
from ckptdoctor.report.wording import skipped_rules
from ckptdoctor.shapes import Count, Document, Name, Shape, item, limits

__all__ = ["Finding", "Levels", "Report"]

RuleId: TypeAlias = Annotated[Name, "A family and a number; stable for ever, never reused."]


class Draft(Shape, further=True):
    algorithm: str | None = item("The kind of draft, such as eagle3; null when it was not recognised.")
    dialect: str | None = item("Whose names and config the files use; null when they were not recognised.")


class Served(Shape):
    engine: str
    name: str = item("The engine's name for people.")
    first: str = item("The oldest release of the range.")
    last: str = item("The newest release of the range.")
    is_newest: bool = item("Whether `last` is the newest release that is known.")
    outcome: Outcome
    reason: str = item("The first reason; empty when there is none.")


class Location(Shape):
    file: str = item("Relative to the checkpoint.", omitted=True)
    tensor: str = item(omitted=True)
    config_key: str = item(omitted=True)
    line: Annotated[int, limits(minimum=1)] = item("Counted from 1.", omitted=True)
    offset: Count = item("In bytes.", omitted=True)


class Refused(Shape):
    refused: str = item("Why nothing is changed.")

    @classmethod
    def fits(cls, value: Any) -> bool:
        return value.refused is not None


class Fix(Shape):
    treatment: str
    summary: str
    safety: Literal["safe", "unsafe"] = item("unsafe: rests on an assumption about the training.")
    assumption: str = item("What an unsafe repair takes for granted about the training.", omitted=True)


class Finding(Shape):
    rule: RuleId
    name: Name = item("The readable name of the rule.")
    severity: Severity = item(
        "An error is always certain; likely is a warning at most, possible a note, unless the project's policy sets "
        "another."
    )
    confidence: Confidence
    engines: list[str] = item(
        "The engine releases it holds for, such as sglang==0.5.9; empty when it is bound to none."
    )
    message: str = item("What is wrong, with the values seen.")
    effect: str = item("What a person would see in serving.")
    advice: str = item("What to do next.")
    location: Location = item("Where it is; a part that does not apply is left out.")
    evidence: dict[str, Any] = item("The values the finding rests on, by name. NaN and the infinities are strings.")
    fix: Refused | Fix | None = item("The repair that would be done, why one is refused, or null when there is none.")
    seen_in: list[str] = item("Public reports of the same fault, such as sgl-project/sglang#32226 or a URL.")


class Skipped(Shape):
    rule: RuleId
    needs: str = item("What would have to be known, in words.")


class Fault(Shape):
    kind: Literal["rule", "repair", "plan"]
    part: str = item("The id of the rule, the treatment with its rule, or the release.")
    problem: str = item("What went wrong.")


class Ignored(Shape):
    rule: RuleId = item(at="finding.rule")
    name: Name = item(at="finding.name")
    severity: Severity = item(at="finding.severity")
    message: str = item(at="finding.message")
    reason: str = item("Why it does not count.")
    expires: str | None = item("The last day of an exception, as 2027-03-01; null without one.")


class Checkpoint(Shape, late=("caveats", "faults", "ignored")):
    path: str = item("The path as it was given.")
    draft: Draft = item("What the checkpoint is. Further facts may stand beside the two that are always there.")
    target: dict[str, Any] | None = item("The facts of the target model; null when none was given.")
    plans: list[Plan] = item("What each engine release does with the files.")
    serving: list[Served] = item(
        "How all known releases of the main engines serve the files, in ranges; empty when plans were asked for."
    )
    findings: list[Finding] = item(
        f"All of them, but of one rule with one severity the first {IN_JSON:,} alone; `summary` counts every one.",
        at=lambda examination: [finding for finding, _ in told(examination.findings, kind_of, IN_JSON)],
    )
    skipped: list[Skipped] = item("The rules that were not judged. Absence of a finding of theirs says nothing.")
    caveats: list[str] = item(
        "What has to be said first of this checkpoint: a release was asked for that nobody has read."
    )
    faults: list[Fault] = item(
        "What was left out because ckptdoctor itself is wrong there: nothing is known of these parts."
    )
    ignored: list[Ignored] = item(
        "Findings that do not count by the project's own word (an exception, a baseline), cut as `findings` are.",
        at=lambda examination: [i for i, _ in told(examination.ignored, lambda i: kind_of(i.finding), IN_JSON)],
    )


class Failed(Shape):
    path: str = item("The path as it was given.", at=0)
    reason: str = item("One sentence for people.", at=1)


class Levels(Shape):
    error: Count
    warning: Count
    note: Count


class Summary(Levels):
    skipped: Count = item("Rules that were not judged, each once for a checkpoint.")


class Report(Document, late=("caveats", "policy", "remarks")):
    """What `ckptdoctor scan --format json` prints. Names and values from a checkpoint appear as they are there, escaped
    to ASCII. Keys may be added within a schema_version only where this schema allows further ones."""

    checkpoints: list[Checkpoint] = item(
        "One entry for each checkpoint that was examined, in the order of the call.", at="examinations"
    )
    caveats: list[str] = item("What has to be said first: a release was asked for that nobody has read.")
    policy: str | None = item("The project file by whose policy it was judged; null without one.")
    remarks: list[str] = item(
        "What has to be said of the policy: exceptions that have ended, project files that are not followed."
    )
    failed: list[Failed] = item(
        "The paths that could not be examined. Nothing is known about them; they are not clean."
    )
    summary: Summary = item(
        "Counts over all checkpoints.",
        at=lambda report: {
            **{severity.value: report.count(severity) for severity in Severity},
            "skipped": sum(skipped_rules(e.skipped) for e in report.examinations),
        },
    )
