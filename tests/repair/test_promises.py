"""What a scan offers, `fix` makes: every repair that a report promises, by the command that the report gives."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from builder import Recipe
from click.testing import CliRunner
from recipe_cases import RECIPES, SHARED, TRAINERS, Built, need_torch

from ckptdoctor.cli.main import main
from ckptdoctor.findings import Examination, Finding, Severity
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.scanning import scan

SICK = Path(__file__).resolve().parents[2] / "fixtures" / "sick"
INPUTS = SHARED / "cases" / "inputs"
NEWEST = ("sglang==0.5.23", "vllm==0.33.0")
RANK = {"refused": 0, "broken": 0, "unknown": 1, "degraded": 2, "served": 3}


def offered(examination: Examination) -> list[Finding]:
    return [f for f in examination.findings if f.fix is not None and f.fix.refused is None]


def runs(examination: Examination) -> Iterator[tuple[list[str], list[Finding]]]:
    """The words of each command by which the report says that a repair is made, and what it promises."""
    offers = offered(examination)
    serious = [f for f in offers if f.severity is not Severity.NOTE]
    safe = [f for f in serious if f.fix is not None and f.fix.safety == "safe"]
    command = [shlex.split(c)[1:] for c in examination.next_commands if c.startswith("ckptdoctor fix ")]
    assert len(command) == bool(serious), examination.next_commands
    if safe:
        yield command[0], safe
    if len(serious) > len(safe):
        yield [w for w in command[0] if w != "--unsafe"] + ["--unsafe"], serious
    for note in offers:
        if note.severity is Severity.NOTE and note.fix is not None:
            more = ["--unsafe"] if note.fix.safety == "unsafe" else []
            yield ["fix", examination.path, "--out", "NEW", "--select", note.rule, *more], [note]


def identity(finding: Finding) -> tuple[object, ...]:
    return finding.rule, finding.location, finding.message


def hold(folder: Path, tmp_path: Path, engines: Sequence[str], recipe: Recipe | None = None) -> None:
    """Scan `folder`, run each command of the report, and see that the copy is what was promised."""
    target = folder / "target" if (folder / "target").is_dir() else None

    def look(at: Path) -> Examination:
        launch, deep = (recipe.launch, recipe.deep) if recipe is not None else (None, False)
        return scan(at, target=target, engines=engines, launch=launch, deep=deep)

    before = look(folder)
    more = [*(["--target", str(target)] if target else []), *(word for e in engines for word in ("--engine", e))]
    more += ["--deep"] if recipe is not None and recipe.deep else []
    for number, (words, promised) in enumerate(runs(before)):
        out = tmp_path / str(number)
        command = [str(out) if word == "NEW" else word for word in words]
        command += more if "--select" in words else []
        result = CliRunner().invoke(main, command)
        assert result.exit_code in (0, 1), (command, result.output)
        assert out.is_dir(), (command, result.output)
        after = look(out)
        left = {identity(f) for f in after.findings}
        assert not [f for f in promised if identity(f) in left], command
        # Nothing of the draft itself is found oftener than what was not promised.
        mine = Counter(f.rule for f in promised if not f.engines and f.severity is not Severity.NOTE)
        had, has = (Counter(f.rule for f in e.findings) for e in (before, after))
        assert not {rule for rule, count in mine.items() if has[rule] > had[rule] - count}, command
        old, new = ({f.rule for f in e.findings if f.severity is Severity.ERROR} for e in (before, after))
        refused = {f"{p['engine']}=={p['version']}" for p in before.plans if p["outcome"] == "refused"}
        about = {f.rule for f in after.findings if f.engines and set(f.engines) <= refused}
        assert not new - old - {skip.rule for skip in before.skipped} - about, command
        for one, other in zip(before.plans, after.plans, strict=True):
            assert RANK[str(other["outcome"])] >= RANK[str(one["outcome"])], (command, other["reasons"])
        if "--unsafe" not in command:
            _are_proven(before, after, promised)


def _are_proven(before: Examination, after: Examination, promised: Sequence[Finding]) -> None:
    """A safe repair rests on nothing likely, and the engines of its finding serve the copy or do better."""
    labels = {engine for f in promised for engine in f.engines}
    assert all(f.confidence.value == "certain" or f.engines for f in promised)
    read = {engine for f in promised if f.confidence.value != "certain" for engine in f.engines}
    served = {f"{p['engine']}=={p['version']}" for p in after.plans if p["outcome"] == "served"}
    assert read <= served
    for one, other in zip(before.plans, after.plans, strict=True):
        if f"{one['engine']}=={one['version']}" in labels and other["outcome"] != "served":
            assert other["outcome"] == "degraded"
            assert RANK[str(one["outcome"])] < 2 or len(other["reasons"]) < len(one["reasons"])


def cases() -> list[object]:
    """Each recipe in which a rule with a repair fires, with the engines that it names."""
    found: list[object] = []
    repaired = {rule.id for rule in rulebook() if rule.fix is not None}
    for recipe in RECIPES.values():
        marks = [pytest.mark.torch] if recipe.needs_torch else []
        if recipe.id.endswith("link-not-followed"):
            continue  # what lies behind a link is not copied
        if repaired & set(recipe.expect):
            found.append(pytest.param(recipe, tuple(recipe.engines), id=recipe.id, marks=marks))
    return found


@pytest.mark.parametrize(("recipe", "engines"), cases())
def test_recipes(recipe: Recipe, engines: tuple[str, ...], built: Built, tmp_path: Path) -> None:
    hold(built.path(recipe), tmp_path, engines, recipe)


@pytest.mark.parametrize(
    "folder",
    [pytest.param(p, id=p.name) for root in (SICK, TRAINERS) for p in sorted(root.iterdir()) if p.is_dir()],
)
@pytest.mark.parametrize("engines", [(), NEWEST], ids=["unnamed", "newest"])
def test_fixtures(folder: Path, engines: tuple[str, ...], tmp_path: Path) -> None:
    if any(folder.glob("*.bin")):
        need_torch()
    hold(folder, tmp_path, engines)


@pytest.mark.shared
@pytest.mark.parametrize(
    "folder", [pytest.param(p, id=p.name) for p in (sorted(INPUTS.iterdir()) if INPUTS.is_dir() else []) if p.is_dir()]
)
@pytest.mark.parametrize("engines", [(), NEWEST], ids=["unnamed", "newest"])
def test_inputs(folder: Path, engines: tuple[str, ...], tmp_path: Path) -> None:
    hold(folder, tmp_path, engines)
