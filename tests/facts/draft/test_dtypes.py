"""The dtype that a config says, in every spelling."""

from __future__ import annotations

import pytest
from measuring.configs import config_of, target_of

from ckptdoctor.facts.draft.dtypes import own_dtype, read_dtypes, target_dtype
from ckptdoctor.facts.target import Target
from ckptdoctor.unknown import Unknown


@pytest.mark.parametrize("word", ["bfloat16", "torch.bfloat16", "BF16", "bf16"])
def test_a_dtype_is_understood_in_every_spelling(word: str) -> None:
    assert read_dtypes(config_of({"torch_dtype": word}), {}, None).declared == "bfloat16"


def test_an_engine_that_goes_by_the_config_takes_float16_for_float32_and_for_nothing() -> None:
    assert [own_dtype(v) for v in (["float32"], [None, None], ["bfloat16"], [None, "float16"])] == [
        "float16", "float16", "bfloat16", "float16",
    ]  # fmt: skip


def test_the_inner_config_of_a_target_says_its_dtype_before_the_outer() -> None:
    inner = {"dtype": "bfloat16"}
    wrapped = Target("t", None, None, "text_config", 1, 1, 1, (), None, config=inner, document={"dtype": "float32"})
    assert target_dtype(wrapped) == "bfloat16"
    assert isinstance(target_dtype(target_of({})), Unknown)
