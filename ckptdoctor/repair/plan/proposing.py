"""Propose: findings become repairs that could be made, or refusals with their reason. Pure; runs in `scan` too."""

from __future__ import annotations

from dataclasses import replace

from ckptdoctor.errors import UsageError
from ckptdoctor.findings import OWN_FAULTS, Fault, Finding
from ckptdoctor.repair.plan.case import Case, Proposal, Refusal, RefusedError
from ckptdoctor.repair.plan.proving import doubt, only_read
from ckptdoctor.repair.plan.treatments_known import code_of, treatments
from ckptdoctor.repair.receipt_reading import Earlier
from ckptdoctor.repair.words import said
from ckptdoctor.text import show

__all__ = ["proposed"]

_LISTED = 64
"""Values of a list that a sentence names."""


def proposed(case: Case, finding: Finding, earlier: Earlier) -> Proposal | Refusal | None:
    """What could be done about `finding`: a proposal, a refusal, or None when its rule names no treatment.

    `earlier` are the treatments that the receipt of the checkpoint records: none of them is made a second time.
    """
    fix = finding.fix
    if fix is None:
        return None
    treatment = treatments()[fix.treatment]
    if treatment.measures and (twice := case.checkpoint.second_copies):
        first = case.checkpoint.tensors.get(twice[0].name)
        files = {"first": show(first.file if first else "another file"), "second": show(twice[0].file)}
        return Refusal(fix.treatment, said("two_files", name=show(twice[0].name), **files), (finding.rule,))
    try:
        result = code_of(fix.treatment)(replace(case, finding_engines=finding.engines), **fix.arguments)
    except RefusedError as refused:
        values = {key: _shown(value) for key, value in refused.values.items()}
        words = treatment.refusals.get(refused.key, refused.key) if fix.user else treatment.refusals[refused.key]
        return Refusal(fix.treatment, words.format(**values), (finding.rule,))
    except OWN_FAULTS as error:
        if fix.user:
            problem = f"{fix.treatment} cannot use these values ({show(error)})"
            raise UsageError(f"rule {finding.rule}, fix: {problem}") from error
        fault = Fault.of("repair", fix.treatment, error)
        return Refusal(fix.treatment, said("fault", problem=fault.problem), (finding.rule,), fault.problem)
    done = earlier.same(fix.treatment, result.subject)
    if done is not None:
        return Refusal(fix.treatment, done, (finding.rule,))
    assumption = fix.assumption
    if result.assumption is not None:
        assumption = treatment.assumptions[result.assumption]
    if assumption is None:
        assumption = doubt(case, finding, treatment)
    return Proposal(
        treatment=fix.treatment,
        subject=result.subject,
        edits=result.edits,
        summary=fix.summary,
        safety="unsafe" if fix.safety == "unsafe" or assumption is not None else "safe",
        assumption=assumption,
        rules=(finding.rule,),
        engines=finding.engines,
        read=only_read(case, finding),
    )


def _shown(value: object) -> str:
    if isinstance(value, (list, tuple)):
        more = f" and {len(value) - _LISTED:,} more" if len(value) > _LISTED else ""
        return ", ".join(show(part) for part in value[:_LISTED]) + more
    return show(value)
