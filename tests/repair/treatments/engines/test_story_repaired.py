"""Treatments for one named engine together: the draft of the founding story, and no engine named at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from treating.engines import repaired, story
from treatment_cases import draft_of, plan, write

from ckptdoctor.repair.plan.case import Case, Propose, RefusedError
from ckptdoctor.repair.treatments.engines import ids_for_engine, layout_for_engine

# --- the founding story -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", ["0.5.9", "0.5.11"])
def test_the_draft_of_the_founding_story_is_served_after_two_repairs(release: str, tmp_path: Path) -> None:
    found = repaired(story(tmp_path, [2, 30, 58]), f"sglang=={release}", writer="speculators")
    assert [p.outcome for p in found.before.plans] == ["broken"]
    assert {s.treatment: s.safety for s in found.steps} == {"ids-for-engine": "safe", "layout-for-engine": "safe"}
    assert [p.outcome for p in found.after.plans] == ["served"]
    assert not found.appeared
    assert not found.ineffective
    assert set(found.after.plans[0].captured.values()) == {(2, 30, 58)}
    assert found.after.plans[0].uninitialised == ()


def test_a_release_that_serves_the_story_needs_nothing(tmp_path: Path) -> None:
    assert repaired(story(tmp_path, [2, 30, 58]), "sglang==0.5.23").steps == ()


# --- without what they need -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("propose", [layout_for_engine.propose, ids_for_engine.propose])
def test_without_a_named_engine_nothing_is_done(propose: Propose, tmp_path: Path) -> None:
    before = plan(write(draft_of(), tmp_path)).before
    with pytest.raises(RefusedError, match="unnamed"):
        propose(Case(before.checkpoint, before.facts))
