"""A plan that several releases share is the plan that each of them has by itself."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
from recipe_cases import RECIPES, Built
from story_drafts import trainer, trainer_names

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import Facts, describe, read_target
from ckptdoctor.launch.line import Launch, parse_launch
from ckptdoctor.serving import contracts, load_plan
from ckptdoctor.serving import remembered as remembering
from ckptdoctor.serving.layers.provenance import provenance_of
from ckptdoctor.serving.reading import Asked, Release

ENGINES = ["sglang", "vllm", "tensorrt-llm"]
LAUNCH = "python -m sglang.launch_server --speculative-algorithm EAGLE3 --pp-size 2 --enable-two-batch-overlap"
SERVED = [name for name, recipe in RECIPES.items() if recipe.engines or name.startswith(("aux", "block", "mtp"))]


def assert_shared_is_alone(facts: Facts, launch: Launch | None, engines: list[str]) -> None:
    """Each release by itself, with facts of its own so that nothing is remembered, and all of them with the same."""
    for engine in engines:
        contract = contracts()[engine]
        for version in contract.releases:
            alone = load_plan(replace(facts), contract, version, launch)
            shared = load_plan(facts, contract, version, launch)
            # The values of reasons are no part of a comparison, but of what is said.
            assert repr(shared) == repr(alone)


@pytest.mark.parametrize("launch", [None, LAUNCH], ids=["no launch line", "launch line"])
@pytest.mark.parametrize("name", trainer_names())
def test_drafts_of_trainers(name: str, launch: str | None) -> None:
    assert_shared_is_alone(trainer(name), None if launch is None else parse_launch(launch), ENGINES)


@pytest.mark.parametrize("name", SERVED[::12])
def test_recipes(built: Built, name: str) -> None:
    recipe = RECIPES[name]
    folder = built.path(recipe)
    target = read_target(str(folder / "target")) if recipe.target is not None else None
    launch = None if recipe.launch is None else parse_launch(recipe.launch)
    assert_shared_is_alone(describe(open_checkpoint(str(folder)), target), launch, ["sglang", "vllm"])


def plans_made(facts: Facts, engine: str) -> int:
    return len(remembering.remembered(facts, contracts()[engine], None, provenance_of()).made)


def test_many_releases_share_a_plan() -> None:
    facts = replace(trainer(trainer_names()[0]))
    for version in contracts()["vllm"].releases:
        load_plan(facts, contracts()["vllm"], version)
    assert plans_made(facts, "vllm") < len(contracts()["vllm"].releases) * 2 / 3


def test_another_launch_line_or_training_is_planned_anew() -> None:
    facts, contract = replace(trainer(trainer_names()[0])), contracts()["sglang"]
    plain = load_plan(facts, contract, contract.newest)
    line = parse_launch("python -m sglang.launch_server --speculative-algorithm EAGLE3 --disable-cuda-graph")
    other = load_plan(facts, contract, contract.newest, line)
    assert other == load_plan(replace(facts), contract, contract.newest, line)
    assert load_plan(facts, contract, contract.newest) == plain
    assert plans_made(facts, "sglang") == 1


def test_a_release_that_nobody_has_read_is_told_so_whatever_was_planned_before() -> None:
    facts, contract = replace(trainer(trainer_names()[0])), contracts()["vllm"]
    before = load_plan(facts, contract, contract.newest)
    plan = load_plan(facts, contract, "99.0")
    assert before.release_remark is None
    assert plan.release_remark is not None
    assert not plan.executed


def test_plans_are_forgotten_with_their_facts() -> None:
    facts = replace(trainer(trainer_names()[0]))
    at = id(facts)
    load_plan(facts, contracts()["vllm"], contracts()["vllm"].newest)
    assert at in remembering._KEPT
    del facts
    gc.collect()
    assert at not in remembering._KEPT


def test_a_release_answers_as_another_one_only_where_values_are_of_the_same_type() -> None:
    contract, timeline = contracts()["vllm"], [{"from": "0.9.0", "value": 1}, {"from": "0.10.0", "value": True}]
    asked = Asked()
    assert Release(contract, "0.9.1", asked).peek(timeline) == 1
    assert asked.fits(Release(contract, "0.9.2"))
    assert not asked.fits(Release(contract, "0.10.0"))


def test_a_release_that_answers_otherwise_in_what_was_asked_does_not_fit() -> None:
    contract, asked = contracts()["vllm"], Asked()
    release = Release(contract, "0.9.1", asked)
    assert not release.has_reached("0.10.0")
    assert release.holds({"until": "0.20.0"})
    assert asked.fits(Release(contract, "0.9.2"))
    assert not asked.fits(Release(contract, "0.10.0"))
    assert not asked.fits(Release(contract, "0.33.0"))


def test_a_part_counts_by_its_answer_alone() -> None:
    contract, asked = contracts()["vllm"], Asked()
    timeline = [{"from": "0.9.0", "value": 3}, {"from": "0.10.0", "value": 5}, {"from": "0.20.0", "value": 8}]
    release = Release(contract, "0.9.1", asked)
    assert release.part("parity", lambda reader: reader.peek(timeline) % 2) == 1
    assert asked.fits(Release(contract, "0.10.0"))
    assert not asked.fits(Release(contract, "0.20.0"))
