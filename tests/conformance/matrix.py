"""Plans against the real loaders: engine × release × draft → agree or differ.

    python -m tests.conformance.matrix [ENGINE==RELEASE…] [DRAFT…] [--out FOLDER]

Makes the environments that are missing (see environments.py), runs the loaders on every draft, compares, prints the
matrix, and exits with 1 when any pair differs. Without releases: all that environments.py knows. Without drafts: those
of fixtures/trainers, the sick ones that fixtures/recipes build, their repaired copies, a fixed sample of drafts with
one odd value or tensor (mutants.py), and ../shared/drafts where that is there.
`--results FOLDER` compares results that were written before, and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.facts import Facts, describe, read_target
from ckptdoctor.repair.fixing import fix
from ckptdoctor.serving import contracts, load_plan
from tests.conformance import environments, oracles
from tests.conformance.compare import Answer, compare
from tests.conformance.drafts.alike import alike
from tests.conformance.drafts.mutants import fixed

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "drafts"
MARKS = {"agree": ".", "refused": "r", "differ": "X", "unknown": "?", "silent": "-"}

Matrix = dict[str, dict[str, Answer]]
"""Release (`sglang-0.5.4`) → name of the draft → answer."""


def drafts(built: Path) -> list[Path]:
    """All drafts at hand: those of trainers, those that recipes build (into `built`), repaired ones, those with one odd
    value, and shared ones."""
    found = [path for path in sorted((ROOT / "fixtures" / "trainers").iterdir()) if path.is_dir()]
    found += list(_recipes(built))
    found += list(repaired(built))
    found += list(fixed(built))
    if SHARED.is_dir():
        found += [path for path in sorted(SHARED.iterdir()) if (path / "config.json").is_file()]
    return found


def _recipes(built: Path) -> Iterator[Path]:
    """Drafts of recipes that a loader can open: one safetensors file and a config, and a target beside them."""
    sys.path.insert(0, str(ROOT / "fixtures"))
    from builder import build, load_recipes

    for name, recipe in load_recipes().items():
        if recipe.needs_torch:
            continue
        folder = built / f"recipe_{name}"
        build(recipe, folder)
        whole = (folder / "config.json").is_file() and (folder / "target" / "config.json").is_file()
        if whole and [path.name for path in folder.glob("*.safetensors*")] == ["model.safetensors"]:
            yield folder


def repaired(built: Path) -> Iterator[Path]:
    """What `fix` makes of the sick recipes, for the releases that they name: real loaders must take it as planned."""
    sys.path.insert(0, str(ROOT / "fixtures"))
    from builder import build, load_recipes

    for name, recipe in load_recipes().items():
        if recipe.needs_torch or recipe.wrong is None:
            continue
        source, copy = built / f"source_{name}", built / f"repaired_{name}"
        build(recipe, source)
        target = source / "target" if recipe.target is not None else None
        try:
            outcome = fix(
                source, copy, target=target, engines=recipe.engines, launch=recipe.launch, unsafe=True,
                trained_with=recipe.trained_with, captured_with=recipe.captured_with,
            )  # fmt: skip
        except CkptdoctorError:
            continue
        whole = (
            outcome.out is not None and (copy / "config.json").is_file() and (copy / "target" / "config.json").is_file()
        )
        if whole and [path.name for path in copy.glob("*.safetensors*")] == ["model.safetensors"]:
            yield copy


def answers(folder: Path, release: environments.Release, over: Mapping[Path, Path]) -> dict[str, Answer]:
    """The answer for each draft whose result, or that of the draft which is the same to a loader, is in `folder`."""
    found = {}
    for draft, first in over.items():
        result = folder / f"{first.name}.json"
        if result.exists():
            truth = json.loads(result.read_text(encoding="utf-8")) | {"draft": draft.name}
            found[draft.name] = _answer(draft, release, truth)
    return found


def _answer(draft: Path, release: environments.Release, truth: dict[str, object]) -> Answer:
    try:
        facts = facts_of(draft)
    except CkptdoctorError:
        return Answer("silent")
    if not facts.files.names_sound:  # a damaged file: the plan makes no claim
        return Answer("silent")
    return compare(load_plan(facts, contracts()[release.engine], release.release), truth)


@cache
def facts_of(draft: Path) -> Facts:
    """The facts of a draft and of the target beside it."""
    target = draft / "target"
    return describe(open_checkpoint(str(draft)), read_target(str(target)) if target.is_dir() else None)


def show(matrix: Matrix) -> str:
    """The matrix: a row for each draft, a column for each release, and the differences in words."""
    releases = list(matrix)
    names = list(dict.fromkeys(name for found in matrix.values() for name in found))
    width = max((len(name) for name in names), default=5)
    lines = [f"{number:>2} {release}" for number, release in enumerate(releases)]
    lines += ["", ". agree   r both refuse   X differ   - the load says nothing", ""]
    lines.append(" " * (width + 1) + "".join(f"{number:>3}" for number in range(len(releases))))
    for name in names:
        marks = [MARKS[matrix[r][name].word] if name in matrix[r] else " " for r in releases]
        lines.append(name.ljust(width + 1) + "".join(f"{mark:>3}" for mark in marks))
    lines.append("")
    for release in releases:
        count = {word: sum(a.word == word for a in matrix[release].values()) for word in MARKS}
        lines.append(
            f"{release}: {count['agree']} agree, {count['refused']} refused by both, {count['differ']} differ, "
            f"{count['unknown']} unknown to the plan, {count['silent']} say nothing"
        )
    for release in releases:
        for name, answer in matrix[release].items():
            lines += [f"{release} {name}: {difference}" for difference in answer.differences]
    return "\n".join(lines)


def run(
    releases: Sequence[environments.Release], over: Sequence[Path], out: Path, ready: bool = False
) -> tuple[Matrix, list[str]]:
    """The matrix, and why there is no column for a release; with `ready` the results are taken as they lie in `out`."""
    matrix: Matrix = {}
    missing = []
    places: dict[str, Path | str] = {r.name: out / r.name for r in releases}
    first = alike(over)
    if not ready:
        places = oracles.run(releases, out, list(dict.fromkeys(first.values())))
    for release in releases:
        place = places[release.name]
        if isinstance(place, Path) and place.is_dir():
            matrix[release.name] = answers(place, release, first)
        else:
            missing.append(f"{release.name}: {place if isinstance(place, str) else 'no results'}")
    return matrix, missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="ENGINE==RELEASE or a folder with a draft")
    parser.add_argument("--out", type=Path, help="keep the results of the loaders here")
    parser.add_argument("--results", type=Path, help="compare the results that lie here; run nothing")
    given = parser.parse_args(arguments)
    try:
        chosen = [environments.parse(text) for text in given.what if "==" in text]
    except environments.SetupError as error:
        print(error, file=sys.stderr)
        return 2
    releases = chosen or list(environments.RELEASES.values())
    with tempfile.TemporaryDirectory() as temporary:
        out = given.results or given.out or Path(temporary, "results")
        if given.results is None:
            oracles.prepare(releases)  # while the drafts are made
        over = [Path(text) for text in given.what if "==" not in text] or drafts(Path(temporary, "drafts"))
        matrix, missing = run(releases, over, out, given.results is not None)
    print(show(matrix))
    for text in missing:
        print(text, file=sys.stderr)
    differs = any(a.word == "differ" for found in matrix.values() for a in found.values())
    return 1 if differs else 2 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
