"""The table of treatments: what rules ask of it is in it."""

from __future__ import annotations

import ast

from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.treatments_known import treatments


def test_every_refusal_that_a_rule_names_has_a_sentence() -> None:
    named = 0
    for rule in rulebook().rules:
        expression = rule.fix.arguments.get("refuse") if rule.fix else None
        if rule.fix is None or expression is None:
            continue
        results = [n for n in ast.walk(ast.parse(str(expression), mode="eval")) if isinstance(n, ast.IfExp)]
        for node in (part for n in results for part in (n.body, n.orelse) if isinstance(part, ast.Constant)):
            if node.value is not None:
                assert node.value in treatments()[rule.fix.treatment].refusals, (rule.id, node.value)
                named += 1
    assert named > 4
