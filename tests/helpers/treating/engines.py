"""What the tests of treatments for one named engine share: the draft of the founding story and its repair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from story_drafts import draft, target

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import read_target
from ckptdoctor.planning import chosen_engines
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.planner import Options, RepairPlan, plan_repair
from ckptdoctor.serving.layers.provenance import provenance_of

DEEP = ("DeepseekV3ForCausalLM", 61, "deepseek_v3")


def story(
    folder: Path, ids: Sequence[int] | None, of: tuple[str, int, str] = DEEP, nested: dict[str, Any] | None = None
) -> Path:
    """The draft of the founding story with its target beside it."""
    place = draft(folder / "draft", ids, nested=nested)
    target(place / "target", *of)
    return place


def repaired(folder: Path, *engines: str, writer: str | None = None) -> RepairPlan:
    options = Options(engines=tuple(chosen_engines(engines)), provenance=provenance_of(writer))
    return plan_repair(open_checkpoint(str(folder)), read_target(str(folder / "target")), rulebook(), options)


def rules(survey: Any) -> set[str]:
    return {f.rule for f in survey.judgement.findings}
