"""What an audit found, over all checkpoints: counts, the worst ones first, rules, targets, what was not examined."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ckptdoctor.audit.rows import NOT_EXAMINED, Row
from ckptdoctor.findings import Severity

__all__ = ["SHOWN", "RuleCount", "Sick", "Summary", "Tally"]

SHOWN = 50
"""Checkpoints of one kind that a summary names; all of them are in the rows."""

_DRAFTS = 5


@dataclass(frozen=True, order=True)
class Sick:
    """A draft with findings; `rank` orders them, the worst first. `first` are its worst findings, as in the report."""

    rank: tuple[int, int, int]
    key: str
    counts: tuple[int, int, int] = field(compare=False)
    title: str = field(compare=False)
    target: str | None = field(compare=False)
    first: tuple[tuple[str, str, str], ...] = field(compare=False)


@dataclass
class RuleCount:
    """How often a rule fired: in how many drafts, at which severity at worst, and in which drafts first."""

    name: str
    severity: Severity
    drafts: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Summary:
    """An audit as a whole. Lists name at most `SHOWN` checkpoints; `counts` has all.

    `counts` are `drafts`, `scanned`, `error`, `warning`, `note` (drafts whose worst finding is one), `clean`, `models`,
    `without_target`, `unserved` (drafts that no release serves as trained, of those that were asked about),
    `serving_unknown` (of which that is not known), and the outcomes of `NOT_EXAMINED`; `caveats` stand before
    everything else; `findings` the findings by severity.
    `kept` is how many rows an earlier audit had made. `stuck`: a process is left that could not be ended.
    """

    counts: Mapping[str, int]
    findings: Mapping[str, int]
    sick: tuple[Sick, ...]
    rules: Mapping[str, RuleCount]
    without_target: tuple[tuple[str, str], ...]
    not_examined: tuple[tuple[str, str, str], ...]
    models: tuple[str, ...]
    targets: Mapping[str, int]
    remarks: tuple[str, ...]
    kept: int
    seconds: float
    policy: str | None
    fail_on: str
    stuck: bool = False
    caveats: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()

    @property
    def failed(self) -> int:
        """How many drafts could not be examined."""
        return sum(self.counts[name] for name in NOT_EXAMINED)

    def counted(self) -> bool:
        """Whether there is a finding as bad as `fail_on` or worse."""
        if self.fail_on == "never":
            return False
        level = Severity(self.fail_on).rank
        return any(self.findings[s.value] for s in Severity if s.rank >= level)

    def as_data(self) -> dict[str, Any]:
        """The last line of the JSON Lines."""
        return {
            "schema_version": 1,
            "kind": "summary",
            "counts": dict(self.counts),
            "findings": dict(self.findings),
            "rules": {
                rule: {"name": c.name, "severity": c.severity.value, "drafts": c.drafts}
                for rule, c in self.rules.items()
            },
            "targets": dict(self.targets),
            "policy": self.policy,
            "caveats": list(self.caveats),
            "remarks": list(self.remarks),
            "kept": self.kept,
            "seconds": round(self.seconds, 3),
        }


class Tally:
    """Adds rows up to a summary, in memory that does not grow with their number."""

    def __init__(self) -> None:
        names = (
            "drafts", "scanned", "clean", *(s.value for s in Severity), "models", "without_target", "unserved",
            "serving_unknown", *NOT_EXAMINED,
        )  # fmt: skip
        self._counts: Counter[str] = Counter(dict.fromkeys(names, 0))
        self._findings: Counter[str] = Counter({s.value: 0 for s in Severity})
        self._sick: list[_Reversed] = []
        self._rules: dict[str, RuleCount] = {}
        self._without: list[tuple[str, str]] = []
        self._failed: list[tuple[str, str, str]] = []
        self._models: list[str] = []
        self._targets: Counter[str] = Counter()
        self._remarks: dict[str, None] = {}
        self._caveats: dict[str, None] = {}
        self._unserved: list[str] = []

    def add(self, row: Row) -> None:
        """Count one more row."""
        outcome, key = row["outcome"], row["key"]
        if outcome == "nothing":
            return
        if outcome == "model":
            self._counts["models"] += 1
            if len(self._models) < SHOWN:
                self._models.append(key)
            return
        self._counts["drafts"] += 1
        self._counts[outcome] += 1
        if outcome in NOT_EXAMINED:
            if len(self._failed) < SHOWN:
                self._failed.append((key, outcome, row["reason"] or ""))
            return
        self._remarks |= dict.fromkeys(row["remarks"])
        self._caveats |= dict.fromkeys(row["report"].get("caveats", ()))
        self._add_serving(key, row["report"])
        self._add_target(key, row["target"])
        self._add_findings(row)

    def _add_target(self, key: str, target: Mapping[str, Any]) -> None:
        if target["path"] is not None:
            self._targets[target["path"]] += 1
            return
        self._counts["without_target"] += 1
        if len(self._without) < SHOWN:
            self._without.append((key, target["why"]))

    def _add_serving(self, key: str, report: Mapping[str, Any]) -> None:
        """Count a draft that is not served, or of which that is not known: it may have no finding at all."""
        outcomes = {item["outcome"] for item in report.get("plans") or report.get("serving") or ()}
        if not outcomes or "served" in outcomes:
            return
        if "unknown" in outcomes:
            self._counts["serving_unknown"] += 1
            return
        self._counts["unserved"] += 1
        if len(self._unserved) < SHOWN:
            self._unserved.append(key)

    def _add_findings(self, row: Row) -> None:
        found = row["report"]["findings"]
        levels = Counter(f["severity"] for f in found)
        self._findings.update(levels)
        worst = next((s for s in Severity if levels[s.value]), None)
        self._counts[worst.value if worst else "clean"] += 1
        for rule, finding in {f["rule"]: f for f in reversed(found)}.items():
            count = self._rules.setdefault(rule, RuleCount(finding["name"], Severity(finding["severity"])))
            count.severity = max(count.severity, Severity(finding["severity"]), key=lambda s: s.rank)
            count.drafts += 1
            if len(count.examples) < _DRAFTS:
                count.examples.append(row["key"])
        if worst is None or worst is Severity.NOTE:
            return
        counts = levels["error"], levels["warning"], levels["note"]
        first = tuple((f["severity"], f["rule"], f["message"]) for f in found[:3])
        rank = (-counts[0], -counts[1], -counts[2])
        sick = Sick(rank, row["key"], counts, row["title"] or "", row["target"]["path"], first)
        heapq.heappush(self._sick, _Reversed(sick))
        if len(self._sick) > SHOWN:
            heapq.heappop(self._sick)

    def summary(self, kept: int, seconds: float, policy: str | None, fail_on: str) -> Summary:
        """The sum of what was added."""
        rules = sorted(self._rules.items(), key=lambda item: (-item[1].severity.rank, -item[1].drafts, item[0]))
        return Summary(
            counts=dict(self._counts), findings=dict(self._findings),
            sick=tuple(sorted(item.sick for item in self._sick)), rules=dict(rules),
            without_target=tuple(self._without), not_examined=tuple(self._failed), models=tuple(self._models),
            targets=dict(sorted(self._targets.items(), key=lambda item: (-item[1], item[0]))),
            remarks=tuple(self._remarks), caveats=tuple(self._caveats), unserved=tuple(self._unserved), kept=kept,
            seconds=seconds, policy=policy, fail_on=fail_on,
        )  # fmt: skip


@dataclass(frozen=True)
class _Reversed:
    """Turns the order of a heap round, so that its smallest is the least sick."""

    sick: Sick

    def __lt__(self, other: _Reversed) -> bool:
        return other.sick < self.sick
