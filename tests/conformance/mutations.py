"""One changed key, or one changed tensor, at a time: what a plan says against what the real loader does.

    python -m tests.conformance.mutations sglang==0.5.23 vllm==0.33.0 [--keys] [--tensors] [--paths] [--sample N]

Takes clean drafts of each class (mutants.py), changes one thing in each (odd_values.py), runs the release's own loader
(oracles.py) and compares. Prints, class by class, what was planned and what came of it, then every contradiction:

* the plan claims a load, and the loader stops;
* the plan refuses, and the loader loads;
* the loader loads otherwise than planned, parameter by parameter.

A plan that claims nothing contradicts nothing; how many there are is printed. `--results FOLDER` keeps what the loaders
did, by the content of each draft, so that a second run starts no loader (take another folder after a change of the
oracles); `--out FOLDER` keeps the drafts. Exits with 1 where anything contradicts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ckptdoctor.serving import LoadPlan, contracts
from tests.conformance import environments, matrix, oracles
from tests.conformance.compare import Answer, compare
from tests.conformance.drafts.mutants import Mutant, mutants

CAME = ("whole", "in part", "stops", "nothing said")
"""What a load gives: every parameter that the draft itself must fill, not every one, or an error."""

_LATE = ("start", "first_forward")
_AT_ONCE = 1500
_SECONDS = "20"


@dataclass
class Case:
    """One mutant in one release: the plan's outcome, what came of the load, and what contradicts."""

    mutant: Mutant
    outcome: str
    came: str
    answer: Answer

    @property
    def is_served_wrongly(self) -> bool:
        """Whether a plan of `served` met a loader that stops, or that leaves parameters unfilled."""
        return self.outcome == "served" and self.came in ("stops", "in part") and self.answer.word != "silent"


@dataclass
class Sweep:
    """All cases of one release."""

    release: str
    cases: list[Case] = field(default_factory=list)

    def table(self) -> str:
        """Class by class: planned outcomes over what came of the load."""
        lines = [f"{self.release}: {len(self.cases)} drafts"]
        names = list(dict.fromkeys(case.mutant.base for case in self.cases))
        for base in [*names, ""]:
            cases = [case for case in self.cases if base in ("", case.mutant.base)]
            count = Counter((case.outcome, case.came) for case in cases)
            lines.append(f"  {base or 'all'}: {len(cases)}")
            for outcome in dict.fromkeys(case.outcome for case in cases):
                said = ", ".join(f"{count[outcome, came]} {came}" for came in CAME if count[outcome, came])
                lines.append(f"    planned {outcome}: {said}")
        return "\n".join(lines)

    def contradictions(self) -> list[str]:
        """Each one in words."""
        return [
            f"{self.release} {case.mutant.base} [{case.outcome}] {case.mutant.what}: {difference}"
            for case in self.cases
            for difference in case.answer.differences
        ]

    def figures(self) -> str:
        """What the closing line of a run says."""
        wrong = sum(case.is_served_wrongly for case in self.cases)
        refused = sum(case.answer.word == "differ" and case.outcome == "refused" for case in self.cases)
        differ = sum(case.answer.word == "differ" for case in self.cases)
        unknown = sum(case.outcome == "unknown" for case in self.cases)
        return (
            f"{self.release}: {len(self.cases)} drafts; {differ} contradict; {wrong} planned as served stop or load in "
            f"part, {refused} refused load; {unknown} plans say that they do not know "
            f"({100 * unknown / max(1, len(self.cases)):.1f} %)"
        )


def case_of(
    mutant: Mutant, folder: Path, release: environments.Release, truth: dict[str, Any], aside: set[str]
) -> Case:
    """`aside` are the parameters that need nothing from the draft: the target's, and those that are never read."""
    facts = matrix.facts_of(folder)
    plan = load_plan_of(facts, release)
    early = replace(plan, errors=tuple(e for e in plan.errors if e.stage not in _LATE))
    answer = _without_integers(mutant, compare(early, truth))
    outcome = "unknown" if answer.word == "unknown" else plan.outcome
    if plan.outcome == "refused" and not early.errors:
        outcome = "refused later"
    came = "stops"
    if truth["error"] is not None and answer.word == "silent":
        came = "nothing said"
    elif truth["error"] is None:
        # A bias of zeros is what a draft without biases computes.
        zeros = {name for name, held in truth["initial"].items() if held == "zeros" and name.endswith(".bias")}
        free = zeros | {p.name for p in plan.parameters if p.shared or not p.used}
        left = {*truth["untouched"], *truth["partially"]} - aside - free
        came = "in part" if left else "whole"
    return Case(mutant, outcome, came, answer)


def load_plan_of(facts: Any, release: environments.Release) -> LoadPlan:
    from ckptdoctor.serving import load_plan

    return load_plan(facts, contracts()[release.engine], release.release)


def sampled(found: Sequence[Mutant], count: int | None, seed: int) -> list[Mutant]:
    """All clean drafts, and so many of the others, the same ones for the same seed."""
    if count is None:
        return list(found)
    others = [mutant for mutant in found if mutant.kind != "clean"]
    taken = set(random.Random(seed).sample(range(len(others)), min(count, len(others))))
    chosen = {id(other) for at, other in enumerate(others) if at in taken}
    return [mutant for mutant in found if mutant.kind == "clean" or id(mutant) in chosen]


def run(
    releases: Sequence[environments.Release],
    chosen: Mapping[str, Sequence[Mutant]],
    drafts: Path,
    results: Path,
    ready: bool = False,
) -> list[Sweep]:
    """The sweep of each release over the mutants of its engine; loaders run for what `results` does not hold.

    With `ready` they run for none, and what has no result is left out.
    """
    sweeps = []
    for release in releases:
        folders = {mutant.name: mutant.write(drafts) for mutant in chosen[release.engine]}
        missing = [path for name, path in folders.items() if not (results / release.name / f"{name}.json").is_file()]
        missing = [] if ready else missing
        random.Random(0).shuffle(missing)  # what is there after half of the time is a fair sample
        for at in range(0, len(missing), _AT_ONCE):
            place = oracles.run([release], results, missing[at : at + _AT_ONCE])[release.name]
            if isinstance(place, str):
                print(f"{release.name}: {place}", file=sys.stderr)
    for release in releases:
        sweeps.append(_sweep(release, chosen[release.engine], drafts, results))
    return sweeps


def _sweep(release: environments.Release, chosen: Iterable[Mutant], drafts: Path, results: Path) -> Sweep:
    sweep = Sweep(release.name)
    aside: dict[str, set[str]] = {}
    for mutant in chosen:
        file = results / release.name / f"{mutant.name}.json"
        if not file.is_file():
            continue
        folder = mutant.write(drafts)
        if mutant.kind == "clean":
            plan = load_plan_of(matrix.facts_of(folder), release)
            aside[mutant.base] = {p.name for p in plan.parameters if p.shared or not p.used}
        truth = json.loads(file.read_text(encoding="utf-8"))
        if truth["error"] is None and truth["model_class"] is None:  # its loader has only begun
            continue
        sweep.cases.append(case_of(mutant, folder, release, truth, aside.get(mutant.base, set())))
    return sweep


def _without_integers(mutant: Mutant, answer: Answer) -> Answer:
    """Integers cannot be marked (see marked_tensors.py): where such a tensor went is not seen."""
    name = mutant.what.removesuffix(" in I32")
    if mutant.kind != "tensors" or name == mutant.what or answer.word != "differ":
        return answer
    seen = tuple(text for text in answer.differences if name not in text)
    return Answer("differ", seen) if seen else Answer("agree")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", help="ENGINE==RELEASE")
    for kind in ("keys", "tensors", "paths"):
        parser.add_argument(f"--{kind}", action="store_true", help="these changes (without any such option: all)")
    parser.add_argument("--sample", type=int, help="this many drafts of each engine, taken by chance")
    parser.add_argument("--seed", type=int, default=0, help="of the chance")
    parser.add_argument("--base", action="append", help="drafts of this class alone")
    parser.add_argument("--out", type=Path, help="keep the drafts here")
    parser.add_argument("--results", type=Path, help="keep what the loaders did here, and take it from there")
    parser.add_argument("--ready", action="store_true", help="compare what lies in --results; run nothing")
    given = parser.parse_args(arguments)
    try:
        releases = [environments.parse(text) for text in given.releases]
    except environments.SetupError as error:
        print(error, file=sys.stderr)
        return 2
    os.environ.setdefault("CKPTDOCTOR_CONFORMANCE_SECONDS", _SECONDS)
    kinds = [kind for kind in ("keys", "tensors", "paths") if getattr(given, kind)] or ["keys", "tensors", "paths"]
    made = [mutant for mutant in mutants(kinds) if given.base is None or mutant.base in given.base]
    chosen = {
        engine: sampled([m for m in made if engine in m.engines], given.sample, given.seed)
        for engine in {release.engine for release in releases}
    }
    with tempfile.TemporaryDirectory() as temporary:
        drafts, results = given.out or Path(temporary, "drafts"), given.results or Path(temporary, "results")
        sweeps = run(releases, chosen, drafts, results, given.ready)
    for sweep in sweeps:
        print(sweep.table())
    contradictions = [text for sweep in sweeps for text in sweep.contradictions()]
    print("\n".join(contradictions))
    for sweep in sweeps:
        print(sweep.figures())
    return 1 if contradictions else 0


if __name__ == "__main__":
    sys.exit(main())
