"""Which model of the audited trees is the target of a draft."""

from __future__ import annotations

from typing import Any

import pytest

from ckptdoctor.audit.pairing import Model, Models, Wants
from ckptdoctor.audit.places import may_be_model


def model(key: str, *names: str, **changes: Any) -> Model:
    sizes = {"hidden_size": 64, "num_layers": 8, "vocab_size": 512, "model_type": "llama", "config": key, **changes}
    return Model(key=key, path=f"/m/{key}", mark="m", names=(key, *names), **sizes)


QWEN = model("m/qwen3-8b", "qwen/qwen3-8b", "qwen3-8b")
LLAMA = model("m/llama", "meta/llama", "llama", hidden_size=128)


@pytest.mark.parametrize(
    ("wants", "found", "why"),
    [
        (Wants(name="Qwen/Qwen3-8B"), QWEN, "its config names Qwen/Qwen3-8B"),
        (Wants(name="/mnt/models/Qwen/Qwen3-8B/"), QWEN, "its config names /mnt/models/Qwen/Qwen3-8B/"),
        (Wants(name="/c/models--Qwen--Qwen3-8B/snapshots/abc", hidden_size=9), QWEN, "its config names"),
        (Wants(name="/else/Qwen3-8B", hidden_size=64, vocab_size=512), QWEN, "its config names /else/Qwen3-8B"),
        (Wants(name="/else/Qwen3-8B", hidden_size=65), None, "m/qwen3-8b has other sizes"),
        (Wants(name="nobody/else", hidden_size=64, vocab_size=512), None, "which is not here"),
        (Wants(hidden_size=64, vocab_size=512), QWEN, "the only model here with hidden size 64 and 512 tokens"),
        (Wants(hidden_size=64, vocab_size=512, num_layers=8), QWEN, "the only model"),
        (Wants(hidden_size=64, vocab_size=512, num_layers=9), None, "no model here fits"),
        (Wants(hidden_size=64, vocab_size=512, deepest=9), None, "no model here fits"),
        (Wants(hidden_size=64, vocab_size=512, model_type="qwen3"), None, "no model here fits"),
        (Wants(hidden_size=64), None, "its config names no target, nor the sizes of one"),
    ],
)
def test_the_target_of_a_draft(wants: Wants, found: Model | None, why: str) -> None:
    pairing = Models([QWEN, LLAMA]).target_of("d", wants)
    assert pairing.model is found
    assert why in pairing.why


def test_two_that_fit_are_ambiguous_unless_they_are_the_same() -> None:
    other = model("m/other")
    wants = Wants(hidden_size=64, vocab_size=512)
    pairing = Models([QWEN, other]).target_of("d", wants)
    assert pairing.model is None
    assert pairing.why.startswith("ambiguous: 2 models have hidden size 64 and 512 tokens (m/other and m/qwen3-8b)")
    same = model("m/z-copy", config=QWEN.config)
    assert Models([same, QWEN]).target_of("d", wants).model is QWEN
    twice = Models([QWEN, model("n/qwen3-8b", "qwen/qwen3-8b")]).target_of("d", Wants(name="Qwen/Qwen3-8B"))
    assert twice.why == "ambiguous: its config names Qwen/Qwen3-8B, which may be m/qwen3-8b and n/qwen3-8b"


def test_a_draft_is_not_its_own_target() -> None:
    assert Models([QWEN]).target_of(QWEN.key, Wants(hidden_size=64, vocab_size=512)).model is None


@pytest.mark.parametrize("name", ["", "/", "..", "a" * 400, "\x00", "hf://", "*", "../.."])
def test_any_name_is_borne(name: str) -> None:
    assert Models([QWEN]).target_of("d", Wants(name=name)).model is None


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"architectures": ["LlamaForCausalLM"]}, True),
        ({"architectures": ["LlamaForCausalLM"], "draft_vocab_size": None}, True),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, False),
        ({"architectures": ["LlamaForCausalLM"], "draft_vocab_size": 32000}, False),
        ({"architectures": 7}, True),
        ([], False),
        (None, False),
    ],
)
def test_a_quick_look_at_a_config(config: Any, expected: bool) -> None:
    assert may_be_model(config) is expected
