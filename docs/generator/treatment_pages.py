"""The page of treatments: what each does, for which rules, what it takes for granted, and what it does not touch."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ckptdoctor.repair.plan.case import Treatment
from ckptdoctor.repair.plan.treatments_known import treatments
from ckptdoctor.rulebook import Rule
from generator.markdown import page, prose, table

__all__ = ["treatments_page"]

_STAGES = {
    0: "Files and containers",
    1: "Prefixes of names",
    2: "Names",
    3: "Tensors",
    4: "The config",
    5: "For a named engine",
}


def treatments_page(rules: Iterable[Rule]) -> str:
    """What `fix` can do, from `rules/repair/` and the rules that name each treatment."""
    listed = [rule for rule in rules if rule.fix is not None]
    parts = [
        "# Treatments",
        "What `ckptdoctor fix` can do, in the order in which it does it; after each stage the draft is judged again as "
        "it would then be. A treatment is safe when it follows from the files and the named engine's contract alone "
        "that the engine then computes what was trained. Everything else needs `--unsafe` and prints what it takes for "
        "granted. "
        "`--select` takes the names below, and ids, names and families of rules. From `rules/repair/`.",
    ]
    for stage, title in _STAGES.items():
        found = [t for t in treatments().values() if t.stage == stage]
        if found:
            parts.append(f"## {title}")
            for treatment in sorted(found, key=lambda t: t.name):
                parts += _treatment(treatment, listed)
    return page(*parts)


def _treatment(treatment: Treatment, rules: Iterable[Rule]) -> Iterable[str]:
    yield f"### {treatment.name}"
    yield prose(treatment.about)
    rows = [
        (f"[{rule.id}](rules/{rule.id}.md) {rule.name}", rule.fix.safety, prose(_blanks(rule.fix.assumption or "")))
        for rule in rules
        if rule.fix is not None and rule.fix.treatment == treatment.name
    ]
    yield table(("for", "", "takes for granted"), rows)
    if treatment.assumptions:
        yield "It becomes unsafe where it has to take for granted:"
        yield "\n".join(f"- {prose(_blanks(text))}" for text in treatment.assumptions.values())
    if treatment.refusals:
        yield "It changes nothing, and says why:"
        yield "\n".join(f"- {prose(_blanks(text))}" for text in treatment.refusals.values())


def _blanks(text: str) -> str:
    """The text with its blanks as small words: {name} becomes ⟨name⟩."""
    return re.sub(r"\{([a-z_]+)[^}]*\}", r"⟨\1⟩", text)
