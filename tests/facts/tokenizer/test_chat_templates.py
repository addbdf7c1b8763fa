"""What a chat template writes."""

# ruff: noqa: E501  # lines of templates stay as they are
from __future__ import annotations

from ckptdoctor.facts.tokenizer.chat_templates import written_by


def test_the_longest_text_is_matched_first() -> None:
    texts = {1: "<|end|>", 2: "<|end|>x", 3: "end"}
    assert written_by("{{ content + '<|end|>x' }}{{ 'end' }}", texts, None).ids == (2, 3)


def test_markers_that_are_put_together_from_the_role_are_found() -> None:
    texts = {1: "<|user|>", 2: "<|assistant|>", 3: "<|end|>", 4: "<|other|>"}
    written = written_by("{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}", texts, None)
    assert set(written.ids) == {1, 2, 3}
    assert dict(written.after_content) == {3: 1}


def test_tests_of_a_text_write_nothing() -> None:
    texts = {1: "<think>", 2: "</think>", 3: "<|x|>"}
    template = "{# <|x|> #}{% if '<think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{ content }}"
    assert written_by(template, texts, None).ids == ()
