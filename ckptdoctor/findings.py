"""What an examination gives: findings, what was skipped, and the facts that a report shows beside them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ckptdoctor.jsontext import as_plain
from ckptdoctor.text import show
from ckptdoctor.unknown import UnknownFactError

__all__ = [
    "OWN_FAULTS",
    "About",
    "Claim",
    "Confidence",
    "Examination",
    "Fault",
    "Finding",
    "Fix",
    "Ignored",
    "Location",
    "Picture",
    "Report",
    "ServingRange",
    "Severity",
    "Skip",
    "fingerprint",
    "is_strict",
    "problem_of",
]

OWN_FAULTS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    UnknownFactError,
    ValueError,
)
"""What a rule, a treatment or a plan raises where ckptdoctor itself is wrong. Files and networks that cannot be read
raise other things, and those are told as what they are."""


def is_strict() -> bool:
    """Whether a fault of ckptdoctor ends the run instead of being counted: so in its own tests
    (`CKPTDOCTOR_STRICT=1`)."""
    return os.environ.get("CKPTDOCTOR_STRICT") == "1"


class Severity(str, Enum):
    """How bad a finding is. `ERROR` is only for what is certain."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """3 for an error, 2 for a warning, 1 for a note."""
        return {"error": 3, "warning": 2, "note": 1}[self.value]


class Confidence(str, Enum):
    """How sure a finding is; computed from the facts it rests on, never written in a rule."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """3 for certain, 2 for likely, 1 for possible."""
        return {"certain": 3, "likely": 2, "possible": 1}[self.value]


@dataclass(frozen=True)
class Location:
    """Where a finding sits. `file` is relative to the checkpoint; `line` counts from 1; `offset` is a byte offset."""

    file: str | None = None
    tensor: str | None = None
    config_key: str | None = None
    line: int | None = None
    offset: int | None = None


@dataclass(frozen=True)
class Claim:
    """What a finding says of engines: that releases from `since` and before `until` serve the draft no better than
    `outcome`. No `engines`: all of them. `sure`: this follows from the finding alone."""

    outcome: str
    engines: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    sure: bool = True


@dataclass(frozen=True)
class Fix:
    """A repair that a rule names: the treatment, what it would do, and whether it rests on an assumption.

    `arguments` are for the treatment, with the values of this finding. `assumption` is the sentence that an unsafe
    repair rests on. `refused` says why the treatment changes nothing here; None when it would. `user` tells a repair
    that a rule of the person's own files names. `fault` is what went wrong where the refusal is a fault of ckptdoctor.
    """

    treatment: str
    summary: str
    safety: str
    assumption: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    refused: str | None = None
    user: bool = False
    fault: str | None = None


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong (or worth knowing), in words a person can act on.

    `message` says what is wrong with the values seen, `effect` what the person would see in serving,
    `advice` what to do next. All three are already safe to print. `by_policy` says that the project's own policy set
    the severity. `claims` are what the effect says of engines, for programs.
    """

    rule: str
    name: str
    severity: Severity
    confidence: Confidence
    message: str
    effect: str
    advice: str
    location: Location = Location()
    engines: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fix: Fix | None = None
    seen_in: tuple[str, ...] = ()
    by_policy: bool = False
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class Ignored:
    """A finding that does not count by the project's own word: why, and until which day (`2027-03-01`), if any."""

    finding: Finding
    reason: str
    expires: str | None = None


@dataclass(frozen=True)
class About:
    """What a report tells of a rule beside its findings: its own severity, the background, and public reports."""

    severity: Severity
    why: str
    seen_in: tuple[str, ...] = ()


@dataclass(frozen=True)
class Skip:
    """A rule that was not judged because a fact it needs is unknown."""

    rule: str
    needs: str


@dataclass(frozen=True)
class Fault:
    """Something that was left out because ckptdoctor itself is wrong there: not a word about the files.

    `kind` is `rule`, `repair` or `plan`; `part` the id of the rule, the treatment with its rule, or the release.
    """

    kind: str
    part: str
    problem: str

    @classmethod
    def of(cls, kind: str, part: str, error: Exception) -> Fault:
        """The fault that `error` is, in one line. Raises `error` where faults end the run (`is_strict`)."""
        if is_strict():
            raise error
        return cls(kind, part, problem_of(error))


def problem_of(error: Exception) -> str:
    """`IndexError: tuple index out of range`, harmless to print."""
    return show(f"{type(error).__name__}: {error}", 300)


@dataclass(frozen=True)
class Picture:
    """A drawing of what was measured: an SVG file as text, and what it shows in words."""

    title: str
    svg: str


@dataclass(frozen=True)
class ServingRange:
    """How a range of releases of one engine serves the draft: the short form of `compat`.

    `fault` is what went wrong where it is not known because of a fault of ckptdoctor."""

    engine: str
    name: str
    first: str
    last: str
    is_newest: bool
    outcome: str
    reason: str
    fault: str = ""

    @property
    def span(self) -> str:
        """`0.5.12 and later`, `0.4.9 to 0.5.11` or `0.5.9`."""
        if self.is_newest and self.first != self.last:
            return f"{self.first} and later"
        return self.releases

    @property
    def releases(self) -> str:
        """`0.4.9 to 0.5.11` or `0.5.9`, whether or not the last of them is the newest."""
        return self.first if self.first == self.last else f"{self.first} to {self.last}"


@dataclass(frozen=True)
class Examination:
    """All that was found in one checkpoint.

    `draft` and `target` are plain, JSON-ready summaries of the facts; `title` is one line that says
    what the thing is, for people. `ignored` are findings that the project's policy sets aside. `caveats` are sentences
    that stand before everything else: a release was asked for that nobody has read. `faults` are the parts that were
    left out because ckptdoctor itself is wrong there.
    """

    path: str
    title: str
    draft: Mapping[str, Any]
    target: Mapping[str, Any] | None
    findings: tuple[Finding, ...]
    skipped: tuple[Skip, ...]
    plans: tuple[Mapping[str, Any], ...] = ()
    serving: tuple[ServingRange, ...] = ()
    next_commands: tuple[str, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    pictures: tuple[Picture, ...] = ()
    caveats: tuple[str, ...] = ()
    newest: tuple[Mapping[str, Any], ...] = ()
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class Report:
    """The examinations of one call, and the paths that could not be examined with the reason for each.

    `policy` is the project file whose policy was applied, and `remarks` what has to be said of it. `fail_on` is the
    severity from which on a finding counts, `rules` what there is to say of the rules that fired, by id.
    """

    examinations: tuple[Examination, ...]
    failed: tuple[tuple[str, str], ...] = ()
    policy: str | None = None
    remarks: tuple[str, ...] = ()
    fail_on: str = "error"
    rules: Mapping[str, About] = field(default_factory=dict)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What every format says first, each once."""
        return tuple(dict.fromkeys(caveat for e in self.examinations for caveat in e.caveats))

    def count(self, severity: Severity) -> int:
        """How many findings of this severity there are, over all checkpoints."""
        return sum(f.severity is severity for e in self.examinations for f in e.findings)


def fingerprint(finding: Finding) -> str:
    """24 hex digits of the rule, the place (without the line, which moves) and the values seen; not of the words."""
    place = finding.location
    parts = [finding.rule, place.file, place.tensor, place.config_key, sorted(finding.engines)]
    values = json.dumps([*parts, as_plain(finding.evidence)], sort_keys=True, default=str)
    return hashlib.sha256(values.encode()).hexdigest()[:24]
