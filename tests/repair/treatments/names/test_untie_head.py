"""A head of its own is not tied."""

from __future__ import annotations

from pathlib import Path

import pytest
from treating.names import config
from treatment_cases import answer, draft_of, plan, refusal, settings, write

from ckptdoctor.repair.plan.case import Case, Proposal, RefusedError
from ckptdoctor.repair.treatments.names.untie_head import propose as untie


@pytest.mark.parametrize(("rule", "engines"), [("GEO017", ()), ("SRV003", ("sglang==0.5.23",))])
def test_a_head_of_its_own_is_not_tied(rule: str, engines: tuple[str, ...], tmp_path: Path) -> None:
    draft = draft_of()
    config(draft)["tie_word_embeddings"] = True
    folder = write(draft, tmp_path)
    told = answer(folder, rule, *engines)
    assert settings(told) == {"tie_word_embeddings": False}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    assert [p.outcome for p in plan(folder, *engines).after.plans] == ["served"] * len(engines)


def test_without_a_head_nothing_is_untied(tmp_path: Path) -> None:
    draft = draft_of()
    config(draft)["tie_word_embeddings"] = True
    del draft.tensors["lm_head.weight"]
    folder = write(draft, tmp_path)
    assert "No head is stored" in refusal(answer(folder, "SRV003", "vllm==0.33.0"))
    assert "untie-head" not in [s.treatment for s in plan(folder, "sglang==0.5.23", unsafe=True).steps]


def test_a_head_that_is_not_tied_is_left_alone(tmp_path: Path) -> None:
    facts = plan(write(draft_of(), tmp_path)).before
    with pytest.raises(RefusedError, match="not_tied"):
        untie(Case(facts.checkpoint, facts.facts))
