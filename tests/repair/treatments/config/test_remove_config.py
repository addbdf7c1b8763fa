"""An `auto_map` whose code is not there is left out, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from treating.configs import case_of, changed, told_of
from treatment_cases import answer, draft_of, plan, write

from ckptdoctor.repair.edits import RemoveConfig
from ckptdoctor.repair.plan.case import Proposal, RefusedError
from ckptdoctor.repair.plan.treatments_known import code_of

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
