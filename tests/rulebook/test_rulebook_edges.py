"""No rule ends a run: all rules over drafts at their edges, and what becomes of one that is wrong all the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from extremes.edge_drafts import ABSENT, KINDS, SHAPES, VALUES, Change, changes_of, draft_of, with_changes, written
from hypothesis import given
from hypothesis import strategies as st
from toyfacts import rule

from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.examining import examine
from ckptdoctor.facts import Target, read_target
from ckptdoctor.findings import Fault, Report
from ckptdoctor.policy import NO_POLICY
from ckptdoctor.registry.gate import fault_reasons, outcome_of
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.report import render
from ckptdoctor.rulebook import RuleEvaluationError
from ckptdoctor.scanning import examination
from ckptdoctor.serving.compat import compatibility


def _target(folder: Path) -> Target | None:
    try:
        return read_target(str(folder / "target"))
    except CkptdoctorError:
        return None


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_every_rule_and_plan_takes_facts_at_their_edges(
    kind: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    well = draft_of(kind)
    places = st.sampled_from(list(changes_of(well)))
    changes = []
    for where, at in data.draw(st.lists(places, min_size=1, max_size=3)):
        values = (*SHAPES, ABSENT) if where == "tensors" else VALUES
        changes.append(Change(where, at, data.draw(st.sampled_from(values))))
    folder = written(with_changes(well, *changes), tmp_path_factory.mktemp("edge"))
    # A fault of ckptdoctor is raised here (tests/conftest.py).
    found = examine(str(folder), _target(folder) if data.draw(st.booleans()) else None, rulebook())
    compatibility(found.facts)
    shutil.rmtree(folder)


def test_a_tensor_of_no_dimensions_has_another_shape_than_is_expected(tmp_path: Path) -> None:
    name = "layers.0.self_attn.q_proj.weight"
    folder = written(with_changes(draft_of("speculators-eagle3"), Change("tensors", (name,), ())), tmp_path / "d")
    made = examination(str(folder), _target(folder), rulebook())
    [finding] = [f for f in made.findings if f.rule == "GEO010" and f.location.tensor == name]
    assert finding.evidence["found"] == []
    assert made.faults == ()


FAULT = Fault("rule", "TST002", "`draft.nothing` cannot be evaluated: AttributeDoesNotExist: Attribute 'nothing' does "
              "not exist in expression 'draft.nothing'")  # fmt: skip


def test_a_rule_that_is_wrong_is_counted_and_the_rest_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(with_changes(draft_of("specforge-eagle3"), Change("tensors", ("fc.weight",), ABSENT)), tmp_path)
    wrong = rule(id="TST002", when="draft.nothing")
    with pytest.raises(RuleEvaluationError, match="TST002"):
        examination(str(folder), _target(folder), [*rulebook(), wrong])
    right = examination(str(folder), _target(folder), rulebook())
    monkeypatch.delenv("CKPTDOCTOR_STRICT")
    made = examination(str(folder), _target(folder), [*rulebook(), wrong])
    assert made.findings == right.findings
    assert made.faults == (FAULT,)


def test_every_format_tells_of_a_fault_and_a_gate_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CKPTDOCTOR_STRICT")
    folder = written(draft_of("speculators-eagle3"), tmp_path / "d")
    made = examination(str(folder), _target(folder), [*rulebook(), rule(id="TST002", when="draft.nothing")])
    report = Report((made,))
    said = "1 rule could not be judged because of a fault of ckptdoctor: TST002"
    for form in ("text", "github", "sarif", "junit", "html"):
        assert said in " ".join(render(report, form).split()), form
    assert "1 rule could not be judged because of a fault of ckptdoctor" in render(report, "markdown")
    assert '"part": "TST002"' in render(report, "json")
    assert "no all-clear" in render(report, "text")
    assert outcome_of(report, NO_POLICY) == "refused"
    assert outcome_of(Report((examination(str(folder), _target(folder), rulebook()),)), NO_POLICY) == "passed"
    assert fault_reasons(report)[0].startswith(f"{folder}: {said}")
