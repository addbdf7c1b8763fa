"""Treatments of names and of what the draft is said to be: the exact edits, and above all what is left alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from treatment_cases import Draft, answer, draft_of, floats, plan, refusal, renames, settings, write

from ckptdoctor.facts import Facts
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.repair.edits import RenameTensor
from ckptdoctor.repair.plan.case import Case, Proposal, RefusedError
from ckptdoctor.repair.plan.reaching import Reach
from ckptdoctor.repair.support.renaming import all_fits
from ckptdoctor.repair.treatments.names import set_architecture, set_model_type, strip_prefix
from ckptdoctor.repair.treatments.names.untie_head import propose as untie
from ckptdoctor.serving import contracts

LAYER = (
    "hidden_norm", "input_layernorm", "mlp.down_proj", "mlp.gate_proj", "mlp.up_proj", "post_attention_layernorm",
    "self_attn.k_proj", "self_attn.o_proj", "self_attn.q_proj", "self_attn.v_proj",
)  # fmt: skip


def renamed(draft: Draft, old: str, new: str) -> Draft:
    """`draft` with every name that begins with `old` beginning with `new` instead."""
    draft.tensors = {new + n[len(old) :] if n.startswith(old) else n: t for n, t in draft.tensors.items()}
    return draft


def config(draft: Draft) -> dict[str, object]:
    assert draft.config is not None
    return draft.config


# --- strip-prefix -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "rule"),
    [("module.", "KEY001"), ("_orig_mod.module.", "KEY002"), ("model.model.", "KEY002"), ("model.", "KEY003")],
)
def test_a_prefix_is_taken_off_every_tensor_that_carries_it(prefix: str, rule: str, tmp_path: Path) -> None:
    names = list(draft_of().tensors)
    folder = write(renamed(draft_of(), "", prefix), tmp_path)
    if prefix == "_orig_mod.module.":  # two trainers, one after the other: no prefix stands twice
        rule = "KEY001"
    told = answer(folder, rule)
    assert renames(told) == {prefix + name: name for name in names}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    after = plan(folder).after
    assert set(after.facts.tensors) == set(names)
    assert {f.rule for f in after.judgement.findings} == {"AUX008"}


def test_tensors_without_the_prefix_keep_their_names(tmp_path: Path) -> None:
    draft = draft_of("automodel-eagle3")
    told = answer(write(draft, tmp_path), "KEY004")
    assert set(renames(told)) == {n for n in draft.tensors if n.startswith("model.")}
    assert "lm_head.weight" not in renames(told)


def test_the_note_on_a_model_prefix_is_followed_for_an_engine_that_needs_it_alone(tmp_path: Path) -> None:
    draft = draft_of()
    for part in ("midlayer.", "fc.", "norm."):
        renamed(draft, part, f"model.{part}")
    folder = write(draft, tmp_path)
    assert plan(folder).steps == ()
    assert plan(folder, "sglang==0.5.23").steps == ()
    found = plan(folder, "vllm==0.33.0")
    assert [s.treatment for s in found.steps] == ["strip-prefix"]
    assert [p.outcome for p in found.after.plans] == ["served"]


def test_a_name_that_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    draft = draft_of()
    draft.tensors["module.fc.weight"] = draft.tensors["fc.weight"]
    told = refusal(answer(write(draft, tmp_path), "KEY001"))
    assert "module.fc.weight would be called fc.weight, which is there already" in told


def test_nothing_is_left_without_a_name(tmp_path: Path) -> None:
    draft = renamed(draft_of(), "", "module.")
    draft.tensors["module."] = floats(np.zeros(4))
    assert "no name" in refusal(answer(write(draft, tmp_path), "KEY001"))


def test_a_prefix_that_a_named_release_looks_for_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No release that is known reads a model. alone; one that did would be worse off.
    monkeypatch.setattr(
        strip_prefix, "score", lambda _, facts: (any(n.startswith("model.") for n in facts.tensors) * -1,)
    )
    told = refusal(answer(write(draft_of("automodel-eagle3"), tmp_path), "KEY004", "sglang==0.5.23"))
    assert "sglang 0.5.23 looks for these names with 'model.'" in told


# --- rename-layer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["specforge-eagle3", "model-optimizer-eagle3"])
@pytest.mark.parametrize("engines", [(), ("sglang==0.5.9",), ("vllm==0.33.0",), ("sglang==0.5.9", "vllm==0.33.0")])
def test_a_layer_under_its_own_name_gets_the_one_most_releases_read(
    dialect: str, engines: tuple[str, ...], tmp_path: Path
) -> None:
    draft = renamed(renamed(draft_of(dialect), "midlayer.", "decoder."), "layers.0.", "decoder.")
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY005", *engines)
    assert renames(told) == {f"decoder.{n}.weight": f"midlayer.{n}.weight" for n in LAYER}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    after = plan(folder, *engines).after
    assert not {f.rule for f in after.judgement.findings} & {"KEY005", "KEY006", "KEY010", "KEY017", "SRV006"}


def test_a_missing_layer_of_several_gets_its_number(tmp_path: Path) -> None:
    draft = renamed(draft_of("speculators-eagle3", layers=2), "layers.1.", "second.")
    told = renames(answer(write(draft, tmp_path), "KEY005"))
    assert {new.rpartition(".")[0].split(".")[1] for new in told.values()} == {"1"}
    assert all(new.startswith("layers.1.") for new in told.values())


def test_the_prefix_around_the_layer_stays(tmp_path: Path) -> None:
    draft = renamed(draft_of("automodel-eagle3"), "model.layers.0.", "model.block.")
    assert set(renames(answer(write(draft, tmp_path), "KEY005")).values()) == {
        f"model.midlayer.{n}.weight" for n in LAYER
    }


def test_the_order_of_two_lost_layers_is_not_guessed(tmp_path: Path) -> None:
    draft = draft_of("speculators-eagle3", layers=2)
    folder = write(renamed(renamed(draft, "layers.0.", "a."), "layers.1.", "b."), tmp_path)
    told = refusal(answer(folder, "KEY005"))
    assert "guess" in told
    assert "the trainer's own checkpoint" in told


def test_two_stems_for_one_layer_are_not_chosen_from(tmp_path: Path) -> None:
    draft = renamed(draft_of(), "midlayer.", "decoder.")
    draft.tensors |= {n.replace("decoder.", "ema."): t for n, t in draft.tensors.items() if n.startswith("decoder.")}
    assert "decoder, ema lie about" in refusal(answer(write(draft, tmp_path), "KEY005"))


def test_a_layer_with_a_part_missing_is_left_alone(tmp_path: Path) -> None:
    draft = renamed(draft_of(), "midlayer.", "decoder.")
    del draft.tensors["decoder.hidden_norm.weight"]
    assert "would still lack layers.0.hidden_norm.weight" in refusal(answer(write(draft, tmp_path), "KEY005"))


def test_a_layer_of_another_shape_is_left_alone(tmp_path: Path) -> None:
    draft = renamed(draft_of(), "midlayer.", "decoder.")
    draft.tensors["decoder.mlp.down_proj.weight"] = floats(np.zeros((64, 96)))
    told = refusal(answer(write(draft, tmp_path), "KEY005"))
    assert "do not fit" in told
    assert "decoder.mlp.down_proj" not in told  # told by the name it would have


# --- rename-known -------------------------------------------------------------------------------------------------


def early_automodel() -> Draft:
    """An EAGLE-3 draft with the names of NeMo Automodel before NVIDIA-NeMo/Automodel#2235."""
    draft = draft_of("automodel-eagle3")
    for old, new in {
        "model.layers.0.input_layernorm.": "decoder.input_emb_layernorm.",
        "model.layers.0.hidden_norm.": "decoder.hidden_layernorm.",
        "model.layers.0.": "decoder.",
        "model.fc.": "hidden_proj.",
        "model.": "",
    }.items():
        renamed(draft, old, new)
    return draft


def test_the_private_names_of_a_trainer_become_those_of_the_engines(tmp_path: Path) -> None:
    folder = write(early_automodel(), tmp_path)
    told = answer(folder, "KEY021")
    found = renames(told)
    assert found["hidden_proj.weight"] == "fc.weight"
    assert found["decoder.input_emb_layernorm.weight"] == "midlayer.input_layernorm.weight"
    assert found["decoder.hidden_layernorm.weight"] == "midlayer.hidden_norm.weight"
    assert found["decoder.self_attn.q_proj.weight"] == "midlayer.self_attn.q_proj.weight"
    assert len(found) == 11
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    assert {f.rule for f in plan(folder).before.judgement.findings} == {"AUX008", "KEY021"}
    assert {f.rule for f in plan(folder).after.judgement.findings} == {"AUX008"}


def test_without_all_signs_a_name_is_not_taken_for_the_trainers(tmp_path: Path) -> None:
    draft = renamed(early_automodel(), "hidden_proj.", "fc.")
    assert not any(f.rule == "KEY021" for f in plan(write(draft, tmp_path)).before.judgement.findings)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"decoder.post_attention_layernorm.weight": None}, "would still lack"),
        ({"decoder.mlp.up_proj.weight": (96, 64)}, "do not fit"),
        ({"fc.weight": (64, 192)}, "hidden_proj.weight would be called fc.weight"),
    ],
)
def test_a_draft_that_the_table_does_not_fit_is_left_alone(
    change: dict[str, tuple[int, ...] | None], words: str, tmp_path: Path
) -> None:
    draft = early_automodel()
    for name, shape in change.items():
        if shape is None:
            del draft.tensors[name]
        else:
            draft.tensors[name] = floats(np.zeros(shape))
    assert words in refusal(answer(write(draft, tmp_path), "KEY021"))


def test_names_that_would_make_another_draft_of_it_are_not_given(tmp_path: Path) -> None:
    before = plan(write(draft_of(), tmp_path)).before
    edits = [RenameTensor(name, f"part{at}") for at, name in enumerate(before.facts.tensors)]
    with pytest.raises(RefusedError, match="other_draft"):
        all_fits(Case(before.checkpoint, before.facts), edits)


# --- set-architecture ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dialect", "says", "rule", "right"),
    [
        ("specforge-eagle3", ["Qwen3ForCausalLM"], "ARC001", "LlamaForCausalLMEagle3"),
        ("specforge-eagle3", ["LlamaForCausalLM"], "ARC002", "LlamaForCausalLMEagle3"),
        ("specforge-eagle3", None, "ARC003", "LlamaForCausalLMEagle3"),
        ("specforge-eagle3", ["DFlashDraftModel"], "ARC004", "LlamaForCausalLMEagle3"),
        ("mla-eagle3", ["LlamaForCausalLMEagle3"], "ARC005", "Eagle3DeepseekV2ForCausalLM"),
    ],
)
def test_the_class_is_the_one_under_which_most_releases_load_the_draft(
    dialect: str, says: list[str] | None, rule: str, right: str, tmp_path: Path
) -> None:
    draft = draft_of(dialect)
    config(draft)["architectures"] = says
    folder = write(draft, tmp_path)
    told = answer(folder, rule)
    assert settings(told) == {"architectures": [right]}
    assert isinstance(told, Proposal)
    assert told.safety == ("unsafe" if rule == "ARC004" else "safe")
    after = plan(folder, unsafe=True, select=(rule,)).after
    assert rule not in {f.rule for f in after.judgement.findings}


def test_a_named_engine_without_the_class_gets_the_one_that_it_has(tmp_path: Path) -> None:
    draft = draft_of()
    config(draft)["architectures"] = ["LlamaForCausalLMEagle3Deep"]
    folder = write(draft, tmp_path)
    assert settings(answer(folder, "SRV005", "vllm==0.33.0")) == {"architectures": ["LlamaForCausalLMEagle3"]}
    assert [p.outcome for p in plan(folder, "vllm==0.33.0", "sglang==0.5.23").after.plans] == ["served", "served"]


def test_names_that_are_treated_later_do_not_hide_the_right_class(tmp_path: Path) -> None:
    folder = write(draft_of("automodel-eagle3"), tmp_path)
    found = plan(folder, "sglang==0.5.9", "vllm==0.33.0")
    assert [s.treatment for s in found.steps] == ["set-architecture", "strip-prefix", "layout-for-engine"]
    assert [p.outcome for p in found.after.plans] == ["served", "served"]


def biased_eagle1(name: str) -> Draft:
    draft = draft_of("eagle-eagle1")
    draft.pickle = None
    config(draft)["architectures"] = [name]
    for part in ("q_proj", "k_proj", "v_proj"):
        weight = draft.tensors[f"layers.0.self_attn.{part}.weight"]
        draft.tensors[f"layers.0.self_attn.{part}.bias"] = floats(np.ones(weight.shape[0]))
    return draft


def test_a_class_that_drops_trained_biases_is_never_chosen(tmp_path: Path) -> None:
    folder = write(biased_eagle1("Qwen2ForCausalLM"), tmp_path)
    told = refusal(answer(folder, "SRV005", "vllm==0.33.0"))
    assert "no place for layers.0.self_attn." in told
    assert plan(folder, "vllm==0.33.0").steps == ()


def test_two_engines_that_want_two_names_get_none(tmp_path: Path) -> None:
    draft = draft_of("eagle-eagle1")
    draft.tensors["fc.bias"] = floats(np.ones(64))
    config(draft)["architectures"] = ["LlamaForCausalLM"]
    folder = write(draft, tmp_path)
    told = refusal(answer(folder, "ARC002", "sglang==0.5.23", "vllm==0.33.0"))
    assert "The named engines want different names" in told
    assert "sglang 0.5.23: LlamaForCausalLMEagle" in told
    assert settings(answer(folder, "ARC002", "sglang==0.5.23")) == {"architectures": ["LlamaForCausalLMEagle"]}


def test_a_name_that_one_engine_would_lose_is_not_written_without_naming_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = draft_of()
    config(draft)["architectures"] = ["LlamaForCausalLM"]
    folder = write(draft, tmp_path)

    def reached(_: object, facts: Facts) -> Reach:
        plain = facts.draft.architecture.algorithm == "plain"
        return Reach(1, 1, frozenset({"vllm"})) if plain else Reach(9, 9, frozenset({"sglang"}))

    monkeypatch.setattr(set_architecture, "reach", reached)
    assert "the newest of vllm would no longer load the draft" in refusal(answer(folder, "ARC002"))


def test_a_name_that_is_as_good_as_any_stays(tmp_path: Path) -> None:
    assert "No class name that is known" in refusal(answer(write(draft_of("eagle-eagle1"), tmp_path), "ARC002"))


# --- set-model-type -----------------------------------------------------------------------------------------------


def test_a_complete_config_gets_the_type_of_its_attention(tmp_path: Path) -> None:
    draft = draft_of()
    del config(draft)["model_type"]
    folder = write(draft, tmp_path)
    told = answer(folder, "ARC007")
    assert settings(told) == {"model_type": "llama"}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    found = plan(folder, "sglang==0.5.23", "vllm==0.33.0")
    assert [p.outcome for p in found.before.plans] == ["refused", "refused"]
    assert [p.outcome for p in found.after.plans] == ["served", "served"]


@pytest.mark.parametrize("key", ["head_dim", "rms_norm_eps", "max_position_embeddings", "num_key_value_heads"])
def test_defaults_that_the_type_would_bring_are_an_assumption(key: str, tmp_path: Path) -> None:
    draft = draft_of()
    del config(draft)["model_type"], config(draft)[key]
    told = answer(write(draft, tmp_path), "ARC007")
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"
    assert told.assumption is not None
    assert "defaults of this model_type" in told.assumption


def test_latent_attention_has_several_types(tmp_path: Path) -> None:
    draft = draft_of("mla-eagle3")
    del config(draft)["model_type"]
    assert "Several model types have latent attention" in refusal(answer(write(draft, tmp_path), "ARC007"))


def test_a_type_that_a_named_release_serves_worse_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = draft_of()
    del config(draft)["model_type"]
    folder = write(draft, tmp_path)
    monkeypatch.setattr(set_model_type, "score", lambda _, facts: (facts.draft.model_type is not None,))
    assert "With model_type llama, sglang 0.5.9 serves" in refusal(answer(folder, "ARC007", "sglang==0.5.9"))


# --- set-depth ----------------------------------------------------------------------------------------------------


def test_a_layer_without_a_number_is_the_only_one(tmp_path: Path) -> None:
    draft = draft_of()
    config(draft)["num_hidden_layers"] = 8
    folder = write(draft, tmp_path)
    told = answer(folder, "KEY027")
    assert settings(told) == {"num_hidden_layers": 1}
    assert isinstance(told, Proposal)
    assert told.safety == "safe"
    assert [s.treatment for s in plan(folder, "sglang==0.5.9").steps] == ["set-depth"]
    assert [p.outcome for p in plan(folder, "sglang==0.5.9").after.plans] == ["served"]


def test_a_layer_with_a_number_may_be_one_of_several(tmp_path: Path) -> None:
    draft = draft_of("model-optimizer-eagle3")
    config(draft)["num_hidden_layers"] = 4
    assert "may have lost the others" in refusal(answer(write(draft, tmp_path / "lost"), "KEY027"))
    config(draft)["num_hidden_layers"] = 8  # as many as the target has
    told = answer(write(draft, tmp_path / "copied"), "KEY027")
    assert isinstance(told, Proposal)
    assert (told.safety, settings(told)) == ("unsafe", {"num_hidden_layers": 1})
    assert told.assumption is not None
    assert "No layer was lost" in told.assumption


def test_more_stored_layers_are_an_assumption_and_stand_where_the_depth_was_read(tmp_path: Path) -> None:
    draft = draft_of("speculators-eagle3", layers=2)
    inner = config(draft)["transformer_layer_config"]
    assert isinstance(inner, dict)
    inner["num_hidden_layers"] = 1
    told = answer(write(draft, tmp_path), "KEY015")
    assert settings(told) == {"transformer_layer_config.num_hidden_layers": 2}
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"


def test_layer_types_become_as_long_as_the_depth(tmp_path: Path) -> None:
    draft = draft_of()
    config(draft).update(num_hidden_layers=3, layer_types=["full_attention"] * 3)
    folder = write(draft, tmp_path)
    assert settings(answer(folder, "KEY027")) == {"num_hidden_layers": 1, "layer_types": ["full_attention"]}
    config(draft)["layer_types"] = ["sliding_attention", "full_attention", "full_attention"]
    assert "several kinds of layers" in refusal(answer(write(draft, tmp_path), "KEY027"))


def test_a_gap_between_the_stored_layers_is_no_depth(tmp_path: Path) -> None:
    draft = renamed(draft_of("speculators-eagle3", layers=3), "layers.1.", "!")
    draft.tensors = {n: t for n, t in draft.tensors.items() if not n.startswith("!")}
    inner = config(draft)["transformer_layer_config"]
    assert isinstance(inner, dict)
    inner["num_hidden_layers"] = 1
    assert "layers.1 is missing although" in refusal(answer(write(draft, tmp_path), "KEY015"))


# --- untie-head ---------------------------------------------------------------------------------------------------


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


# --- the data -----------------------------------------------------------------------------------------------------


def test_every_name_that_a_contract_replaces_is_known_here() -> None:
    naming = knowledge().naming
    known = {row["name"].format(n=0) for row in naming["layouts"]["layers"]} | {"layers.0.", "layers."}
    known |= {part for pair in naming["layouts"]["instead"].items() for part in pair}
    known |= {row["to"] for row in naming["parameter_aliases"]}
    known |= {row["from"].strip("^").replace("\\", "") for row in naming["parameter_aliases"]}
    for contract in contracts().values():
        if not contract.raw.get("in_scans"):
            continue
        for entry in contract.raw["classes"].values():
            if not entry.get("algorithms") or entry["algorithms"] == ["medusa"]:
                continue  # an ordinary model, a name of which no table is known, or heads with layouts of their own
            for row in entry.get("behaviours", {}).get("aliases", ()):
                words = {f"{w.strip('^.')}." for pair in row["value"].items() for w in pair}
                # The head of XPress is a part of one class in one release, which has no other layout.
                words = {w.removesuffix("weight.") for w in words if not w.startswith("xpress_head.")}
                assert words <= known, (contract.engine, entry["name"])


def test_the_encoder_of_a_block_drafter_is_understood_and_renamed(tmp_path: Path) -> None:
    draft = renamed(
        renamed(draft_of("specforge-dflash"), "fc.", "encoder.fc."), "hidden_norm.", "encoder.output_norm_enc."
    )
    folder = write(draft, tmp_path)
    found = plan(folder, "sglang==0.5.17", "sglang==0.5.23", "vllm==0.33.0")
    assert not {f.rule for f in found.before.judgement.findings} & {"KEY006", "KEY011"}
    assert [(s.treatment, len(s.edits)) for s in found.steps] == [("layout-for-engine", 2)]
    assert [p.outcome for p in found.before.plans] == ["broken", "served", "served"]
    assert [p.outcome for p in found.after.plans] == ["served", "served", "served"]
