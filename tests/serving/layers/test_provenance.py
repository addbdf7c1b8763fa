"""What is said of a training run decides the boundaries, where the meaning of ids changed between releases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from story_drafts import DEPTH, draft, facts_of, target, told, trainer, with_ids

from ckptdoctor.errors import UsageError
from ckptdoctor.facts import Facts
from ckptdoctor.serving import contracts
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance, provenance_of
from ckptdoctor.serving.layers.training import Trained, is_neither, trained_boundaries

CHANGED = "the release that captured decides: SGLang 0.5.13 changed it for DeepseekV3ForCausalLM"
Make = Callable[..., Facts]


@pytest.fixture(scope="module")
def for_deepseek(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """The same for a target whose ids SGLang took for layers up to 0.5.12."""
    folder = tmp_path_factory.mktemp("deepseek")
    of = target(folder / "target", "DeepseekV3ForCausalLM", DEPTH, "deepseek_v3")
    made = facts_of(draft(folder / "draft", [3, 7, 11]), of)
    return lambda ids, by="unknown": with_ids(made, ids, by)


# --- where the meaning changed between releases -----------------------------------------------------------------------


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


# --- --captured-with --------------------------------------------------------------------------------------------------


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
