"""Treatments of the config: the exact edits on what is wrong, and what they must not touch."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from treatment_cases import Draft, answer, draft_of, floats, plan, write

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.facts import describe
from ckptdoctor.repair.edits import RemoveConfig, SetConfig
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.repair.plan.case import Case, Proposal, RefusedError
from ckptdoctor.repair.plan.treatments_known import code_of, treatments

LONG = {"max_position_embeddings": 4096}
NESTED = "transformer_layer_config"


def changed(dialect: str = "specforge-eagle3", config: dict[str, Any] | None = None, **sizes: Any) -> Draft:
    """A healthy draft with other values in its config (dotted keys; ... removes one)."""
    draft = draft_of(dialect, **sizes)
    for key, value in (config or {}).items():
        *path, last = key.split(".")
        place: Any = draft.config
        for part in path:
            place = place.setdefault(part, {})
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return draft


def edits(told: Proposal | str) -> dict[str, Any]:
    """What is written into config.json, by key."""
    assert isinstance(told, Proposal), told
    assert all(isinstance(edit, SetConfig) and edit.file == "config.json" for edit in told.edits)
    return {edit.key: edit.value for edit in told.edits if isinstance(edit, SetConfig)}


def is_safe(told: Proposal | str) -> bool:
    return isinstance(told, Proposal) and told.safety == "safe"


def told_of(draft: Draft, tmp_path: Path, rule: str) -> Proposal | str:
    return answer(write(draft, tmp_path), rule)


# --- set-config ---------------------------------------------------------------------------------------------------


def wider(**more: Any) -> Draft:
    draft = changed(target_hidden=128, **more)
    assert draft.config is not None
    del draft.config["target_hidden_size"]
    return draft


def test_the_targets_width_is_written(tmp_path: Path) -> None:
    told = told_of(wider(embedding=True), tmp_path, "GEO004")
    assert edits(told) == {"target_hidden_size": 128}
    assert is_safe(told)


def test_the_targets_width_is_not_written_for_a_draft_without_an_embedding(tmp_path: Path) -> None:
    assert "embedding, and none is stored" in str(told_of(wider(), tmp_path, "GEO004"))


def test_bias_is_set_to_false_on_the_assumption_that_there_was_none(tmp_path: Path) -> None:
    told = told_of(changed(config={"bias": True}), tmp_path, "GEO008")
    assert edits(told) == {"bias": False}
    assert isinstance(told, Proposal)
    assert (told.safety, told.assumption) == (
        "unsafe",
        "The draft was trained without a bias in fc and in the attention.",
    )


def test_bias_stays_true_beside_any_bias(tmp_path: Path) -> None:
    draft = changed(config={"bias": True})
    draft.tensors["midlayer.self_attn.o_proj.bias"] = floats(np.zeros(64), "BF16")
    assert "midlayer.self_attn.o_proj.bias is stored" in str(told_of(draft, tmp_path, "GEO008"))


@pytest.mark.parametrize(
    ("sizes", "flag"), [({"norm_before_fc": True}, "norm_before_fc"), ({"fc_norm": True}, "fc_norm")]
)
def test_the_flag_of_a_stored_norm_is_set_as_unsafe(sizes: dict[str, Any], flag: str, tmp_path: Path) -> None:
    told = told_of(changed("speculators-eagle3", {flag: ...}, **sizes), tmp_path, "GEO014")
    assert edits(told) == {flag: True}
    assert isinstance(told, Proposal)
    assert told.safety == "unsafe"


def test_a_flag_is_corrected_where_it_stands(tmp_path: Path) -> None:
    draft = changed(
        "speculators-eagle3", {"norm_before_fc": ..., "eagle_config.norm_before_fc": False}, norm_before_fc=True
    )
    assert edits(told_of(draft, tmp_path, "GEO014")) == {"eagle_config.norm_before_fc": True}


def test_the_flag_is_not_set_when_some_of_the_norms_are_lost(tmp_path: Path) -> None:
    draft = changed("speculators-eagle3", {"fc_norm": ...}, fc_norm=True)
    del draft.tensors["fc_norm.2.weight"]
    assert "fewer fc_norm tensors" in str(told_of(draft, tmp_path, "GEO014"))


def test_the_number_of_captured_layers_is_that_of_the_list(tmp_path: Path) -> None:
    draft = changed("model-optimizer-eagle3", {"num_aux_hidden_states": 4})
    told = told_of(draft, tmp_path, "AUX011")
    assert edits(told) == {"num_aux_hidden_states": 3}
    assert is_safe(told)


@pytest.mark.parametrize(
    ("ids", "words"), [([1, 3], "not proved to be right"), ([1, 3, 3], "names some of them twice")]
)
def test_the_number_of_captured_layers_stays_when_the_list_may_be_wrong(
    ids: list[int], words: str, tmp_path: Path
) -> None:
    where = "eagle_config.eagle_aux_hidden_state_layer_ids"
    draft = changed("model-optimizer-eagle3", {where: ids, "num_aux_hidden_states": 4})
    assert words in str(told_of(draft, tmp_path, "AUX011"))


@pytest.mark.parametrize(
    ("dialect", "key"),
    [
        ("specforge-eagle3", "max_position_embeddings"),
        ("speculators-eagle3", f"{NESTED}.max_position_embeddings"),
        ("eagle-eagle3", "max_position_embeddings"),
    ],
)
def test_the_length_is_that_of_the_target_in_the_drafts_own_place(dialect: str, key: str, tmp_path: Path) -> None:
    draft = changed(dialect)
    draft.target = {**(draft.target or {}), **LONG}
    told = told_of(draft, tmp_path, "ROP002")
    assert edits(told) == {key: 4096}
    assert is_safe(told)


@pytest.mark.parametrize("kind", ["linear", "llama3"])
def test_a_scaling_that_does_not_depend_on_the_length_allows_a_longer_table(kind: str, tmp_path: Path) -> None:
    scaling = {"rope_type": kind, "factor": 2.0}
    draft = changed(config={"rope_scaling": scaling, "rope_parameters": {**scaling, "rope_theta": 10000.0}})
    draft.target = {**(draft.target or {}), **LONG}
    assert edits(told_of(draft, tmp_path, "ROP002")) == {"max_position_embeddings": 4096}


@pytest.mark.parametrize("kind", ["dynamic", "yarn", "longrope", "something-new"])
def test_the_length_of_scaled_positions_stays(kind: str, tmp_path: Path) -> None:
    scaling = {"rope_type": kind, "factor": 2.0, "original_max_position_embeddings": 128}
    draft = changed(config={"rope_scaling": scaling, "rope_parameters": {**scaling, "rope_theta": 10000.0}})
    draft.target = {**(draft.target or {}), **LONG}
    assert "computed from its length" in str(told_of(draft, tmp_path, "ROP002"))


def case_of(folder: Path) -> Case:
    checkpoint = open_checkpoint(str(folder))
    return Case(checkpoint, describe(checkpoint, None), reads=True)


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"field": "hidden_size", "value": 64}, "same"),
        ({"field": "hidden_size", "value": None}, "null"),
        ({"field": "hidden_size.deeper", "value": 1}, "blocked"),
        ({"field": "bias", "value": True, "refuse": "stored"}, "stored"),
    ],
)
def test_set_config_refuses(arguments: dict[str, Any], key: str, tmp_path: Path) -> None:
    folder = write(draft_of(), tmp_path)
    with pytest.raises(RefusedError) as refused:
        code_of("set-config")(case_of(folder), **arguments)
    assert refused.value.key == key


@pytest.mark.parametrize(("text", "key"), [("{", "unreadable"), ('{"hidden_size": 1' + "0" * 30 + "}", "huge")])
@pytest.mark.parametrize(
    ("treatment", "arguments"),
    [
        ("set-config", {"field": "head_dim", "value": 8}),
        ("remove-config", {"keys": ["hidden_size"]}),
        ("plain-value", {"key": "hidden_size"}),
        ("ids-to-integers", {"key": "ids"}),
        ("rope-both-spellings", {}),
        ("vocabulary-sizes", {}),
        ("rewrite-json", {"file": "config.json"}),
    ],
)
def test_a_config_that_cannot_be_written_again_is_left_alone(
    treatment: str, arguments: dict[str, Any], text: str, key: str, tmp_path: Path
) -> None:
    folder = write(draft_of(), tmp_path)
    (folder / "config.json").write_text(text)
    with pytest.raises(RefusedError) as refused:
        code_of(treatment)(case_of(folder), **arguments)
    assert refused.value.key == key
    assert treatments()[treatment].refusals[key].format(**refused.value.values)


# --- remove-config ------------------------------------------------------------------------------------------------

CODE = {"AutoConfig": "configuration_deepseek.DeepseekV3Config", "AutoModel": "modeling_deepseek.DeepseekV3Model"}


def test_a_dangling_auto_map_is_left_out(tmp_path: Path) -> None:
    told = told_of(changed(config={"auto_map": CODE}), tmp_path, "CFG009")
    assert isinstance(told, Proposal)
    assert told.edits == (RemoveConfig("auto_map"),)
    assert told.safety == "safe"


def test_entries_whose_code_is_there_stay(tmp_path: Path) -> None:
    other = {"AutoTokenizer": "someone/repository--tokenization.Tokenizer", "AutoModelForCausalLM": "own.Model"}
    folder = write(changed(config={"auto_map": CODE | other}), tmp_path)
    (folder / "own.py").write_text("")
    told = answer(folder, "CFG009")
    assert isinstance(told, Proposal)
    assert told.edits == (RemoveConfig("auto_map.AutoConfig"), RemoveConfig("auto_map.AutoModel"))


def test_auto_map_stays_for_a_class_that_may_not_be_built_in(tmp_path: Path) -> None:
    draft = changed(config={"auto_map": CODE, "architectures": ["SomethingOfTheirOwn"]})
    assert "built in" in str(told_of(draft, tmp_path, "CFG009"))


@pytest.mark.parametrize(
    "value", [{}, [], "x", {"": "config.Eagle3SpeculatorConfig"}, {"AutoConfig": "a/b--c.D"}, {"AutoConfig": 5}]
)
def test_an_auto_map_that_nothing_reads_is_not_reported(value: Any, tmp_path: Path) -> None:
    folder = write(changed(config={"auto_map": value}), tmp_path)
    assert not [f for f in plan(folder).before.judgement.findings if f.rule in ("CFG009", "CFG010")]


def test_remove_config_refuses_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="absent"):
        code_of("remove-config")(case_of(write(draft_of(), tmp_path)), keys=["auto_map", "eagle_config.x"])


# --- plain-value and ids-to-integers ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "written", "value"),
    [
        ("intermediate_size", "128", 128),
        ("intermediate_size", " 128.0 ", 128),
        ("intermediate_size", 128.0, 128),
        ("tie_word_embeddings", "False", False),
        ("bias", "true", True),
    ],
)
def test_a_value_with_one_reading_is_written_plainly(key: str, written: Any, value: Any, tmp_path: Path) -> None:
    told = told_of(changed(config={key: written}), tmp_path, "CFG007")
    assert edits(told) == {key: value}
    assert is_safe(told) == (value is not False)


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("intermediate_size", "4k"),
        ("intermediate_size", "1,024"),
        ("intermediate_size", "0128"),
        ("intermediate_size", "-128"),
        ("intermediate_size", "٣٢"),
        ("intermediate_size", 128.5),
        ("intermediate_size", True),
        ("intermediate_size", [128]),
        ("intermediate_size", 0),
        ("tie_word_embeddings", "yes"),
        ("tie_word_embeddings", 1),
        ("tie_word_embeddings", ""),
    ],
)
def test_a_value_with_another_reading_stays(key: str, written: Any, tmp_path: Path) -> None:
    assert "decides" in str(told_of(changed(config={key: written}), tmp_path, "CFG007"))


IDS = "eagle_config.eagle_aux_hidden_state_layer_ids"


@pytest.mark.parametrize("written", ["[1, 3, 5]", "1,3,5", " 1 , 3,5 ", [1.0, 3.0, 5.0], ["1", "3", "5"]])
def test_ids_with_one_reading_become_a_list(written: Any, tmp_path: Path) -> None:
    told = told_of(changed("model-optimizer-eagle3", {IDS: written}), tmp_path, "AUX004")
    assert edits(told) == {IDS: [1, 3, 5]}
    assert is_safe(told)


def test_ids_keep_their_order(tmp_path: Path) -> None:
    told = told_of(changed("model-optimizer-eagle3", {IDS: "5, 1, -1"}), tmp_path, "AUX004")
    assert edits(told) == {IDS: [5, 1, -1]}


@pytest.mark.parametrize(
    "written", ["all", 5, "5", [1.5, 2], [1, None], [True, 2], "[" * 100_000, {"0": 1}, [[1, 2]], "1;2", "1 2", "[]"]
)
def test_ids_with_another_reading_stay(written: Any, tmp_path: Path) -> None:
    draft = changed("model-optimizer-eagle3", {IDS: written})
    assert "however it is read" in str(told_of(draft, tmp_path, "AUX004"))


# --- size-from-tensors --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"intermediate_size": 256}, {"intermediate_size": 128}),
        ({"hidden_size": 32, "head_dim": 16}, {"hidden_size": 64}),
    ],
)
def test_a_size_is_the_one_of_all_tensors(config: dict[str, Any], expected: dict[str, Any], tmp_path: Path) -> None:
    told = told_of(changed(config=config), tmp_path, "GEO009")
    assert edits(told) == expected
    assert is_safe(told)


def test_the_vocabulary_is_the_rows_of_the_embedding(tmp_path: Path) -> None:
    told = told_of(changed(config={"vocab_size": 640}, embedding=True), tmp_path, "GEO009")
    assert edits(told) == {"vocab_size": 512}


@pytest.mark.parametrize("dialect", ["specforge-eagle3", "speculators-eagle3"])
@pytest.mark.parametrize(
    ("dropped", "proof"),
    [((), "d2t reaches to id"), (("d2t",), "t2d has 512 entries"), (("d2t", "t2d"), "the target has 512 tokens")],
)
def test_the_vocabulary_stays_where_anything_proves_that_the_embedding_was_cut(
    dialect: str, dropped: tuple[str, ...], proof: str, tmp_path: Path
) -> None:
    draft = changed(dialect, embedding=True)
    draft.tensors["embed_tokens.weight"] = floats(np.ones((128, 64)), "BF16")
    for name in dropped:
        del draft.tensors[name]
    told = told_of(draft, tmp_path, "GEO009")
    assert isinstance(told, str)
    assert proof in told
    assert "it is the tensor that is wrong" in told


@pytest.mark.parametrize(
    ("dialect", "key"), [("specforge-eagle3", "head_dim"), ("speculators-eagle3", f"{NESTED}.head_dim")]
)
def test_a_missing_head_dim_is_what_queries_and_keys_agree_on(dialect: str, key: str, tmp_path: Path) -> None:
    told = told_of(changed(dialect, {key: ...}, head_dim=32), tmp_path, "GEO009")
    assert edits(told) == {key: 32}
    assert is_safe(told)


def test_a_wrong_head_dim_is_corrected_where_the_norms_of_the_heads_show_it(tmp_path: Path) -> None:
    draft = changed("speculators-eagle3", {f"{NESTED}.head_dim": 8}, qk_norm=True)
    assert edits(told_of(draft, tmp_path, "GEO009"))[f"{NESTED}.head_dim"] == 16
    steps = plan(tmp_path).steps
    assert [(s.treatment, s.subject) for s in steps] == [("size-from-tensors", "head_dim")]


def test_heads_are_corrected_where_the_norms_of_the_heads_show_their_width(tmp_path: Path) -> None:
    draft = changed("speculators-eagle3", {f"{NESTED}.num_attention_heads": 8}, qk_norm=True)
    assert edits(told_of(draft, tmp_path, "GEO009")) == {f"{NESTED}.num_attention_heads": 4}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"head_dim": 8}, "could both be wrong"),
        ({"num_attention_heads": 8}, "could both be wrong"),
        ({"num_key_value_heads": 4}, "could both be wrong"),
        ({"num_key_value_heads": 4, "head_dim": ...}, "right by chance"),
        ({"num_attention_heads": 3, "head_dim": ...}, "does not divide"),
        ({"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": ...}, "not every tensor would fit"),
    ],
)
def test_heads_and_their_width_stay_when_both_could_be_wrong(
    config: dict[str, Any], words: str, tmp_path: Path
) -> None:
    # Heads of another width than the target's, which would settle it.
    wide = config.get("num_attention_heads") == 8 or config.get("head_dim") == 8
    draft = changed(config=config, head_dim=32) if wide else changed(config=config)
    assert words in str(told_of(draft, tmp_path, "GEO009"))


def test_a_size_stays_when_a_tensor_would_not_fit_it(tmp_path: Path) -> None:
    draft = changed(config={"intermediate_size": 256})
    draft.tensors["midlayer.mlp.down_proj.weight"] = floats(np.zeros((64, 96)), "BF16")
    assert "not every tensor would fit" in str(told_of(draft, tmp_path, "GEO009"))


# --- vocabulary-sizes ---------------------------------------------------------------------------------------------

SIZES = ("draft_vocab_size", "vocab_size")


@pytest.mark.parametrize(
    ("config", "rule", "expected"),
    [
        ({"draft_vocab_size": 120}, "VOC013", {"draft_vocab_size": 128}),
        ({"draft_vocab_size": ...}, "VOC014", {"draft_vocab_size": 128}),
        ({"draft_vocab_size": None}, "VOC014", {"draft_vocab_size": 128}),
        ({"draft_vocab_size": 640}, "VOC015", {"draft_vocab_size": 128}),
        ({"draft_vocab_size": 512, "vocab_size": 128}, "VOC013", {"draft_vocab_size": 128, "vocab_size": 512}),
        ({"draft_vocab_size": ..., "vocab_size": 128}, "VOC014", {"draft_vocab_size": 128, "vocab_size": 512}),
        ({"vocab_size": 128}, "VOC017", {"vocab_size": 512}),
    ],
)
def test_the_sizes_are_put_into_the_right_fields(
    config: dict[str, Any], rule: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    told = told_of(changed(config=config), tmp_path, rule)
    assert edits(told) == expected
    assert is_safe(told)


def test_the_sizes_stay_in_their_dialect(tmp_path: Path) -> None:
    draft = changed("speculators-eagle3", {"draft_vocab_size": 512, f"{NESTED}.vocab_size": 128})
    assert edits(told_of(draft, tmp_path, "VOC013")) == {"draft_vocab_size": 128, f"{NESTED}.vocab_size": 512}


def test_a_whole_vocabulary_needs_no_map(tmp_path: Path) -> None:
    draft = changed("specforge-eagle3-fullvocab", {"draft_vocab_size": 128})
    draft.tensors = {name: t for name, t in draft.tensors.items() if name not in ("d2t", "t2d")}
    assert edits(told_of(draft, tmp_path, "VOC013")) == {"draft_vocab_size": 512}


def test_lengths_of_head_and_map_that_differ_are_left_to_the_training_run(tmp_path: Path) -> None:
    draft = changed(config={"draft_vocab_size": 120})
    draft.tensors["lm_head.weight"] = floats(np.zeros((136, 64)), "BF16")
    assert "which length is right only the training run says" in str(told_of(draft, tmp_path, "VOC013"))


def test_sizes_without_a_head_or_a_map_stay(tmp_path: Path) -> None:
    draft = changed(config={"draft_vocab_size": 120})
    head = draft.tensors.pop("lm_head.weight")
    assert "No head is stored" in str(told_of(draft, tmp_path / "a", "VOC013"))
    draft.tensors["lm_head.weight"] = head
    del draft.tensors["d2t"]
    assert "there is no d2t" in str(told_of(draft, tmp_path / "b", "VOC013"))


def test_sizes_stay_when_the_sources_disagree_or_there_is_none(tmp_path: Path) -> None:
    draft = changed(config={"draft_vocab_size": 512, "vocab_size": 128})
    draft.target = {**(draft.target or {}), "vocab_size": 576}
    assert "cannot be told" in str(told_of(draft, tmp_path / "a", "VOC013"))
    draft = changed("model-optimizer-eagle3", {"draft_vocab_size": 512, "vocab_size": 128})
    draft.target = {k: v for k, v in (draft.target or {}).items() if k != "vocab_size"}
    draft.tensors = {name: t for name, t in draft.tensors.items() if "embed_tokens" not in name}
    assert "--target" in str(told_of(draft, tmp_path / "b", "VOC013"))


def test_a_draft_for_another_target_is_not_made_one_for_this(tmp_path: Path) -> None:
    draft = changed()
    draft.target = {**(draft.target or {}), "vocab_size": 9000}
    assert "no edit makes it so" in str(told_of(draft, tmp_path, "VOC017"))


# --- rope-both-spellings ------------------------------------------------------------------------------------------


def test_the_base_is_written_in_the_old_spelling_too(tmp_path: Path) -> None:
    draft = changed(config={"rope_theta": ..., "rope_parameters.rope_theta": 5e5})
    told = told_of(draft, tmp_path, "ROP001")
    assert edits(told) == {"rope_theta": 5e5}
    assert is_safe(told)


def test_scaling_is_written_beside_it_in_the_object_of_the_layer(tmp_path: Path) -> None:
    new = {"rope_theta": 10000, "rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 2048}
    draft = changed("speculators-eagle3", {f"{NESTED}.rope_parameters": new})
    told = told_of(draft, tmp_path, "ROP001")
    assert edits(told) == {
        f"{NESTED}.rope_theta": 10000,
        f"{NESTED}.rope_scaling": {k: v for k, v in new.items() if k != "rope_theta"},
    }


def test_a_part_of_a_head_that_is_rotated_is_written_too(tmp_path: Path) -> None:
    new = {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}
    draft = changed(config={"rope_parameters": new})
    assert edits(told_of(draft, tmp_path, "ROP001")) == {"partial_rotary_factor": 0.5}


def test_the_repair_of_a_note_is_made_when_it_is_selected(tmp_path: Path) -> None:
    folder = write(changed(config={"rope_theta": ..., "rope_parameters.rope_theta": 5e5}), tmp_path)
    assert plan(folder).steps == ()
    done = plan(folder, select=("ROP001",))
    assert [s.treatment for s in done.steps] == ["rope-both-spellings"]
    assert not [f for f in done.after.judgement.findings if f.rule == "ROP001"]


@pytest.mark.parametrize(
    ("config", "rule", "words"),
    [
        ({"rope_theta": 5e5}, "ROP003", "rope_theta is 500000.0 and rope_parameters says 10000.0"),
        (
            {"rope_theta": ..., "rope_parameters": {"rope_theta": 5e5, "alpha": 1000.0}},
            "ROP001",
            "no known place in the old spelling",
        ),
        (
            {
                "rope_theta": ...,
                "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
                "rope_parameters": {"rope_theta": 5e5, "rope_type": "yarn", "factor": 8.0},
            },
            "ROP001",
            "different scalings",
        ),
    ],
)
def test_spellings_that_differ_stay(config: dict[str, Any], rule: str, words: str, tmp_path: Path) -> None:
    assert words in str(told_of(changed(config=config), tmp_path, rule))


@pytest.mark.parametrize(
    "config",
    [
        {"rope_theta": ...},  # the base of the new spelling is what engines take anyway
        {"rope_theta": ..., "rope_parameters": ...},
        {"rope_parameters": ...},  # the old spelling alone is read by all
        {"rope_theta": ..., "rope_parameters": {"full_attention": {"rope_theta": 5e5}}},
    ],
)
def test_a_base_that_every_engine_reads_is_not_reported(config: dict[str, Any], tmp_path: Path) -> None:
    folder = write(changed(config=config), tmp_path)
    assert not [f for f in plan(folder).before.judgement.findings if f.rule.startswith("ROP")]


# --- words --------------------------------------------------------------------------------------------------------


def test_every_refusal_that_a_rule_names_has_a_sentence() -> None:
    named = 0
    for rule in rulebook().rules:
        expression = rule.fix.arguments.get("refuse") if rule.fix else None
        if rule.fix is None or expression is None:
            continue
        results = [n for n in ast.walk(ast.parse(str(expression), mode="eval")) if isinstance(n, ast.IfExp)]
        for node in (part for n in results for part in (n.body, n.orelse) if isinstance(part, ast.Constant)):
            if node.value is not None:
                assert node.value in treatments()[rule.fix.treatment].refusals, (rule.id, node.value)
                named += 1
    assert named > 4


def test_nothing_else_of_the_config_changes(tmp_path: Path) -> None:
    draft = changed(config={"intermediate_size": "128", "note": {"kept": [1, None, "é"]}})
    done = plan(write(draft, tmp_path))
    wanted = json.loads((tmp_path / "config.json").read_text(encoding="utf-8")) | {"intermediate_size": 128}
    assert done.state.json["config.json"] == wanted
