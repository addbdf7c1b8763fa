"""Do the contracts still hold for the newest release of each engine?

    python -m tests.conformance.drift [ENGINE…]

Asks the package index for the newest release, runs its loaders in the environment of the newest release known here,
and compares them with the plans, which take a newer release for the newest known one. Exits with 1 when a pair differs,
with 2 when a release cannot be fetched or does not start: then its environment has to be described in environments.py.
The lists of classes are read in its sources again: for a release that they were read from they must be the same (else
1), and of a newer one it says what is new.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from packaging.version import Version

from ckptdoctor.serving import contracts
from tests.conformance import class_lists, environments, matrix

ENGINES = ("sglang", "vllm")


def newest_on_index(engine: str) -> str:
    """The newest final release that pip finds. Raises `SetupError` when it finds none."""
    command = [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", engine]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    found = re.search(rf"^{engine} \((\S+)\)", done.stdout, re.MULTILINE)
    if found is None:
        raise environments.SetupError(f"pip finds no release of {engine}: {done.stderr.strip()[-300:]}")
    return found[1]


def environment_for(engine: str, release: str) -> environments.Release:
    """The release as environments.py describes it, or as the newest known one with another version."""
    known = [r for (name, _), r in environments.RELEASES.items() if name == engine]
    exact = next((r for r in known if r.release == release), None)
    return exact or replace(max(known, key=lambda r: Version(r.release)), release=release)


def check(engine: str, over: Sequence[Path], out: Path) -> int:
    """Compare one engine and say what was found; the exit code."""
    try:
        release = newest_on_index(engine)
    except environments.SetupError as error:
        print(error, file=sys.stderr)
        return 2
    read = contracts()[engine].newest
    newer = Version(release) > Version(read)
    print(
        f"{engine}: the contract was read up to {read}; the index has {release}" + ("" if newer else ", nothing newer")
    )
    found, missing = matrix.run([environment_for(engine, release)], over, out)
    if missing:
        print("\n".join(missing), file=sys.stderr)
        return 2
    differing = {name: a for answers in found.values() for name, a in answers.items() if a.word == "differ"}
    if differing:
        print(matrix.show(found))
        return 1
    words = [a.word for answers in found.values() for a in answers.values()]
    counted = f"{words.count('agree')} agree, {words.count('refused')} refused by both"
    print(f"{engine} {release}: the contract holds ({counted})")
    return 0


def check_lists(engine: str) -> int:
    """Compare the lists of classes with the newest release and say what was added or removed; the exit code."""
    try:
        code, lines = class_lists.check(class_lists.ENGINES[engine], newest_on_index(engine))
    except environments.SetupError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(lines))
    return code


def main(arguments: Sequence[str]) -> int:
    """Run the command; the worst exit code."""
    with tempfile.TemporaryDirectory() as temporary:
        over = matrix.drafts(Path(temporary, "drafts"))
        codes = [
            code
            for engine in arguments or ENGINES
            for code in (check_lists(engine), check(engine, over, Path(temporary, "results")))
        ]
        return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
