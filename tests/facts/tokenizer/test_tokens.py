"""Special tokens: which of them a draft vocabulary lacks, and which token ends a turn."""

# lines of templates stay as they are
from __future__ import annotations

from pathlib import Path

import pytest
from measuring.templates import MODELS, QWEN3, Model, place

from ckptdoctor.facts.tokenizer.chat_templates import written_by
from ckptdoctor.unknown import Unknown


@pytest.mark.parametrize("name", MODELS)
def test_the_turn_end_is_what_the_template_writes_after_a_message(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    tokens = place(tmp_path / "draft", model)
    assert not isinstance(tokens.turn_end, Unknown)
    assert tokens.turn_end.id == model.turn_end
    assert [t.id for t in tokens.turn_ends] == model.turn_ends
    assert tokens.turn_end_reachable is True
    assert tokens.unreachable == ()


@pytest.mark.parametrize("name", MODELS)
def test_every_token_that_a_template_writes_is_special(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    tokens = place(tmp_path / "draft", model)
    eos = next((i for i, text in model.added.items() if text == model.eos), None)
    assert set(written_by(model.template, model.added, eos).ids) == model.written
    found = {t.id: t.role for t in tokens.specials}
    ends = model.generation if isinstance(model.generation, list) else [model.generation]
    assert model.written | set(ends) <= set(found)
    assert {i: found[i] for i in model.roles} == model.roles
    # Reserved and unused tokens are not worth a word.
    assert not {i for i, text in model.added.items() if "unused" in text or "image" in text} & set(found)


@pytest.mark.parametrize("name", MODELS)
def test_a_turn_end_outside_the_draft_vocabulary_is_told(name: str, tmp_path: Path) -> None:
    model = MODELS[name]
    if model.turn_end < 64:
        tokens = place(tmp_path / "draft", model, missing=(model.turn_end,))
    else:
        tokens = place(tmp_path / "draft", model, missing=(model.turn_end, max(model.added)))
    assert tokens.turn_end_reachable is False
    assert not isinstance(tokens.unreachable, Unknown)
    assert model.turn_end in {t.id for t in tokens.unreachable}


@pytest.mark.parametrize("kind", ["jinja", "json", "list", "text"])
@pytest.mark.parametrize("added", ["tokenizer", "tokenizer_config"])
def test_a_template_is_found_wherever_it_stands(kind: str, added: str, tmp_path: Path) -> None:
    tokens = place(tmp_path / "draft", QWEN3, template=kind, added=added)
    assert [t.id for t in tokens.turn_ends] == [151645]
    assert {t.id for t in tokens.specials} >= QWEN3.written


def test_a_marker_of_reasoning_that_no_template_writes_is_special_too(tmp_path: Path) -> None:
    model = Model({5: "</s>", 90: "<think>", 91: "</think>", 92: "<|reserved_7|>"}, "</s>",
                  "{{ message.content + eos_token }}", 5, 5, [5], {5})  # fmt: skip
    tokens = place(tmp_path / "draft", model, missing=(91,))
    assert not isinstance(tokens.unreachable, Unknown)
    assert [t.told for t in tokens.unreachable] == ["91 </think> (reasoning)"]


CHATML = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' }}{% endfor %}"


def test_a_turn_end_that_no_config_names_is_taken_from_the_template(tmp_path: Path) -> None:
    added = {64: "<|im_start|>", 65: "<|im_end|>"}
    tokens = place(tmp_path / "draft", Model(added, None, CHATML, None, 65, [65], {64, 65}))
    assert [t.id for t in tokens.turn_ends] == [65]


def test_the_end_of_a_base_model_says_nothing_of_turns(tmp_path: Path) -> None:
    added = {64: "<|im_start|>", 65: "<|im_end|>", 66: "<|endoftext|>"}
    tokens = place(tmp_path / "draft", Model(added, "<|endoftext|>", CHATML, 66, 65, [], {64, 65}, config=66))
    assert isinstance(tokens.turn_end, Unknown)
    assert {t.id for t in tokens.specials} == {64, 65, 66}
