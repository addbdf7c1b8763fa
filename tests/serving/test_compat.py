"""One draft over all known releases: the ranges, what sharing plans changes (nothing), and ids that fit."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from story_drafts import IDS_KEY, TRAINERS, draft, facts_of, target, trainer, trainer_names

from ckptdoctor.facts import Facts
from ckptdoctor.launch.line import parse_launch
from ckptdoctor.serving import LoadPlan, contracts, load_plan
from ckptdoctor.serving.compat import Range, compatibility, fitting_ids
from ckptdoctor.serving.layers.provenance import provenance_of

ENGINES = list(contracts())
LAUNCH = "python -m sglang.launch_server --speculative-algorithm EAGLE3 --disable-cuda-graph"
NAMES = [*trainer_names(), "deepseek", "kimi"]


@pytest.fixture(scope="module")
def drafts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Facts]:
    """Trainers' drafts, and the flat draft of two 61-layer targets."""
    root = tmp_path_factory.mktemp("compat")
    made = draft(root / "draft", [2, 30, 58])
    plain = target(root / "plain", "DeepseekV3ForCausalLM", 61, "deepseek_v3")
    inside = target(root / "kimi", "KimiK25ForConditionalGeneration", 61, "deepseek_v3", wrapped_as="kimi_k25")
    return {
        **{name: trainer(name) for name in trainer_names()},
        "deepseek": facts_of(made, plain),
        "kimi": facts_of(made, inside),
    }


def releases_of(found: Range) -> tuple[str, ...]:
    known = contracts()[found.engine].releases
    return known[known.index(found.first) : known.index(found.last) + 1]


SPECFORGE = provenance_of("specforge")


@pytest.mark.parametrize("name", NAMES)
def test_ranges_cover_every_known_release_once_and_in_order(drafts: dict[str, Facts], name: str) -> None:
    ranges = compatibility(drafts[name])
    covered = [(r.engine, version) for r in ranges for version in releases_of(r)]
    assert covered == [(engine, version) for engine in ENGINES for version in contracts()[engine].releases]
    assert [r.engine for r in ranges if r.is_newest] == ENGINES
    assert all(r.is_newest is (r.last == contracts()[r.engine].newest) for r in ranges)


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_of_a_range_is_that_of_its_newest_release(drafts: dict[str, Facts], name: str) -> None:
    for found in compatibility(drafts[name]):
        assert found.plan == load_plan(drafts[name], contracts()[found.engine], found.last)


@pytest.mark.parametrize("launch", [None, LAUNCH], ids=["no launch line", "launch line"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
def test_planning_each_release_alone_gives_the_same_ranges(
    drafts: dict[str, Facts], name: str, engine: str, launch: str | None
) -> None:
    facts, contract = drafts[name], contracts()[engine]
    line = parse_launch(launch) if launch else None
    for found in compatibility(facts, [engine], line, SPECFORGE):
        alone = [load_plan(facts, contract, version, line, SPECFORGE) for version in releases_of(found)]
        assert alone[-1] == found.plan
        for plan in alone:
            assert plan.outcome == found.plan.outcome
            assert plan.outcome == "refused" or dict(plan.captured) == dict(found.plan.captured)
            assert plan.reasons == found.plan.reasons


@pytest.mark.parametrize("name", NAMES)
def test_neighbouring_ranges_differ(drafts: dict[str, Facts], name: str) -> None:
    ranges = compatibility(drafts[name], ["sglang", "vllm"])
    for older, newer in pairwise(ranges):
        same = (older.engine, older.plan.outcome, older.plan.reasons, dict(older.plan.captured), older.plan.unproven)
        assert same != (newer.engine, newer.plan.outcome, newer.plan.reasons, dict(newer.plan.captured),
                        newer.plan.unproven)  # fmt: skip


def test_the_ranges_of_the_founding_story(drafts: dict[str, Facts]) -> None:
    told = [
        (r.span, r.plan.outcome, r.plan.captured.get("extend"))
        for r in compatibility(drafts["deepseek"], ["sglang"], provenance=provenance_of("speculators"))
    ]
    assert told[-4:] == [
        ("0.5.4.post3 to 0.5.10.post1", "broken", (3, 31, 59)),
        ("0.5.11", "broken", (3, 31, 59)),
        ("0.5.12 to 0.5.12.post1", "degraded", (3, 31, 59)),
        ("0.5.13 and later", "served", (2, 30, 58)),
    ]
    assert {outcome for _, outcome, _ in told[:-4]} == {"refused"}


def test_releases_that_refuse_a_wrapper_in_the_same_words_are_one_range(drafts: dict[str, Facts]) -> None:
    told = compatibility(drafts["kimi"], ["sglang"])
    words = "KimiK25ForConditionalGeneration cannot pass captured states on before SGLang 0.5.10"
    assert [r.span for r in told if r.plan.reasons == (words,)] == ["0.4.9 to 0.5.9"]


@pytest.mark.parametrize(
    ("first", "last", "newest", "span"),
    [
        ("0.5.9", "0.5.9", False, "0.5.9"),
        ("0.4.9", "0.5.11", False, "0.4.9 to 0.5.11"),
        ("0.5.12", "0.5.23", True, "0.5.12 and later"),
    ],
)
def test_the_span_of_a_range(first: str, last: str, newest: bool, span: str) -> None:
    assert Range("sglang", "SGLang", first, last, newest, LoadPlan("sglang", last, None)).span == span


def test_no_engine_and_some_engines(drafts: dict[str, Facts]) -> None:
    facts = drafts["deepseek"]
    assert compatibility(facts, []) == ()
    both = compatibility(facts, ["vllm", "sglang"])
    assert both == (*compatibility(facts, ["vllm"]), *compatibility(facts, ["sglang"]))


@pytest.mark.parametrize(
    ("release", "boundaries", "ids"),
    [
        # Up to 0.5.10 the graph has the default boundaries, so that no other ones fit.
        ("0.5.9", (2, 30, 58), (1, 29, 57)),
        ("0.5.9", (4, 12, 20), None),
        ("0.5.11", (4, 12, 20), (3, 11, 19)),
        ("0.5.12", (2, 30, 58), (1, 29, 57)),
        ("0.5.13", (2, 30, 58), (2, 30, 58)),
        # A first id of 1 is raised, and a first id of 0 is not: no ids begin with boundary 1.
        ("0.5.13", (1, 3, 31), None),
        ("0.5.12", (0, 3, 31), None),
        ("0.5.14", (0, 3, 31), (0, 3, 31)),
        ("0.5.23", (2, 30, 61), None),
    ],
)
def test_ids_that_fit(
    drafts: dict[str, Facts], release: str, boundaries: tuple[int, ...], ids: tuple[int, ...] | None
) -> None:
    assert fitting_ids(drafts["deepseek"], contracts()["sglang"], release, boundaries) == ids


def test_ids_that_fit_without_cuda_graphs(drafts: dict[str, Facts]) -> None:
    found = fitting_ids(drafts["deepseek"], contracts()["sglang"], "0.5.9", (4, 12, 20), parse_launch(LAUNCH))
    assert found == (3, 11, 19)


def test_no_ids_fit_where_the_wrapper_is_refused(drafts: dict[str, Facts]) -> None:
    assert fitting_ids(drafts["kimi"], contracts()["sglang"], "0.5.9", (2, 30, 58)) is None
    assert fitting_ids(drafts["kimi"], contracts()["sglang"], "0.5.10", (2, 30, 58)) == (1, 29, 57)


def test_no_ids_fit_where_nothing_is_known_of_the_captured_layers() -> None:
    facts = facts_of(TRAINERS / "mo_eagle3_llama", None)
    assert fitting_ids(facts, contracts()["sglang"], "0.5.23", (2, 4, 5)) is None


@pytest.mark.parametrize(("boundaries", "ids"), [((2, 6), (1, 5)), ((1, 7), (0, 6)), ((0, 6), None)])
def test_ids_of_a_block_drafter_are_changed_where_they_stand(
    boundaries: tuple[int, ...], ids: tuple[int, ...] | None
) -> None:
    assert fitting_ids(trainer("mo_dflash_qwen3"), contracts()["sglang"], "0.5.23", boundaries) == ids


def rewritten(folder: Path, config: dict[str, Any], of: Facts) -> Facts:
    """The draft in `folder` with another config, read again from its files."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return replace(facts_of(folder, None), target=of.target)


@given(
    boundaries=st.lists(st.integers(0, 61), min_size=3, max_size=3, unique=True).map(sorted).map(tuple),
    release=st.sampled_from([r for r in contracts()["sglang"].releases if r >= "0.5.4"]),
)
def test_ids_that_fit_capture_the_boundaries_once_they_are_written_down(
    drafts: dict[str, Facts], tmp_path_factory: pytest.TempPathFactory, boundaries: tuple[int, ...], release: str
) -> None:
    facts, contract = drafts["deepseek"], contracts()["sglang"]
    ids = fitting_ids(facts, contract, release, boundaries)
    for candidate in (boundaries, tuple(b - 1 for b in boundaries)):
        again = draft(tmp_path_factory.mktemp("again") / "draft", candidate)
        plan = load_plan(replace(facts_of(again, None), target=facts.target), contract, release)
        fits = plan.outcome != "refused" and all(b == boundaries for b in plan.captured.values())
        if candidate == ids:
            assert fits
        elif ids is None:
            assert not fits


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("name", ["mo_eagle3_llama", "sf_eagle3_llama_sglang"])
def test_trained_boundaries_that_fit_are_captured_when_written_down(tmp_path: Path, name: str, engine: str) -> None:
    facts, contract = trainer(name), contracts()[engine]
    config = json.loads((TRAINERS / name / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "model.safetensors").write_bytes((TRAINERS / name / "model.safetensors").read_bytes())
    for version in contract.releases:
        ids = fitting_ids(facts, contract, version, (2, 4, 5))
        if ids is None:
            continue
        changed = config | {IDS_KEY: ids, "eagle_config": {**config.get("eagle_config", {}), IDS_KEY: ids}}
        plan = load_plan(rewritten(tmp_path, changed, facts), contract, version)
        assert {b for b in plan.captured.values() if b is not None} == {(2, 4, 5)}
