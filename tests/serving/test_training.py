"""The boundaries that a draft was trained on: what its files prove, what its writer means, what stays open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from story_drafts import TRAINERS, draft, facts_of, target, trainer

from ckptdoctor.errors import UsageError
from ckptdoctor.facts import Facts
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.serving import contracts
from ckptdoctor.serving.provenance import NOTHING_SAID, Provenance, provenance_of
from ckptdoctor.serving.training import Trained, is_neither, trained_boundaries

DEPTH = 61
KNOWN = knowledge().writers
WRITERS = sorted(KNOWN)
# Those whose ids in a config are their own: the others write none.
RECORDING = [name for name in WRITERS if KNOWN[name].conventions["records_ids"] != "never"]
COUNTS = {name: KNOWN[name].conventions["aux_ids"] for name in RECORDING}
CHANGED = "the release that captured decides: SGLang 0.5.13 changed it for DeepseekV3ForCausalLM"
Make = Callable[..., Facts]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """An EAGLE-3 draft with ids, of a target of 61 layers that every engine counts in one way."""
    folder = tmp_path_factory.mktemp("training")
    of = target(folder / "target", "LlamaForCausalLM", DEPTH, "llama")
    return facts_of(draft(folder / "draft", [3, 7, 11]), of)


@pytest.fixture(scope="module")
def written(base: Facts) -> Make:
    return lambda ids, by="unknown": _with(base, ids, by)


@pytest.fixture(scope="module")
def for_deepseek(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """The same for a target whose ids SGLang took for layers up to 0.5.12."""
    folder = tmp_path_factory.mktemp("deepseek")
    of = target(folder / "target", "DeepseekV3ForCausalLM", DEPTH, "deepseek_v3")
    made = facts_of(draft(folder / "draft", [3, 7, 11]), of)
    return lambda ids, by="unknown": _with(made, ids, by)


def told(facts: Facts, tool: str | None = None, release: str | None = None) -> Trained:
    return trained_boundaries(facts, provenance_of(tool, release))


def _with(base: Facts, ids: Sequence[int] | None, writer: str) -> Facts:
    """`base` with other ids, from another writer."""
    aux = base.draft.aux
    chosen = None if ids is None else tuple(ids)
    sources = () if chosen is None else (replace(aux.sources[0], ids=chosen),)
    key = None if chosen is None else aux.key
    known = replace(base.draft.writer, id=writer)
    return replace(
        base, draft=replace(base.draft, aux=replace(aux, ids=chosen, key=key, sources=sources), writer=known)
    )


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


# --- where the meaning changed between releases ---------------------------------------------------------------------


@pytest.mark.parametrize("writer", ["specforge", "torchspec"])
@pytest.mark.parametrize(
    ("ids", "first"), [([2, 30, 58], (2, 30, 58)), ([5, 20, 40], (6, 21, 41)), ([3, 31, 59], (4, 32, 60))]
)
def test_a_tool_that_hands_ids_to_sglang_does_not_say_what_they_mean_for_such_a_target(
    for_deepseek: Make, writer: str, ids: list[int], first: tuple[int, ...]
) -> None:
    same, shifted = tuple(ids), tuple(i + 1 for i in ids)
    for found in (trained_boundaries(for_deepseek(ids, writer)), told(for_deepseek(ids), writer)):
        assert (found.boundaries, found.certain, set(found.readings)) == (first, False, {same, shifted})
        assert found.because == CHANGED


def test_the_first_id_1_means_the_same_in_every_release(for_deepseek: Make) -> None:
    found = told(for_deepseek([1, 29, 57]), "specforge")
    assert (found.boundaries, found.certain) == ((2, 30, 58), True)


def test_an_unknown_writer_may_have_captured_with_either_release(for_deepseek: Make) -> None:
    found = trained_boundaries(for_deepseek([2, 30, 58]))
    assert (found.boundaries, found.certain, found.because) == ((2, 30, 58), False, CHANGED)
    assert found.readings == ((2, 30, 58), (3, 31, 59))


@pytest.mark.parametrize(("writer", "expected"), [("speculators", (2, 30, 58)), ("model-optimizer", (3, 31, 59))])
def test_a_tool_that_counts_by_itself_is_believed_for_every_target(
    for_deepseek: Make, writer: str, expected: tuple[int, ...]
) -> None:
    assert told(for_deepseek([2, 30, 58]), writer).readings == (expected,)


def test_without_the_target_a_tool_that_hands_ids_on_is_not_believed(tmp_path: Path) -> None:
    facts = facts_of(draft(tmp_path / "draft", [2, 30, 58], num_target_layers=61), None)
    assert told(facts, "speculators").certain
    found = told(facts, "specforge")
    assert (found.certain, found.because) == (False, "which layers SGLang captures rests on the target (--target PATH)")


def test_torchspec_moves_the_ids_of_some_drafts_when_it_exports_them(tmp_path: Path) -> None:
    of = target(tmp_path / "target", "LlamaForCausalLM", DEPTH, "llama")
    exported = facts_of(draft(tmp_path / "draft", [5, 20, 40], model_type="kimi_k2"), of)
    found = told(exported, "torchspec")
    assert (found.boundaries, found.certain, found.readings) == (None, False, ((5, 20, 40), (6, 21, 41)))
    assert "adds one when it exports some drafts" in found.because


# --- --captured-with ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("release", "expected"),
    [("sglang==0.5.12", (3, 31, 59)), ("sglang==0.5.14", (2, 30, 58)), ("SGLang == 0.5.14+cu128", (2, 30, 58)),
     ("sglang==0.5.23", (2, 30, 58)), ("vllm==0.33.0", (2, 30, 58))],
)  # fmt: skip
def test_the_release_that_captured_says_what_the_ids_mean(
    for_deepseek: Make, release: str, expected: tuple[int, ...]
) -> None:
    found = told(for_deepseek([2, 30, 58]), None, release)
    assert (found.boundaries, found.certain, found.readings) == (expected, True, (expected,))
    assert found.because.endswith("captured them, and counts so")
    assert told(for_deepseek([2, 30, 58]), "specforge", release).certain is release.lower().startswith("sglang")


def test_an_entry_that_was_only_read_makes_it_likely(tmp_path: Path) -> None:
    of = target(tmp_path / "target", "Qwen3VLMoeForConditionalGeneration", DEPTH, "qwen3_vl_moe", wrapped_as="qwen3_vl")
    facts = facts_of(draft(tmp_path / "draft", [3, 7, 11]), of)
    (row,) = (
        r for r in contracts()["sglang"].targets["targets"] if "Qwen3VLMoeForConditionalGeneration" in r["classes"]
    )
    sure = row["ids_to_boundaries"][-1]["evidence"] == "executed"
    found = told(facts, None, "sglang==0.5.23")
    assert (found.boundaries, found.certain) == ((4, 8, 12), sure)


@pytest.mark.parametrize(
    ("release", "because"),
    [
        ("sglang==0.7", "nobody has read how SGLang 0.7 counts layers"),
        ("vllm==0.8.0", "nobody has read how vLLM 0.8.0 counts layers"),
        ("sglang==0.5.2", "SGLang 0.5.2 captures no layers in DeepseekV3ForCausalLM"),
        ("llama.cpp==b9606", "llama.cpp b9606 takes no ids for DeepseekV3ForCausalLM"),
    ],
)
def test_a_release_that_says_nothing_leaves_both_readings(for_deepseek: Make, release: str, because: str) -> None:
    found = told(for_deepseek([2, 30, 58]), None, release)
    assert (found.boundaries, found.certain) == ((2, 30, 58), False)
    assert found.readings == ((2, 30, 58), (3, 31, 59))
    assert found.because == because


def test_a_target_that_the_contract_does_not_know_leaves_both_readings(tmp_path: Path) -> None:
    of = target(tmp_path / "target", "NobodysForCausalLM", DEPTH, "nobodys")
    found = told(facts_of(draft(tmp_path / "draft", [3, 7, 11]), of), None, "sglang==0.5.14")
    assert (found.boundaries, found.certain) == (None, False)
    assert found.because == "how SGLang counts the layers of NobodysForCausalLM is not in its contract"


def test_two_statements_that_contradict_each_other_decide_nothing(for_deepseek: Make) -> None:
    for found in (
        told(for_deepseek([2, 30, 58]), "speculators", "sglang==0.5.12"),
        told(for_deepseek([2, 30, 58], "speculators"), None, "sglang==0.5.12"),
    ):
        assert (found.certain, found.contested) == (False, True)
        assert found.readings == ((2, 30, 58), (3, 31, 59))
        assert found.because == (
            "speculators means boundaries [2, 30, 58] by these ids, and SGLang 0.5.12 captures [3, 31, 59] for them"
        )


def test_ids_that_the_release_could_not_have_been_given_are_read_by_the_rest(for_deepseek: Make) -> None:
    found = told(for_deepseek([-1, 2, 30]), None, "sglang==0.5.14")
    assert (found.boundaries, found.certain) == ((0, 3, 31), True)


@pytest.mark.parametrize(
    ("release", "says"),
    [("tgi==3.0", "unknown engine 'tgi'"), ("sglang", "say the release too (sglang=="), ("sglang==new", "no release")],
)
def test_what_is_no_release_of_a_known_engine_is_refused(release: str, says: str) -> None:
    with pytest.raises(UsageError) as told_so:
        provenance_of(None, release)
    assert says in str(told_so.value)


def test_block_ids_are_counted_by_the_release_too() -> None:
    facts = trainer("mo_dflash_qwen3")
    assert told(facts, None, "sglang==0.5.23") == Trained(
        (2, 6), True, ((2, 6),), "SGLang 0.5.23 captured them, and counts so"
    )
    # vLLM 0.20 took the numbers of layers for boundaries, as far as its source was read.
    found = told(
        replace(facts, draft=replace(facts.draft, writer=replace(facts.draft.writer, id="unknown"))),
        None,
        "vllm==0.20.2",
    )
    assert (found.boundaries, found.certain, found.readings) == ((1, 5), False, ((1, 5), (2, 6)))


def test_nothing_said_is_the_same_as_no_option() -> None:
    assert provenance_of() == NOTHING_SAID == Provenance()


def test_neither_reading_is_what_no_way_of_counting_gives() -> None:
    assert is_neither(((3, 7, 11), (4, 8, 12)), (2, 30, 58))
    assert not is_neither(((3, 7, 11), (4, 8, 12)), (4, 8, 12))
    assert not is_neither((), (2, 30, 58))


# --- the rest -------------------------------------------------------------------------------------------------------


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
    found = told(_with(base, ids, writer), with_writer)
    assert set(found.readings) <= {same, shifted}
    assert found.boundaries in (*found.readings, None)
    assert found.because
    if found.certain:
        assert found.readings == (found.boundaries,)
