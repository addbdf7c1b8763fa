"""The wiring of a release, seen in runs of the engine's own code: `python -m tests.conformance.wiring ENGINE==RELEASE…`

The oracles say what a loader does with stored tensors. This says what happens to a draft once it is loaded: which ids
the model runner reads, which states of the target the ids become and which of them arrive, what stands in force while
CUDA graphs are recorded, when `fc` runs, and what the draft takes for its residual. Each line names an entry of
rules/serving and says what it claims, what was seen, and whether they agree; the exit code is 1 on a difference.

What runs: a target class, built from a small config by the engine's own constructors, with its own decoder layers and
norms. Only attention and MLP are constants, which together add one to the residual stream: a captured state is then
the number of its boundary. Model runners cannot start without a GPU; their own methods run with a ghost in place of all
that surrounds them (`Ghost`). A class that a CPU cannot build is named with the reason and proves nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.conformance import environments
from tests.conformance.wiring_judge import Judge


def look(text: str) -> list[dict[str, Any]]:
    """Runs the probes in the environment of a release."""
    environment = environments.ensure(environments.parse(text))
    command = [
        str(environment.python),
        str(Path(__file__).resolve().parent / "inside" / "probes.py"),
        environment.release.engine,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment.variables())
    if done.returncode:
        raise RuntimeError(f"{text}: {done.stderr[-2000:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def main() -> int:
    different = 0
    for text in sys.argv[1:]:
        try:
            release = environments.parse(text)
            rows = look(text)
        except (environments.SetupError, RuntimeError) as error:
            print(error, file=sys.stderr)
            return 2
        judge = Judge(release.engine, release.release)
        for row in rows:
            reason = judge.judge(row)
            if reason is not None:
                print(f"{text} {row['kind']} {row['name']}: not seen: {reason}")
        for file, place, claimed, seen, agrees in judge.verdicts:
            different += not agrees
            print(f"{text} {file} {place}: {claimed} -> {seen}: {'agrees' if agrees else 'differs'}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
