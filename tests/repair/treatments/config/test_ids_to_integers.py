"""Ids with one reading become a list of integers, and those with another stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from treating.configs import changed, is_safe, told_of
from treatment_cases import settings

IDS = "eagle_config.eagle_aux_hidden_state_layer_ids"


@pytest.mark.parametrize("written", ["[1, 3, 5]", "1,3,5", " 1 , 3,5 ", [1.0, 3.0, 5.0], ["1", "3", "5"]])
def test_ids_with_one_reading_become_a_list(written: Any, tmp_path: Path) -> None:
    told = told_of(changed("model-optimizer-eagle3", {IDS: written}), tmp_path, "AUX004")
    assert settings(told) == {IDS: [1, 3, 5]}
    assert is_safe(told)


def test_ids_keep_their_order(tmp_path: Path) -> None:
    told = told_of(changed("model-optimizer-eagle3", {IDS: "5, 1, -1"}), tmp_path, "AUX004")
    assert settings(told) == {IDS: [5, 1, -1]}


@pytest.mark.parametrize(
    "written", ["all", 5, "5", [1.5, 2], [1, None], [True, 2], "[" * 100_000, {"0": 1}, [[1, 2]], "1;2", "1 2", "[]"]
)
def test_ids_with_another_reading_stay(written: Any, tmp_path: Path) -> None:
    draft = changed("model-optimizer-eagle3", {IDS: written})
    assert "however it is read" in str(told_of(draft, tmp_path, "AUX004"))
