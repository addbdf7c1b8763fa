"""The boundaries that a draft was trained on: what its files prove, what its writer means, what stays open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from story_drafts import DEPTH, TRAINERS, draft, facts_of, told, trainer, with_ids

from ckptdoctor.facts import Facts
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.serving.layers.training import Trained, trained_boundaries

KNOWN = knowledge().writers
WRITERS = sorted(KNOWN)


# Those whose ids in a config are their own: the others write none.
RECORDING = [name for name in WRITERS if KNOWN[name].conventions["records_ids"] != "never"]
COUNTS = {name: KNOWN[name].conventions["aux_ids"] for name in RECORDING}
Make = Callable[..., Facts]


@pytest.fixture(scope="module")
def written(base: Facts) -> Make:
    return lambda ids, by="unknown": with_ids(base, ids, by)


@pytest.mark.parametrize(
    ("name", "boundaries", "certain", "because"),
    [
        ("spec_dflash_qwen3", (2, 4, 5), True, "aux_hidden_state_layer_ids holds boundaries"),
        ("mo_dflash_qwen3", (2, 6), True, "dflash_config.target_layer_ids names the layers whose output is taken"),
        ("sf_dspark_qwen3", (2, 5, 7), True, "dflash_config.target_layer_ids names the layers whose output is taken"),
        ("sf_eagle3_llama_sglang", (2, 4, 5), False, "no ids are recorded; this is the default of SpecForge"),
        ("sf_peagle_qwen3", (2, 4, 5), False, "no ids are recorded; this is the default of SpecForge"),
        (
            "eagle_ref_eagle3_safetensors", (2, 4, 5), False,
            "no ids are recorded; this is the default of EAGLE reference",
        ),
    ],
)  # fmt: skip
def test_real_drafts(name: str, boundaries: tuple[int, ...], certain: bool, because: str) -> None:
    assert trained_boundaries(trainer(name)) == Trained(boundaries, certain, (boundaries,), because)


@pytest.mark.parametrize(
    ("name", "readings", "because"),
    [
        ("mo_eagle3_llama", ((2, 4, 5), (1, 3, 4)), "Model-Optimizer names the layers whose output is taken"),
        ("spec_eagle3_llama", ((2, 4, 5), (3, 5, 6)), "speculators writes boundaries"),
    ],
)
def test_real_drafts_whose_writer_is_a_sign_and_no_proof(
    name: str, readings: tuple[tuple[int, ...], ...], because: str
) -> None:
    assert trained_boundaries(trainer(name)) == Trained(readings[0], False, readings, because)


def test_a_draft_that_takes_the_final_state_has_no_boundaries() -> None:
    found = trained_boundaries(trainer("spec_mtp_qwen3_5"))
    assert found == Trained(None, True, because="it takes the target's final state")


@pytest.mark.parametrize("writer", RECORDING)
def test_ids_that_prove_nothing_are_read_as_their_writer_counts(written: Make, writer: str) -> None:
    same, shifted = (3, 7, 11), (4, 8, 12)
    first, other = (same, shifted) if COUNTS[writer] == "boundary" else (shifted, same)
    found = trained_boundaries(written([3, 7, 11], writer))
    assert (found.boundaries, found.certain, found.readings) == (first, False, (first, other))
    assert KNOWN[writer].name in found.because


def test_both_ways_of_counting_are_among_the_writers() -> None:
    assert COUNTS == {
        "automodel": "layer_output", "model-optimizer": "layer_output", "specforge": "layer_output",
        "speculators": "boundary", "torchspec": "layer_output",
    }  # fmt: skip


def test_without_a_known_writer_both_readings_stay_open(written: Make) -> None:
    found = trained_boundaries(written([3, 7, 11]))
    assert (found.boundaries, found.certain) == (None, False)
    assert found.readings == ((3, 7, 11), (4, 8, 12))
    assert found.because == "two ways of counting are possible, and the writer is not known"


@pytest.mark.parametrize("writer", ["angelslim", "eagle"])
def test_ids_in_the_draft_of_a_writer_that_writes_none_are_somebody_elses(written: Make, writer: str) -> None:
    for found in (trained_boundaries(written([3, 7, 11], writer)), told(written([3, 7, 11]), writer)):
        assert (found.boundaries, found.certain) == (None, False)
        assert found.readings == ((3, 7, 11), (4, 8, 12))
        assert "writes no ids, so somebody added these" in found.because


@pytest.mark.parametrize("writer", [*WRITERS, "unknown"])
@pytest.mark.parametrize(
    ("ids", "boundaries", "because"),
    [
        ([2, 30, DEPTH], (2, 30, 61), "an id equals the depth, which only boundaries can"),
        ([DEPTH], (61,), "an id equals the depth, which only boundaries can"),
        ([-1, 2, 30], (0, 3, 31), "an id is negative, which only layer numbers can be"),
        ([-1, 29, 57], (0, 30, 58), "an id is negative, which only layer numbers can be"),
    ],
)
def test_ids_that_prove_their_meaning(
    written: Make, writer: str, ids: list[int], boundaries: tuple[int, ...], because: str
) -> None:
    proven = Trained(boundaries, True, (boundaries,), because)
    assert trained_boundaries(written(ids, writer)) == proven
    # No word of a person makes such numbers mean what they cannot.
    assert told(written(ids), "speculators") == told(written(ids), "specforge") == proven


@pytest.mark.parametrize("writer", [*WRITERS, "unknown"])
@pytest.mark.parametrize(
    ("ids", "first", "other"),
    [([2, 30, 58], (2, 30, 58), (3, 31, 59)), ([58, 2, 30], (2, 30, 58), (3, 31, 59)),
     ([1, 29, 57], (2, 30, 58), (1, 29, 57))],
)  # fmt: skip
def test_the_default_shape_is_likely_and_never_a_proof(
    written: Make, writer: str, ids: list[int], first: tuple[int, ...], other: tuple[int, ...]
) -> None:
    found = trained_boundaries(written(ids, writer))
    assert not found.certain
    assert set(found.readings) == {first, other}
    if COUNTS.get(writer) == "layer_output" and first == (2, 30, 58) == tuple(sorted(ids)):
        assert found.contested
        assert found.readings == (other, first)
        assert "but the ids are the default boundaries" in found.because
    else:
        assert (found.boundaries, found.readings, found.contested) == (first, (first, other), False)


def test_ids_that_prove_opposite_meanings_prove_nothing(written: Make) -> None:
    found = trained_boundaries(written([-1, 30, DEPTH], "specforge"))
    assert (found.boundaries, found.certain) == (None, False)


@pytest.mark.parametrize("writer", RECORDING)
@pytest.mark.parametrize("ids", [[3, 7, 11], [2, 30, 58], [1, 29, 57]])
@pytest.mark.parametrize("recognised", ["specforge", "speculators", "unknown"])
def test_trained_with_decides_whatever_was_recognised(
    written: Make, writer: str, ids: list[int], recognised: str
) -> None:
    expected = tuple(ids) if COUNTS[writer] == "boundary" else tuple(i + 1 for i in ids)
    found = told(written(ids, recognised), writer)
    assert found == Trained(expected, True, (expected,), f"{KNOWN[writer].name} counts so")


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_trained_with_does_not_change_what_a_key_means() -> None:
    for name, boundaries in (("spec_dflash_qwen3", (2, 4, 5)), ("mo_dflash_qwen3", (2, 6))):
        for writer in WRITERS:
            assert told(trainer(name), writer).boundaries == boundaries


@pytest.mark.parametrize("writer", WRITERS)
def test_without_ids_the_default_of_the_writer_is_taken(written: Make, writer: str) -> None:
    expected = (2, 31, 59) if writer == "angelslim" else (2, 30, 58)
    by_files, by_word = trained_boundaries(written(None, writer)), told(written(None), writer)
    assert by_files == by_word
    assert (by_files.boundaries, by_files.certain, by_files.readings) == (expected, False, (expected,))
    assert by_files.because == f"no ids are recorded; this is the default of {KNOWN[writer].name}"


def test_without_a_target_nothing_can_be_said(tmp_path: Path) -> None:
    found = trained_boundaries(facts_of(draft(tmp_path / "draft", [2, 30, 58]), None))
    assert found == Trained(None, False, because="the target's depth is not known")


def test_the_depth_may_be_recorded_in_the_draft(tmp_path: Path) -> None:
    found = trained_boundaries(facts_of(draft(tmp_path / "draft", [2, 30, 58], num_target_layers=61), None))
    assert found.boundaries == (2, 30, 58)


def test_a_block_drafter_without_ids_has_no_default() -> None:
    facts = trainer("mo_dflash_qwen3")
    bare = replace(facts, draft=replace(facts.draft, aux=replace(facts.draft.aux, ids=None, key=None, sources=())))
    assert trained_boundaries(bare) == Trained(None, False, because="no ids are recorded")


@pytest.mark.parametrize("name", sorted(p.parent.name for p in TRAINERS.glob("*/model.safetensors")))
def test_the_first_reading_is_the_one_that_is_taken(name: str) -> None:
    for writer in (None, *WRITERS):
        found = told(trainer(name), writer)
        if found.boundaries is not None:
            assert found.readings[0] == found.boundaries


@given(
    ids=st.lists(st.integers(-3, DEPTH + 3), min_size=1, max_size=6),
    writer=st.sampled_from([*WRITERS, "unknown"]),
    with_writer=st.sampled_from([None, *WRITERS]),
)
def test_any_ids_have_at_most_the_two_readings(
    base: Facts, ids: list[int], writer: str, with_writer: str | None
) -> None:
    same = tuple(sorted(ids))
    shifted = tuple(i + 1 for i in same)
    found = told(with_ids(base, ids, writer), with_writer)
    assert set(found.readings) <= {same, shifted}
    assert found.boundaries in (*found.readings, None)
    assert found.because
    if found.certain:
        assert found.readings == (found.boundaries,)
