"""Captured boundaries: the arithmetic of ids, and what every class of every release can reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from story_drafts import TRAINERS, facts_of, plan, trainer

from ckptdoctor.facts import Target
from ckptdoctor.launch.line import parse_launch
from ckptdoctor.serving import contracts
from ckptdoctor.serving.contract.contracts import Reader, Release
from ckptdoctor.serving.contract.settings import Settings
from ckptdoctor.serving.layers.boundaries import default_boundaries, reach, spread, to_boundaries
from ckptdoctor.serving.layers.capture import PHASES, capture

ENGINES = [name for name, contract in contracts().items() if contract.targets]
VARIANTS = (
    "plus_one", "plus_one_and_default_too", "plus_one_if_first_is_1", "same_if_max_is_depth_else_plus_one", "same",
)  # fmt: skip


def rows() -> Iterator[tuple[str, Mapping[str, Any]]]:
    for engine in ENGINES:
        for row in contracts()[engine].targets["targets"]:
            yield engine, row


ROWS = list(rows())
ROW_IDS = [f"{engine}-{row['id']}" for engine, row in ROWS]
DOUBTFUL_FATES = {"wraps", "lowest"}


def fates(row: Mapping[str, Any]) -> set[str]:
    return {str(entry["value"]) for side in ("below", "above", "negative") for entry in row.get(side, ())}


def qwen3_moe(release: str) -> tuple[Reader, Mapping[str, Any]]:
    contract = contracts()["sglang"]
    row = next(r for r in contract.targets["targets"] if r["id"] == "qwen3_moe")
    return Release(contract, release).reader(), row


@pytest.mark.parametrize(
    ("variant", "ids", "boundaries"),
    [
        ("plus_one", [2, 30, 58], (3, 31, 59)),
        ("plus_one", [-1, 2, 30], (0, 3, 31)),
        ("plus_one_and_default_too", [2, 30, 58], (3, 31, 59)),
        ("plus_one_if_first_is_1", [2, 30, 58], (2, 30, 58)),
        ("plus_one_if_first_is_1", [1, 29, 57], (2, 30, 58)),
        ("plus_one_if_first_is_1", [29, 1, 57], (29, 1, 57)),
        ("plus_one_if_first_is_1", [], ()),
        ("same_if_max_is_depth_else_plus_one", [2, 30, 61], (2, 30, 61)),
        ("same_if_max_is_depth_else_plus_one", [2, 30, 60], (3, 31, 61)),
        ("same", [2, 30, 58], (2, 30, 58)),
    ],
)
def test_ids_become_boundaries(variant: str, ids: list[int], boundaries: tuple[int, ...]) -> None:
    assert to_boundaries(variant, ids, 61) == boundaries


def test_an_unknown_way_of_counting_is_an_error_of_the_contract() -> None:
    with pytest.raises(ValueError, match="no such way"):
        to_boundaries("minus_one", [1], 61)


def test_every_way_of_counting_in_the_contracts_is_known() -> None:
    ways = {entry["value"] for _, row in ROWS for entry in row["ids_to_boundaries"]}
    assert ways - {"ignored"} <= set(VARIANTS)


@given(st.sampled_from(VARIANTS), st.lists(st.integers(-3, 70), max_size=6), st.integers(1, 70))
def test_every_way_of_counting_keeps_the_ids_or_adds_one(variant: str, ids: list[int], depth: int) -> None:
    assert to_boundaries(variant, ids, depth) in (tuple(ids), tuple(i + 1 for i in ids))


@pytest.mark.parametrize(
    ("layers", "depth", "boundaries"),
    [
        (1, 36, (19,)),
        (2, 36, (2, 34)),
        (5, 36, (2, 10, 18, 26, 34)),
        (3, 8, (2, 4, 6)),
        (0, 36, ()),
        ("5", 36, ()),
        (None, 36, ()),
    ],
)
def test_a_block_drafter_without_ids_spreads_its_layers(layers: Any, depth: int, boundaries: tuple[int, ...]) -> None:
    assert spread(Settings({"num_hidden_layers": layers}), depth) == boundaries


@given(data=st.data(), place=st.integers(0, len(ROWS) - 1), depth=st.integers(8, 70))
def test_reached_boundaries_are_wanted_ones_in_ascending_order(data: st.DataObject, place: int, depth: int) -> None:
    engine, row = ROWS[place]
    contract = contracts()[engine]
    release = Release(contract, data.draw(st.sampled_from(contract.releases))).reader()
    wanted = data.draw(st.lists(st.integers(-2, depth + 2), max_size=6))
    reached, refusals, remarks = reach(release, row, wanted, depth)
    if row.get("order") != "as_listed":
        assert list(reached) == sorted(set(reached))
    if not fates(row) & DOUBTFUL_FATES:
        assert set(reached) <= set(wanted)
        # Whatever is not reached is spoken of.
        assert len(refusals) + len(remarks) == len(set(wanted) - set(reached))
    assert all(0 <= b <= depth for b in reached)
    assert {r.stage for r in refusals} <= {"start", "first_forward"}


@pytest.mark.parametrize(("engine", "row"), ROWS, ids=ROW_IDS)
@pytest.mark.parametrize("depth", [12, 36, 61])
def test_the_default_boundaries_can_be_reached(engine: str, row: Mapping[str, Any], depth: int) -> None:
    contract = contracts()[engine]
    for version in contract.releases:
        release = Release(contract, version).reader()
        default = default_boundaries(release, row, depth)
        reached, refusals, remarks = reach(release, row, default, depth)
        assert (reached, refusals, remarks) == (default, [], [])


@pytest.mark.parametrize(
    ("release", "reached", "fate"),
    [
        ("0.5.4", (3, 31), "boundary -1 of 48 is never captured"),
        ("0.5.9", (3, 31, 47), "boundary -1 of 48 wraps to boundary 47"),
    ],
)
def test_a_boundary_before_the_first_wraps_where_layers_are_flagged(
    release: str, reached: tuple[int, ...], fate: str
) -> None:
    assert reach(*qwen3_moe(release), [-1, 3, 31], 48) == (reached, [], [fate])


def test_a_list_index_ends_somewhere() -> None:
    reached, refusals, _ = reach(*qwen3_moe("0.5.9"), [-49, 3, 49], 48)
    assert reached == (3,)
    assert [r.stage for r in refusals] == ["start", "start"]


def test_mlx_takes_the_lowest_boundary_for_0() -> None:
    contract = contracts()["mlx-vlm"]
    row = contract.targets["targets"][0]
    reached, refusals, remarks = reach(Release(contract, contract.newest).reader(), row, [5, 0, 2], 8)
    assert (reached, refusals) == ((5, 1, 2), [])
    assert remarks == ["boundary 1 is captured in place of 0"]


@pytest.mark.parametrize("engine", list(contracts()))
@pytest.mark.parametrize("name", ["mo_eagle3_llama", "spec_eagle3_llama", "mo_dflash_qwen3", "sf_eagle3_llama_sglang"])
def test_a_plan_has_the_three_phases_or_no_class(engine: str, name: str) -> None:
    facts = trainer(name)
    for version in contracts()[engine].releases:
        found = plan(facts, version, engine=engine)
        assert tuple(found.captured) in (PHASES, ())
        assert found.captured or found.model_class is None or any("parameters" in text for text in found.unproven)


@pytest.mark.parametrize("engine", ENGINES)
def test_without_a_target_nothing_is_known_and_that_is_said(engine: str) -> None:
    facts = facts_of(TRAINERS / "mo_eagle3_llama", None)
    newest = contracts()[engine].newest
    found = capture(Release(contracts()[engine], newest), Settings({}), facts.target, None, "eagle3", False)
    assert (dict(found.phases), found.refusals) == (dict.fromkeys(PHASES), ())
    assert [reason.kind for reason in found.opens] == ["target_absent"]


def of_depth(architecture: str | None, model_type: str = "llama") -> Target:
    known = trainer("mo_eagle3_llama").target
    assert known is not None
    return replace(known, architecture=architecture, model_type=model_type)


def test_a_target_without_a_class_is_not_guessed() -> None:
    found = capture(Release(contracts()["sglang"], "0.5.9"), Settings({}), of_depth(None), None, "eagle3", False)
    assert dict(found.phases) == dict.fromkeys(PHASES)
    assert [reason.kind for reason in found.opens] == ["target_unlisted"]
    assert found.refusals == ()


@pytest.mark.parametrize(
    ("engine", "release", "kind", "architecture", "passes"),
    [
        ("sglang", "0.5.9", "eagle3", "GPT2LMHeadModel", False),
        ("sglang", "0.5.23", "eagle3", "Qwen2ForCausalLM", True),
        ("sglang", "0.5.23", "dflash", "Qwen2ForCausalLM", False),
        ("sglang", "0.5.11", "dflash", "Qwen3_5ForConditionalGeneration", True),
        ("vllm", "0.33.0", "eagle3", "Glm4MoeForCausalLM", False),
        ("vllm", "0.33.0", "dflash", "Qwen3ForCausalLM", True),
    ],
)
def test_a_whole_list_says_whether_a_target_class_passes_states_on(
    engine: str, release: str, kind: str, architecture: str, passes: bool
) -> None:
    """SGLang asks for a setter of its own for each kind of draft, vLLM for one interface."""
    settings = Settings({"target_layer_ids": [1, 2], "num_hidden_layers": 2})
    view = Release(contracts()[engine], release)
    found = capture(view, settings, of_depth(architecture), None, kind, kind == "dflash")
    stops = [refusal.reason for refusal in found.refusals if "cannot pass captured states on" in refusal.reason]
    assert bool(stops) is not passes


@pytest.mark.parametrize(
    ("launch", "refused"),
    [("sglang serve", False), ("sglang serve --pp-size 1", False), ("sglang serve --pp-size 2", True)],
)
def test_sglang_refuses_pipeline_stages(launch: str, refused: bool) -> None:
    found = plan(trainer("mo_eagle3_llama"), "0.5.23", launch)
    assert (found.outcome == "refused") is refused
    assert found.reasons == (("pipeline parallelism and speculation together are refused",) if refused else ())


@pytest.mark.parametrize("value", [[], ["1", "3"], [1, None], [True, 3, 4], "1,3,4", 3, None, [1.0, 3.0, 4.0]])
def test_ids_that_are_no_list_of_whole_numbers_are_not_used(value: Any) -> None:
    config = Settings({"eagle_config": {"eagle_aux_hidden_state_layer_ids": value}})
    found = capture(
        Release(contracts()["sglang"], "0.5.12"), config, of_depth("LlamaForCausalLM"), None, "eagle3", False
    )
    assert (found.ids, found.ids_from) == (None, None)
    assert found.phases["extend"] == (2, 4, 5)


@pytest.mark.parametrize(
    ("release", "launch", "place"),
    [
        ("0.21.0", "vllm serve x", "eagle_aux_hidden_state_layer_ids"),
        ("0.22.0", "VLLM_USE_V2_MODEL_RUNNER=0 vllm serve x", "eagle_aux_hidden_state_layer_ids"),
        ("0.22.0", "VLLM_USE_V2_MODEL_RUNNER=1 vllm serve x", "eagle_aux_hidden_state_layer_ids"),
    ],
)
def test_vllm_takes_the_outer_ids_first(release: str, launch: str, place: str) -> None:
    key = "eagle_aux_hidden_state_layer_ids"
    config = Settings({key: [2, 4, 5], "eagle_config": {key: [1, 3, 4]}})
    line = parse_launch(launch)
    found = capture(Release(contracts()["vllm"], release), config, of_depth("LlamaForCausalLM"), line, "eagle3", False)
    assert (found.ids, found.ids_from) == ((2, 4, 5), place)


@pytest.mark.parametrize(("runner", "ids"), [("0", (1, 3, 4)), ("1", None)])
def test_the_second_runner_of_vllm_0_22_does_not_read_the_nested_ids(runner: str, ids: tuple[int, ...] | None) -> None:
    config = Settings({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 4]}})
    line = parse_launch(f"VLLM_USE_V2_MODEL_RUNNER={runner} vllm serve x")
    found = capture(Release(contracts()["vllm"], "0.22.0"), config, of_depth("LlamaForCausalLM"), line, "eagle3", False)
    assert found.ids == ids
    assert found.phases["extend"] == (ids or (2, 4, 5))


@pytest.mark.parametrize(
    ("release", "dense", "captured", "stops"),
    [
        ("0.5.9", 0, (2, 30, 58), False),
        ("0.5.9", 3, (2,), True),  # two states are lost, and fc takes three
        ("0.5.17", 3, (2, 30, 58), True),
    ],
)
def test_two_batch_overlap_passes_layers_with_experts(
    release: str, dense: int, captured: tuple[int, ...], stops: bool
) -> None:
    target = replace(of_depth("DeepseekV3ForCausalLM"), num_layers=61, dense_layers=dense)
    line = parse_launch("python -m sglang.launch_server --enable-two-batch-overlap")
    found = capture(Release(contracts()["sglang"], release), Settings({}), target, line, "eagle3", False)
    assert found.phases["extend"] == captured
    lost = bool(found.refusals) or any("two-batch" in remark for remark in found.remarks)
    assert lost is stops


def test_a_boundary_named_twice_stops_where_states_are_counted() -> None:
    ids = Settings({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 30, 30]}})
    target = replace(of_depth("DeepseekV3ForCausalLM"), num_layers=61)
    before = capture(Release(contracts()["sglang"], "0.5.14"), ids, target, None, "eagle3", False)
    after = capture(Release(contracts()["sglang"], "0.5.17"), ids, target, None, "eagle3", False)
    assert before.refusals == ()
    assert [(e.stage, e.reason) for e in after.refusals] == [
        ("first_forward", "a boundary is named twice: [2, 30, 30]")
    ]
