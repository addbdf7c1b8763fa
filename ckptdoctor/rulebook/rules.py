"""A rule as its file says it, and the same rule with its expressions parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ckptdoctor.findings import Claim, Severity
from ckptdoctor.rulebook.errors import ExpressionError
from ckptdoctor.rulebook.expressions import Expression, compile_expression, element_path
from ckptdoctor.rulebook.messages import Template, compile_template

__all__ = [
    "FAMILIES",
    "ClaimPlan",
    "Condition",
    "EffectSource",
    "FixPlan",
    "Rule",
    "Wording",
    "rule_from_mapping",
]

FAMILIES: Mapping[str, str] = {
    "ART": "files and containers",
    "CFG": "the config",
    "ARC": "identity and architecture",
    "KEY": "tensor names",
    "GEO": "shapes",
    "AUX": "captured layers and norms",
    "VOC": "vocabulary maps and hot tokens",
    "VAL": "values of tensors",
    "QNT": "quantisation metadata",
    "ROP": "positions",
    "TOK": "the tokenizer",
    "MTP": "multi-token prediction layers",
    "BLK": "block drafters",
    "MED": "Medusa heads",
    "LCH": "the launch line",
    "SRV": "outcomes in one engine",
}
"""The families of the rules that ship with ckptdoctor: the letters of the id, and what they are about."""


@dataclass(frozen=True)
class FixPlan:
    """The repair a rule names. `arguments` (`with` in the file) are expressions, whose values are for the treatment.

    `assumption` is the sentence on which an unsafe repair rests.
    """

    treatment: str
    summary: str
    safety: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    assumption: str | None = None


@dataclass(frozen=True)
class ClaimPlan:
    """One of the `claims` of a rule, with the condition under which a finding makes it."""

    claim: Claim
    when: str | None = None


@dataclass(frozen=True)
class EffectSource:
    """Where the effect of a rule is known from.

    `kind` is executed (`refs` are engine==release), measured (rows of the table in docs/effects.md), reported
    (org/repo#number), read (an engine or tool, and the file) or derived (how, as a sentence). `note` says what was run
    or seen.
    """

    kind: str
    refs: tuple[str, ...]
    note: str = ""

    @property
    def words(self) -> str:
        """The source as one line."""
        return f"{self.kind}: {', '.join(self.refs)}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class Condition:
    """What decides whether a rule fires, parsed. `leading` are the conditions that hold for all items alike."""

    for_each: Expression | None
    when: Expression | None
    claim: Expression | None
    leading: tuple[Expression, ...]


@dataclass(frozen=True)
class Wording:
    """What a rule that fires says, parsed. `position` holds the parts of the location that are numbers."""

    message: Template
    effect: Template
    advice: Template
    location: Mapping[str, Template]
    position: Mapping[str, Expression]
    evidence: Mapping[str, Expression]
    fix_summary: Template | None
    fix_assumption: Template | None
    fix_arguments: Mapping[str, Expression]
    claims: tuple[tuple[Claim, Expression | None], ...]


@dataclass(frozen=True)
class Rule:
    """One rule of a rule file.

    It fires when `when` holds and `claim` (`assert` in the file) does not; `for_each` repeats that for
    every item of a list. `user` tells a rule of the person's own files from one that ships.
    """

    id: str
    name: str
    severity: Severity
    message: str
    effect: str
    advice: str
    for_each: str | None = None
    when: str | None = None
    claim: str | None = None
    scope: str = "checkpoint"
    location: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, str] = field(default_factory=dict)
    fix: FixPlan | None = None
    effect_source: tuple[EffectSource, ...] = ()
    seen_in: tuple[str, ...] = ()
    claims: tuple[ClaimPlan, ...] = ()
    bad: tuple[str, ...] = ()
    good: tuple[str, ...] = ()
    why: str = ""
    since: str = ""
    source: Path = Path()
    line: int | None = None
    user: bool = False

    @property
    def family(self) -> str:
        """The letters of the id."""
        return self.id.rstrip("0123456789")

    @property
    def where(self) -> str:
        """The file, and the line where it is known."""
        return f"{self.source.name}, line {self.line}" if self.line else self.source.name

    # Both are parsed when first used: most rules of a scan do not fire, and then no text is needed.

    @cached_property
    def condition(self) -> Condition:
        """The expressions that decide. Raises `ExpressionError` that names the field."""
        for_each = None if self.for_each is None else _field("for_each", compile_expression, self.for_each)
        item = None if for_each is None else element_path(for_each)
        when = None if self.when is None else _field("when", compile_expression, self.when, item)
        return Condition(
            for_each=for_each,
            when=when,
            claim=None if self.claim is None else _field("assert", compile_expression, self.claim, item),
            leading=() if when is None or for_each is None else when.leading_conditions(),
        )

    @cached_property
    def wording(self) -> Wording:
        """The texts, the location and the evidence. Raises `ExpressionError` that names the field."""
        place = self.location
        return Wording(
            message=_field("message", compile_template, self.message),
            effect=_field("effect", compile_template, self.effect),
            advice=_field("advice", compile_template, self.advice),
            location={k: _field(f"location.{k}", compile_template, v) for k, v in place.items() if k not in _POSITION},
            position={k: _field(f"location.{k}", compile_expression, v) for k, v in place.items() if k in _POSITION},
            evidence={k: _field(f"evidence.{k}", compile_expression, v) for k, v in self.evidence.items()},
            fix_summary=None if self.fix is None else _field("fix.summary", compile_template, self.fix.summary),
            fix_assumption=(
                None
                if self.fix is None or self.fix.assumption is None
                else _field("fix.assumption", compile_template, self.fix.assumption)
            ),
            fix_arguments={
                k: _field(f"fix.with.{k}", compile_expression, str(v))
                for k, v in (self.fix.arguments if self.fix is not None else {}).items()
            },
            claims=tuple(
                (plan.claim, None if plan.when is None else _field("claims.when", compile_expression, plan.when))
                for plan in self.claims
            ),
        )


_POSITION = ("line", "offset")
_T = TypeVar("_T")


def _field(name: str, compiler: Callable[..., _T], *arguments: str | None) -> _T:
    try:
        return compiler(*arguments)
    except ExpressionError as error:
        raise ExpressionError(f"{name}: {error}") from None


def _fix_plan(fix: Mapping[str, Any]) -> FixPlan:
    return FixPlan(fix["treatment"], fix["summary"], fix["safety"], fix.get("with", {}), fix.get("assumption"))


def _claim_plan(fields: Mapping[str, Any]) -> ClaimPlan:
    claim = Claim(
        outcome=fields["outcome"],
        engines=tuple(fields.get("engines", ())),
        since=fields.get("from"),
        until=fields.get("until"),
        sure=fields.get("sure", True),
    )
    return ClaimPlan(claim, fields.get("when"))


def _effect_source(given: Mapping[str, Any]) -> EffectSource:
    ref = given["ref"]
    return EffectSource(given["kind"], (ref,) if isinstance(ref, str) else tuple(ref), given.get("note", ""))


def rule_from_mapping(
    fields: Mapping[str, Any], source: Path = Path(), line: int | None = None, user: bool = False
) -> Rule:
    """The rule that one entry of a rule file describes; the entry must agree with the schema."""
    fix = fields.get("fix")
    return Rule(
        id=fields["id"],
        name=fields["name"],
        severity=Severity(fields["severity"]),
        message=fields["message"],
        effect=fields["effect"],
        advice=fields["advice"],
        for_each=fields.get("for_each"),
        when=fields.get("when"),
        claim=fields.get("assert"),
        scope=fields.get("scope", "checkpoint"),
        location={key: str(value) for key, value in fields.get("location", {}).items()},
        evidence=fields.get("evidence", {}),
        fix=None if fix is None else _fix_plan(fix),
        effect_source=tuple(_effect_source(given) for given in fields.get("effect_source", ())),
        seen_in=tuple(fields.get("seen_in", ())),
        claims=tuple(_claim_plan(claim) for claim in fields.get("claims", ())),
        bad=tuple(fields["examples"]["bad"]),
        good=tuple(fields["examples"]["good"]),
        why=fields.get("why", ""),
        since=fields.get("since", ""),
        source=source,
        line=line,
        user=user,
    )
