"""What was seen beside a plan: one line for each way in which they differ."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from ckptdoctor.recorder.comparing import seen_line, verdict
from ckptdoctor.recorder.observation import MapSeen, Observation
from ckptdoctor.recorder.planned import plan_beside
from ckptdoctor.serving import LoadPlan

DRAFT = Path(__file__).parents[2] / "fixtures" / "trainers" / "sf_eagle3_llama_sglang"
MAP = MapSeen("hot_token_id", "absolute", 128, 1, 0, 510, 0)
AS_PLANNED = Observation(
    model_class="LlamaForCausalLMEagle3", engine="sglang", release="0.5.23", draft=str(DRAFT),
    target=str(DRAFT / "target"), phase="extend", tokens=12, width=192, state=64, dtype="bfloat16",
    norms=(8.1, 33.0, 120.4), fc_takes=192, fc_ran=True, map=MAP, embedding="shared", head="own", unwritten={},
    captured={"extend": (2, 4, 5), "verify": (2, 4, 5)}, vocabulary=512,
)  # fmt: skip


@lru_cache(maxsize=1)
def plan() -> LoadPlan:
    found, why = plan_beside(AS_PLANNED.draft, AS_PLANNED.target, "sglang", "0.5.23")
    assert found is not None, why
    return found


def test_as_planned() -> None:
    found = verdict(AS_PLANNED, plan(), "")
    assert found.good
    assert found.line == (
        "ckptdoctor: all is as planned for sglang 0.5.23: fc took 3 states of width 64, boundaries [2, 4, 5], "
        "hot_token_id in use"
    )
    assert seen_line(AS_PLANNED) == (
        "ckptdoctor: sglang 0.5.23, LlamaForCausalLMEagle3, first pass of 12 tokens (extend): states of width 192, "
        "bfloat16 = 3 states of 64 with mean lengths 8.1, 33 and 120; fc ran (takes 192); no norm before fc; "
        "map hot_token_id: 128 absolute ids, giving target ids 0 to 510, entries of zero: 1; "
        "embedding: the target's; head: its own; the loader wrote every parameter; "
        "the target captures boundaries [2, 4, 5]"
    )


@pytest.mark.parametrize(
    ("change", "kind", "sentence"),
    [
        ({"fc_ran": False, "width": 64}, "fc_skipped", "one layer, where fc.weight takes 192 (3 states); the plan for"),
        ({"fc_ran": False, "width": 128}, "fc_skipped", "states of width 128, 2 states, where"),
        ({"fc_ran": False, "width": 100}, "fc_skipped", "states of width 100, no whole number of states, where"),
        ({"width": 128}, "fc_refuses", "given states of width 128 and takes 192 (3 states), which ends this pass"),
        ({"width": 100, "fc_takes": None}, "width_odd", "which is no multiple of the target's 64"),
        ({"norms": (1.0, float("nan"), 2.0)}, "not_finite", "are not finite; the draft accepts next to nothing"),
        ({"unwritten": {"model.norm.weight": "never"}}, "unwritten", "never wrote model.norm.weight, which the plan"),
        ({"captured": {"extend": (2, 4, 6)}}, "captured", "boundaries [2, 4, 6] (extend) and the plan for sglang"),
        ({"captured": {"extend": (2, 4, 5), "verify_graph": (1, 4, 5)}}, "captured", "[1, 4, 5] (verify graph)"),
        ({"captured": {}, "captures_none": True}, "captures_none", "the target captures no states"),
        ({"map": None}, "map_missing", "no map is in use, and the plan for sglang 0.5.23 has d2t applied"),
        ({"map": replace(MAP, highest=900)}, "map_beyond", "gives target ids up to 900 in a vocabulary of 512"),
        ({"map": replace(MAP, repeated=3)}, "map_repeated", "gives 3 target ids more than once"),
        ({"map": replace(MAP, written=False)}, "map_unwritten", "was never written"),
        ({"embedding": "own"}, "embedding", "is its own, and the plan for sglang 0.5.23 has it as the target's"),
        ({"head": "shared"}, "head", "the head is the target's, and the plan"),
    ],
)  # fmt: skip
def test_differences(change: dict[str, Any], kind: str, sentence: str) -> None:
    found = verdict(replace(AS_PLANNED, **change), plan(), "")
    assert found.problems == (kind,)
    assert not found.good
    assert sentence in found.line
    assert "\n" not in found.line


def test_the_page_shows_what_is_printed() -> None:
    page = (DRAFT.parents[2] / "docs" / "recorder.md").read_text(encoding="utf-8")
    one_layer = replace(
        AS_PLANNED, tokens=7, width=64, dtype="float32", norms=(8.0,), fc_ran=False, captured={}, captures_none=True
    )
    assert seen_line(one_layer) in page
    assert verdict(one_layer, plan(), "").line in page
    assert verdict(AS_PLANNED, plan(), "").line in page


def test_a_plan_that_says_the_same() -> None:
    skipped = replace(plan(), wiring={**plan().wiring, "fc": "skipped"})
    seen = replace(AS_PLANNED, fc_ran=False, width=64)
    assert "the plan for sglang 0.5.23 says so too; the draft accepts" in verdict(seen, skipped, "").line
    assert verdict(AS_PLANNED, skipped, "").problems == ("fc_unplanned",)


def test_without_a_plan() -> None:
    found, why = plan_beside("/no/such/draft", None, "sglang", "0.5.23")
    assert found is None
    line = verdict(AS_PLANNED, found, why).line
    assert line.endswith("there is no plan to compare with (/no/such/draft is not on this machine)")
    assert plan_beside(str(DRAFT), None, "sglang", "no release")[0] is None
    assert plan_beside(None, None, "sglang", "0.5.23")[1] == "where the draft lies is not known"


def test_names_of_an_engine_are_made_safe() -> None:
    line = verdict(replace(AS_PLANNED, unwritten={"model.\x1b[31mx": "never"}), plan(), "").line
    assert "\x1b" not in line
