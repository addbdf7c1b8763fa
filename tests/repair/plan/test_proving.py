"""Safe means proven: what makes a repair safe, and what takes it away."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from builder import Recipe
from recipe_cases import RECIPES, SHARED, Built
from treatment_cases import answer, draft_of, floats, map_of, plan, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.examining import survey
from ckptdoctor.findings import Confidence, Finding
from ckptdoctor.planning import chosen_engines
from ckptdoctor.repair.edits import OmitFile, SetConfig
from ckptdoctor.repair.fixing import fix
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.case import Case, Proposal
from ckptdoctor.repair.plan.proposing import proposed
from ckptdoctor.repair.plan.proving import as_served, better, unproven, worse
from ckptdoctor.repair.plan.treatments_known import treatments
from ckptdoctor.repair.receipt_reading import Earlier
from ckptdoctor.repair.state import State
from ckptdoctor.scanning import scan
from ckptdoctor.serving import LoadPlan
from ckptdoctor.serving.plan import Refusal
from ckptdoctor.serving.words import Reason


def served_as(outcome: str, *reasons: str, executed: bool = True) -> LoadPlan:
    """A plan with this outcome, for these reasons."""
    errors = tuple(Refusal("load", reason) for reason in reasons) if outcome == "refused" else ()
    causes = tuple(Reason(outcome, "parameters_left", {"text": r}) for r in reasons) if not errors else ()
    return LoadPlan(
        "sglang", "0.5.23", "X", outcome=outcome, errors=errors, causes=causes, loading_executed=executed
    )  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "proof"),
    [
        ("refused", "served", True),
        ("unknown", "served", True),
        ("refused", "degraded", True),
        ("broken", "degraded", True),
        ("refused", "broken", False),
        ("broken", "refused", False),
        ("broken", "unknown", False),
        ("refused", "unknown", False),
        ("degraded", "unknown", False),
        ("unknown", "degraded", False),
        ("broken", "broken", False),
        ("served", "served", True),
    ],
)
def test_what_is_proof(before: str, after: str, proof: bool) -> None:
    assert better(served_as(before), served_as(after)) is proof


def test_what_was_only_read_is_no_proof_but_for_served() -> None:
    assert not better(served_as("broken"), served_as("degraded", executed=False))
    assert not better(served_as("broken", executed=False), served_as("degraded"))
    assert better(served_as("broken"), served_as("served", executed=False))


def test_what_is_worse() -> None:
    pairs = [("served", "degraded"), ("degraded", "broken"), ("degraded", "unknown"), ("served", "unknown")]
    assert all(worse(served_as(one), served_as(other)) for one, other in pairs)
    assert not worse(served_as("refused"), served_as("broken"))
    assert as_served(served_as("refused"), served_as("refused"))
    assert not as_served(served_as("refused"), served_as("broken"))


def test_an_engine_that_the_finding_names_has_to_be_better_off() -> None:
    step = Proposal("layout-for-engine", "x", (), "", "safe", engines=("sglang==0.5.23",))
    told = unproven(step, [served_as("broken")], [served_as("unknown")], named=True)
    assert told is not None
    assert "is not known" in told
    assert unproven(step, [served_as("broken")], [served_as("served")], named=True) is None
    assert "would still not serve" in (unproven(step, [served_as("broken")], [served_as("broken")], named=True) or "")
    # An engine that the finding does not name may stay as it was.
    other = replace(step, engines=())
    assert unproven(other, [served_as("broken")], [served_as("broken")], named=True) is None


def case_of(folder: Path, *engines: str) -> tuple[Case, list[Finding]]:
    chosen = chosen_engines(engines)
    found = survey(open_checkpoint(str(folder)), None, rulebook(), chosen)
    releases = tuple((contract, release) for contract, release, _ in chosen)
    return Case(found.checkpoint, found.facts, releases, found.plans), list(found.judgement.findings)


def test_a_repair_of_what_is_likely_is_not_safe(tmp_path: Path) -> None:
    draft = draft_of()
    map_of(draft, lambda d2t: d2t + range(len(d2t)))
    case, findings = case_of(write(draft, tmp_path / "d"))
    finding = next(f for f in findings if f.fix is not None and f.fix.treatment == "map-to-offsets")
    sure = proposed(case, finding, Earlier())
    assert isinstance(sure, Proposal)
    assert (sure.safety, sure.assumption) == ("safe", None)
    likely = proposed(case, replace(finding, confidence=Confidence.LIKELY), Earlier())
    assert isinstance(likely, Proposal)
    assert likely.safety == "unsafe"
    assert likely.assumption == "What the finding says is so, which is likely and not proven."
    guessed = replace(case, facts=replace(case.facts, uncertain={"draft.algorithm": Confidence.LIKELY}))
    told = proposed(guessed, replace(finding, confidence=Confidence.LIKELY), Earlier())
    assert isinstance(told, Proposal)
    assert "kind EAGLE-3" in (told.assumption or "")


def test_what_a_treatment_goes_by_itself_counts(tmp_path: Path) -> None:
    draft = draft_of()
    assert draft.config is not None
    draft.config["intermediate_size"] = 999
    case, findings = case_of(write(draft, tmp_path / "d"))
    finding = next(f for f in findings if f.fix is not None and f.fix.treatment == "size-from-tensors")
    assert "draft.algorithm" in treatments()["size-from-tensors"].rests_on
    guessed = replace(case, facts=replace(case.facts, uncertain={"draft.algorithm": Confidence.LIKELY}))
    told = proposed(guessed, finding, Earlier())
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"


def test_no_class_is_named_for_a_kind_that_is_a_guess(tmp_path: Path) -> None:
    draft = draft_of("eagle-eagle1")
    assert draft.config is not None
    del draft.config["architectures"]
    folder = write(draft, tmp_path / "d")
    assert not isinstance(answer(folder, "ARC003"), str)
    draft.tensors["pre_fc_norm_hidden.weight"] = floats((64,), "BF16")
    draft.tensors["pre_fc_norm_embedding.weight"] = floats((64,), "BF16")
    folder = write(draft, tmp_path / "e")
    told = answer(folder, "ARC003")
    assert isinstance(told, str)
    assert "may be another kind" in told
    # What does not fit is not thrown away either, after which it would look like a whole draft.
    for engines in ((), ("sglang==0.5.23",)):
        assert plan(folder, *engines, unsafe=True).steps == ()


def test_a_repaired_draft_is_judged_with_its_side_files(tmp_path: Path) -> None:
    folder = write(draft_of(), tmp_path / "d")
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": {"exclude_modules": ["lm_head"]}}))
    state = State.of(open_checkpoint(str(folder)))
    more = state.after([SetConfig("quantization.exclude_modules", ["lm_head", "fc"], "hf_quant_config.json")])
    document = more.checkpoint.json("hf_quant_config.json")
    assert document is not None
    assert document.object["quantization"]["exclude_modules"] == ["lm_head", "fc"]
    assert more.after([OmitFile("hf_quant_config.json")]).checkpoint.json("hf_quant_config.json") is None
    before = state.checkpoint.json("hf_quant_config.json")
    assert before is not None
    assert before.object["quantization"]["exclude_modules"] == ["lm_head"]


@pytest.mark.parametrize("name", ["names-of-wrappers", "torchspec-names", "codebooks-as-embeddings"])
@pytest.mark.parametrize("engines", [(), ("sglang==0.5.23",), ("vllm==0.33.0",)], ids=lambda e: "-".join(e) or "none")
def test_names_with_one_meaning_are_renamed_safely(
    name: str, engines: tuple[str, ...], built: Built, tmp_path: Path
) -> None:
    recipe: Recipe = RECIPES[name]
    folder = built.path(recipe)
    target = folder / "target"
    outcome = fix(folder, tmp_path / "copy", target=target, engines=engines)
    assert {(s.treatment, s.safety) for s in outcome.plan.steps} == {("rename-known", "safe")}
    assert [f.rule for f in outcome.remaining if f.severity.value == "error"] == []
    assert all(p.outcome == "served" for p in outcome.plan.after.plans)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["quantized-layers-names-experts", "quantized-layers-per-expert"])
def test_a_list_of_quantised_layers_may_name_the_fused_module(name: str) -> None:
    folder = SHARED / "cases" / "inputs" / name
    if not folder.is_dir():
        pytest.skip("the inputs are not here")
    assert [f.rule for f in scan(folder).findings if f.rule.startswith("QNT")] == []


@pytest.mark.shared
@pytest.mark.parametrize("name", ["default-shaped-ids-qwen3", "default-shaped-ids-kimi"])
@pytest.mark.parametrize("engine", ["sglang==0.5.23", "sglang==0.5.12.post1", "vllm==0.33.0"])
def test_ids_that_only_look_like_the_default_are_left(name: str, engine: str, tmp_path: Path) -> None:
    folder = SHARED / "cases" / "inputs" / name
    if not folder.is_dir():
        pytest.skip("the inputs are not here")
    shutil.copytree(folder, tmp_path / "d")
    outcome = fix(tmp_path / "d", tmp_path / "copy", target=folder / "target", engines=[engine])
    assert outcome.plan.steps == ()
