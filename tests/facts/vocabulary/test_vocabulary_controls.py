"""Controls: what looks wrong in a vocabulary and is right. Nothing is said, with values of weights or without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builder import Recipe, build

from ckptdoctor.findings import Finding
from ckptdoctor.scanning import scan

FAMILIES = ("VOC", "TOK", "COV")

CONTROLS: dict[str, dict[str, Any]] = {
    # B34: d2t is all zeros, because the draft vocabulary is the whole one (SafeAILab/EAGLE#222).
    "zeros over the whole vocabulary": {"dialect": "specforge-eagle3-fullvocab"},
    # B42: a draft over the whole vocabulary has no d2t and no t2d (pytorch/executorch#20149).
    "no map over the whole vocabulary": {
        "dialect": "specforge-eagle3-fullvocab", "changes": (("drop", "^(d2t|t2d)$"),),
    },
    # B42: ids that are null or absent are no matter of the vocabulary.
    "ids that are null": {
        "dialect": "speculators-eagle3", "changes": (("set_config", {"eagle_aux_hidden_state_layer_ids": None}),),
    },
    # B117, B118: nothing on disk is wrong.
    "a draft of a trainer": {"dialect": "eagle-eagle3"},
    "a draft in the order of frequency": {"dialect": "model-optimizer-eagle3", "sizes": {"map_order": "frequency"}},
    "a draft with embeddings": {"dialect": "speculators-eagle3"},
}  # fmt: skip

TRAINED: dict[str, tuple[tuple[str, Any], ...]] = {
    "from the target's rows": (),
    "from random numbers": (("head", "random"),),
}


@pytest.mark.parametrize("trained", TRAINED)
@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("deep", [False, True])
def test_controls_stay_silent(name: str, trained: str, deep: bool, tmp_path: Path) -> None:
    control = CONTROLS[name]
    recipe = Recipe(
        id="control",
        imitates=name,
        source=("cases.md",),
        wrong=None,
        dialect=control["dialect"],
        sizes=control.get("sizes", {}),
        changes=(*TRAINED[trained], *control.get("changes", ())),
        target_weights=True,
    )
    folder = tmp_path / "draft"
    build(recipe, folder)
    assert [_told(f) for f in _of_vocabulary(folder, folder / "target", deep)] == []
    assert [_told(f) for f in _of_vocabulary(folder, None, deep)] == []


def _of_vocabulary(folder: Path, target: Path | None, deep: bool) -> list[Finding]:
    return [f for f in scan(folder, target=target, deep=deep).findings if f.rule.startswith(FAMILIES)]


def _told(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.message
