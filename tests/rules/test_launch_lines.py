"""Launch lines of engines' and trainers' documents: beside a sound draft of their kind they add no finding."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from recipe_cases import RECIPES, scan_of

from ckptdoctor.scanning import scan

DOCUMENTED = [
    (row["draft"], row["line"])
    for row in yaml.safe_load((Path(__file__).parent / "documented_lines.yaml").read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("name", "line"), DOCUMENTED)
def test_a_documented_line_is_left_in_peace(name: str, line: str, tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    without = {(f.rule, f.severity) for f in scan_of(RECIPES[name], draft).findings}
    found = scan(draft, target=draft / "target", launch=line)
    assert {(f.rule, f.severity) for f in found.findings} == without


@pytest.mark.parametrize(
    "line", ["python serve.py --draft x", "bash run.sh", "curl localhost:8000", "sbatch --nodes 2 job"]
)
def test_a_line_of_no_known_engine_is_not_judged(line: str, tmp_path: Path) -> None:
    draft = tmp_path / "draft"
    scan_of(RECIPES["specforge-eagle3"], draft)
    found = scan(draft, target=draft / "target", launch=line)
    assert not [finding for finding in found.findings if finding.rule.startswith("LCH")]
