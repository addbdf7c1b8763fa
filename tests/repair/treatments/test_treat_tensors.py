"""Treatments that leave tensors out, copy them or add zeros: what they do, and what they must not touch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from treatment_cases import Draft, Tensor, answer, decode, draft_of, floats, integers, map_of, plan, put, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.repair.edits import AddTensor, CopyTensor, DropTensor, RewriteIndex
from ckptdoctor.repair.plan.case import Proposal
from ckptdoctor.repair.support.alike import alike


def tensor(*shape: int, value: float = 0.5) -> Tensor:
    return floats(np.full(shape, value), "BF16")


def dropped(told: Proposal | str) -> list[tuple[str, str | None]]:
    assert isinstance(told, Proposal), told
    assert all(isinstance(edit, DropTensor) for edit in told.edits)
    return [(edit.name, edit.file) for edit in told.edits if isinstance(edit, DropTensor)]


# --- drop-tensors -------------------------------------------------------------------------------------------------


def test_copies_of_the_target_are_left_out_all_of_them(tmp_path: Path) -> None:
    draft = draft_of()
    names = [f"target_model.model.layers.{n}.mlp.up_proj.weight" for n in range(75)]
    draft.tensors |= dict.fromkeys(names, tensor(4, 4))
    told = answer(write(draft, tmp_path), "KEY012")
    assert dropped(told) == [(name, None) for name in sorted(names)]
    assert isinstance(told, Proposal)
    assert told.safety == "safe"


def test_rotary_buffers_are_left_out_when_they_are_selected(tmp_path: Path) -> None:
    draft = draft_of("eagle-eagle3")
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY013")
    assert {name for name, _ in dropped(told)} == {n for n in draft.tensors if n.endswith("inv_freq")}
    assert [s.treatment for s in plan(folder).steps] == []
    assert "drop-tensors" in [s.treatment for s in plan(folder, select=("KEY013",)).steps]


def test_strangers_are_left_out_on_the_assumption_that_they_are_the_trainers(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors |= {"loss_head.weight": tensor(64), "loss_head.scale": tensor(64)}
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY010")
    assert dropped(told) == [("loss_head.scale", None), ("loss_head.weight", None)]
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"
    assert told.assumption == "They belong to the trainer, and the draft computes nothing with them."
    assert plan(folder).steps == ()


@pytest.mark.parametrize(
    ("rule", "extra", "lost", "words"),
    [
        ("KEY010", "normalisation.weight", r"norm.weight", "may be"),
        ("KEY010", "loss_head.weight", "midlayer.post_attention_layernorm.weight", "may be what is left of it"),
        ("KEY010", "loss_head.weight", "midlayer.self_attn.k_proj.weight", "may be what is left of it"),
        ("KEY010", "loss_head.weight", "lm_head.weight", "lacks lm_head.weight"),
        ("KEY012", "verifier_lm_head.weight", "lm_head.weight", "lacks lm_head.weight"),
        ("KEY012", "target_model.norm.weight", "norm.weight", "may be what is left of it"),
        ("KEY010", "midlayer.self_attn.sinks", None, "inside a decoder layer"),
        ("KEY010", "fc.lora_A.weight", None, "low-rank adapter"),
        ("KEY010", "base_model.model.midlayer.self_attn.q_proj.lora_B.weight", None, "low-rank adapter"),
    ],
)
def test_what_may_be_a_part_of_the_draft_is_not_left_out(
    rule: str, extra: str, lost: str | None, words: str, tmp_path: Path
) -> None:
    draft = draft_of()
    draft.tensors[extra] = tensor(64)
    if lost is not None:
        del draft.tensors[lost]
    folder = write(draft, tmp_path)
    told = answer(folder, rule)
    assert isinstance(told, str)
    assert words in told
    assert all(s.treatment != "drop-tensors" for s in plan(folder, unsafe=True).steps)


def test_what_stands_under_the_prefix_of_the_draft_itself_is_left_out_as_an_assumption(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors = {f"base_model.model.{name}": t for name, t in draft.tensors.items()}
    draft.tensors["base_model.model.gate.weight"] = tensor(64)
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY010")
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"
    assert "drop-tensors" not in [step.treatment for step in plan(folder).steps]


# --- drop-second-name ---------------------------------------------------------------------------------------------


def twice(draft: Draft, old: str = "midlayer.", new: str = "layers.0.") -> Draft:
    draft.tensors |= {n.replace(old, new, 1): t for n, t in draft.tensors.items() if n.startswith(old)}
    return draft


def test_of_two_layouts_with_equal_bytes_one_goes(tmp_path: Path) -> None:
    draft = twice(draft_of())
    folder = write(draft, tmp_path)
    made = plan(folder)
    (step,) = made.steps
    assert (step.treatment, step.safety) == ("drop-second-name", "safe")
    # The older releases know midlayer alone.
    assert {e.name for e in step.edits} == {n for n in draft.tensors if n.startswith("layers.0.")}  # type: ignore[union-attr]
    assert set(made.after.facts.tensors) == set(draft_of().tensors)


@pytest.mark.parametrize("engine", ["sglang==0.5.11", "sglang==0.5.23", "vllm==0.33.0"])
def test_a_named_engine_serves_what_is_left(engine: str, tmp_path: Path) -> None:
    made = plan(write(twice(draft_of()), tmp_path), engine)
    assert [p.outcome for p in made.after.plans] == ["served"]
    assert set(made.after.facts.tensors) == set(draft_of().tensors)


def test_the_kind_of_name_that_most_tensors_have_is_kept(tmp_path: Path) -> None:
    draft = draft_of("speculators-eagle3", layers=2)
    draft.tensors["model.norm.weight"] = draft.tensors["norm.weight"]
    draft.tensors["midlayer.hidden_norm.weight"] = draft.tensors["layers.0.hidden_norm.weight"]
    told = answer(write(draft, tmp_path), "KEY014")
    assert set(dropped(told)) == {("midlayer.hidden_norm.weight", None), ("model.norm.weight", None)}


@pytest.mark.parametrize("change", ["last byte", "dtype", "shape"])
def test_two_names_with_different_values_both_stay(change: str, tmp_path: Path) -> None:
    draft = twice(draft_of())
    name = "layers.0.mlp.down_proj.weight"
    old = draft.tensors[name]
    match change:
        case "last byte":
            draft.tensors[name] = replace(old, data=old.data[:-1] + bytes([old.data[-1] ^ 1]))
        case "dtype":
            draft.tensors[name] = replace(old, dtype="F16")
        case "shape":
            draft.tensors[name] = replace(old, shape=old.shape[::-1])
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY014")
    assert isinstance(told, str)
    assert "hold different values. The training run decides" in told
    assert "layers.0.mlp.down_proj.weight" in told
    assert all(s.treatment != "drop-second-name" for s in plan(folder, unsafe=True).steps)
    # A plain scan reads no weights and says what it would do.
    assert isinstance(answer(folder, "KEY014", reads=False), Proposal)


# --- drop-second-copy ---------------------------------------------------------------------------------------------


def in_two_files(folder: Path, second: dict[str, Tensor], index: str | None = None) -> Path:
    draft = draft_of()
    write(draft, folder)
    put(folder / "old.safetensors", second)
    if index is not None:
        places = dict.fromkeys(draft.tensors, "model.safetensors") | dict.fromkeys(second, index)
        text = json.dumps({"metadata": {}, "weight_map": places | {"norm.weight": "old.safetensors"}})
        (folder / "model.safetensors.index.json").write_text(text, encoding="utf-8")
    return folder


def test_second_copies_with_equal_bytes_are_left_out_of_their_file(tmp_path: Path) -> None:
    tensors = draft_of().tensors
    second = {name: tensors[name] for name in ("fc.weight", "norm.weight")}
    folder = in_two_files(tmp_path, second)
    (fault,) = [f for f in open_checkpoint(str(folder)).faults if f.kind == "tensor_in_two_files"]
    told = answer(folder, "ART017")
    assert dropped(told) == [("fc.weight", fault.file), ("norm.weight", fault.file)]
    made = plan(folder)
    assert "ART017" not in {f.rule for f in made.after.judgement.findings}
    assert set(made.after.facts.tensors) == set(tensors)


def test_an_index_follows_the_copy_that_is_left(tmp_path: Path) -> None:
    norm = draft_of().tensors["norm.weight"]
    folder = in_two_files(tmp_path, {"norm.weight": norm}, index="old.safetensors")
    told = answer(folder, "ART017")
    assert isinstance(told, Proposal)
    assert told.edits[-1] == RewriteIndex("model.safetensors.index.json")


def test_second_copies_with_other_values_both_stay(tmp_path: Path) -> None:
    folder = in_two_files(tmp_path, {"norm.weight": tensor(64)})
    told = answer(folder, "ART017")
    assert told == (
        "norm.weight holds different values in model.safetensors and in old.safetensors. The training run decides"
        " which of the two files is the newer export; remove the other one."
    )
    assert all(s.treatment != "drop-second-copy" for s in plan(folder, unsafe=True).steps)


def test_tensors_are_compared_to_the_last_byte_in_chunks(tmp_path: Path) -> None:
    raw = bytes(np.random.default_rng(0).integers(0, 256, 3 << 20, dtype=np.uint8))
    put(tmp_path / "a.safetensors", {"a": Tensor("U8", (len(raw),), raw), "n": tensor(1)})
    put(
        tmp_path / "b.safetensors",
        {"b": Tensor("U8", (len(raw),), raw), "c": Tensor("U8", (len(raw),), raw[:-1] + bytes([raw[-1] ^ 1]))},
    )
    checkpoint = open_checkpoint(str(tmp_path))
    a, b, c = (checkpoint.tensors[name] for name in "abc")
    assert alike(checkpoint, a, b) is True
    assert alike(checkpoint, a, c) is False
    assert alike(checkpoint, a, replace(b, shape=(1, len(raw)))) is False
    assert not isinstance(alike(checkpoint, a, replace(b, start=None)), bool)


# --- copy-from-target ---------------------------------------------------------------------------------------------


def target_with(folder: Path, tensors: dict[str, Tensor], **config: Any) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({**(draft_of().target or {}), **config}), encoding="utf-8")
    put(folder / "model.safetensors", tensors)
    return folder


def headless(dialect: str = "specforge-eagle3") -> Draft:
    draft = draft_of(dialect)
    del draft.tensors["lm_head.weight"]
    return draft


@pytest.mark.parametrize("order", ["ascending", "frequency"])
def test_the_rows_of_the_targets_head_come_in_the_order_of_the_map(order: str, tmp_path: Path) -> None:
    draft = draft_of("model-optimizer-eagle3", map_order=order)
    del draft.tensors["lm_head.weight"]
    target = target_with(
        tmp_path / "t", {"lm_head.weight": tensor(512, 64), "model.embed_tokens.weight": tensor(512, 64)}
    )
    told = answer(write(draft, tmp_path / "d"), "KEY008", target=target)
    assert isinstance(told, Proposal), told
    (edit,) = told.edits
    assert isinstance(edit, CopyTensor)
    targets = decode(draft.tensors["d2t"]) + np.arange(128)
    assert (edit.name, edit.source.name, edit.rows) == ("lm_head.weight", "lm_head.weight", tuple(targets))
    assert edit.path == target / "model.safetensors"
    assert (told.safety, told.assumption) == ("unsafe", "The draft was trained with the target's own head, frozen.")


def test_a_whole_head_is_copied_and_a_padded_one_is_cut(tmp_path: Path) -> None:
    folder = write(headless("specforge-eagle3-fullvocab"), tmp_path / "d")
    for rows, wanted in ((512, None), (520, tuple(range(512)))):
        target = target_with(tmp_path / f"t{rows}", {"lm_head.weight": tensor(rows, 64)})
        told = answer(folder, "KEY009", target=target)
        assert isinstance(told, Proposal), told
        assert isinstance(told.edits[0], CopyTensor)
        assert told.edits[0].rows == wanted


def without_embedding() -> Draft:
    draft = draft_of("speculators-eagle3")
    del draft.tensors["embed_tokens.weight"]
    return draft


def test_an_engine_that_does_not_share_gets_the_targets_embedding(tmp_path: Path) -> None:
    folder = write(without_embedding(), tmp_path / "d")
    target = target_with(tmp_path / "t", {"model.embed_tokens.weight": tensor(512, 64)})
    told = answer(folder, "KEY022", "mlx-vlm==0.6.5", target=target)
    assert isinstance(told, Proposal), told
    (edit,) = told.edits
    assert isinstance(edit, CopyTensor)
    assert (edit.name, edit.source.name, edit.rows) == ("embed_tokens.weight", "model.embed_tokens.weight", None)
    assert told.safety == "unsafe"


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({}, "No embedding of the target"),
        ({"model.embed_tokens.weight": tensor(512, 32)}, "has 32 values"),
        ({"model.embed_tokens.weight": tensor(600, 64)}, "has 600 rows"),
        ({"lm_head.weight": tensor(512, 64)}, "No embedding of the target"),
    ],
)
def test_no_embedding_is_copied_from_a_target_that_cannot_give_it(
    tensors: dict[str, Tensor], said: str, tmp_path: Path
) -> None:
    target = target_with(tmp_path / "t", tensors or {"norm.weight": tensor(64)})
    told = answer(write(without_embedding(), tmp_path / "d"), "KEY022", "mlx-vlm==0.6.5", target=target)
    assert isinstance(told, str)
    assert said in told


def test_a_tied_target_gives_its_embedding(tmp_path: Path) -> None:
    target = target_with(tmp_path / "t", {"model.embed_tokens.weight": tensor(512, 64)}, tie_word_embeddings=True)
    told = answer(write(headless(), tmp_path / "d"), "KEY008", target=target)
    assert isinstance(told, Proposal), told
    assert isinstance(told.edits[0], CopyTensor)
    assert told.edits[0].source.name == "model.embed_tokens.weight"


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        (None, "Pass --target with a folder that holds its weights"),
        (
            {"lm_head.weight": tensor(512, 96)},
            "A row of the target's head has 96 values, and the draft's states have 64",
        ),
        ({"lm_head.weight": tensor(200, 64)}, "The target's head has 200 rows"),
        ({"lm_head.weight": integers(np.zeros((512, 64)), "I8")}, "it may be quantised"),
        ({"lm_head.qweight": integers(np.zeros((8, 64)), "I32")}, "it may be quantised"),
        ({"model.embed_tokens.weight": tensor(512, 64)}, "No head of the target was found"),
    ],
)
def test_no_head_is_copied_from_a_target_that_cannot_give_it(
    tensors: dict[str, Tensor] | None, words: str, tmp_path: Path
) -> None:
    target = None if tensors is None else target_with(tmp_path / "t", tensors)
    told = answer(write(headless(), tmp_path / "d"), "KEY008", target=target)
    assert isinstance(told, str)
    assert words in told


def test_a_whole_head_without_weights_names_the_other_way(tmp_path: Path) -> None:
    told = answer(write(headless("specforge-eagle3-fullvocab"), tmp_path), "KEY009")
    assert isinstance(told, str)
    assert "set draft_vocab_size to null" in told


@pytest.mark.parametrize("fault", ["absolute", "two readings", "stale", "no map", "short"])
def test_no_rows_are_chosen_by_a_map_in_doubt(fault: str, tmp_path: Path) -> None:
    draft = headless()
    match fault:
        case "absolute":
            map_of(draft, lambda d2t: d2t + np.arange(128))
        case "two readings":
            map_of(draft, lambda _: 2 * np.arange(128))
            del draft.tensors["t2d"]
        case "stale":
            draft.tensors["t2d"] = replace(draft.tensors["t2d"], data=draft.tensors["t2d"].data[::-1])
        case "no map":
            del draft.tensors["d2t"]
        case "short":
            map_of(draft, lambda d2t: d2t[:-8])
    target = target_with(tmp_path / "t", {"lm_head.weight": tensor(512, 64)})
    told = answer(write(draft, tmp_path / "d"), "KEY008", target=target)
    assert isinstance(told, str)
    assert "The map file of the training run decides" in told


# --- zero-biases --------------------------------------------------------------------------------------------------


def eagle1(**config: Any) -> Draft:
    draft = draft_of("eagle-eagle1")
    assert draft.config is not None
    draft.config |= {"architectures": ["LlamaForCausalLMEagle"], **config}
    return draft


def test_a_bias_that_an_engine_always_builds_becomes_zeros(tmp_path: Path) -> None:
    made = plan(write(eagle1(), tmp_path), "sglang==0.5.23", select=("zero-biases",))
    (step,) = made.steps
    assert step.edits == (AddTensor("fc.bias", "F16", (64,)),)
    assert step.safety == "safe"
    (after,) = made.after.plans
    assert (after.left_random, after.errors) == ((), ())
    assert "KEY020" not in {f.rule for f in made.after.judgement.findings}
    # Made once: the copy has nothing more to be filled.
    assert [s.treatment for s in made.steps].count("zero-biases") == 1


@pytest.mark.parametrize("field", ["bias", "attention_bias", "mlp_bias"])
def test_biases_that_the_config_declares_are_not_filled_with_zeros(field: str, tmp_path: Path) -> None:
    told = answer(write(eagle1(**{field: True}), tmp_path), "KEY020", "sglang==0.5.23")
    assert isinstance(told, str)
    assert f"config.json sets {field} to true" in told


def test_a_part_of_a_fused_bias_that_was_lost_is_not_zero(tmp_path: Path) -> None:
    draft = eagle1(architectures=["Qwen2ForCausalLMEagle"], model_type="qwen2")
    draft.tensors["layers.0.self_attn.q_proj.bias"] = floats(np.ones(64), "F16")
    told = answer(write(draft, tmp_path), "KEY020", "sglang==0.4.9")
    assert isinstance(told, str)
    assert "of which only some are stored" in told


def test_biases_of_fused_projections_are_stored_part_by_part(tmp_path: Path) -> None:
    draft = eagle1(architectures=["Qwen2ForCausalLMEagle"], model_type="qwen2")
    made = plan(write(draft, tmp_path), "sglang==0.4.9", select=("zero-biases",))
    edits = {e.name: e for s in made.steps for e in s.edits}  # type: ignore[union-attr]
    assert set(edits) == {"fc.bias", *(f"layers.0.self_attn.{p}_proj.bias" for p in "qkv")}
    assert edits["layers.0.self_attn.k_proj.bias"] == AddTensor("layers.0.self_attn.k_proj.bias", "F16", (32,))
    assert made.after.plans[0].left_random == ()


def test_no_zeros_where_weights_are_missing_too(tmp_path: Path) -> None:
    draft = eagle1()
    del draft.tensors["layers.0.mlp.down_proj.weight"]
    made = plan(write(draft, tmp_path), "sglang==0.5.23", select=("zero-biases",))
    assert "KEY020" not in {f.rule for f in made.before.judgement.findings}
    assert made.steps == ()
