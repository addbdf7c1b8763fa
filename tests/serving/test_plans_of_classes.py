"""Which class is built for which names in a config, release by release."""

from __future__ import annotations

import pytest
from measuring.plans import MIDLAYER, H, Make, V, fates, plan, stages


def test_a_name_of_a_target_is_built_as_that_model(made: Make) -> None:
    found = plan(made({**MIDLAYER, "lm_head.weight": (V, H)}, architectures=["LlamaForCausalLM"]), "0.5.23")
    assert found.model_class == "LlamaForCausalLM"
    assert fates(found, "midlayer.") == {"dropped_with_warning"}
    assert found.outcome == "broken"


@pytest.mark.parametrize(
    ("release", "name", "built"),
    [
        ("0.5.9", "Qwen3MoeForCausalLM", "Qwen3MoeForCausalLM"),
        ("0.5.13", "Qwen3MoeForCausalLM", "Qwen3MoeForCausalLMMTP"),
    ],
)
def test_a_class_without_a_table_claims_nothing(made: Make, release: str, name: str, built: str) -> None:
    found = plan(made(MIDLAYER, architectures=[name]), release)
    assert (found.model_class, found.parameters, found.errors) == (built, (), ())
    assert built in found.unproven[0]


@pytest.mark.parametrize(
    ("names", "stage"),
    [(["DominoDraftModel"], "class"), ([], "class"), (None, "class"), (["No", "LlamaForCausalLMEagle3"], None)],
)
def test_the_first_name_with_a_class_is_built(made: Make, names: object, stage: str | None) -> None:
    assert stages(plan(made(MIDLAYER, architectures=names), "0.5.23"))[:1] == ([stage] if stage else [])


@pytest.mark.parametrize(("release", "refused"), [("0.5.9", False), ("0.5.10", True)])
def test_a_config_without_model_type_stops_from_0_5_10(made: Make, release: str, refused: bool) -> None:
    found = plan(made(MIDLAYER, model_type=...), release)
    assert (stages(found)[:1] == ["config"]) is refused
    assert any("model_type" in text for text in found.unproven) is not refused
