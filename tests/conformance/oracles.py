"""One command: environments where they are missing, then what the real loaders do with drafts.

    python -m tests.conformance.oracles OUT ENGINE==RELEASE… DRAFT…

writes OUT/<engine>-<release>/<draft>.json for each pair, and what the engines print to OUT/<engine>-<release>/log.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tests.conformance import environments

HERE = Path(__file__).resolve().parent


def run(releases: Sequence[environments.Release], out: Path, drafts: Sequence[Path]) -> dict[str, Path | str]:
    """Runs releases over drafts, as many at once as there are cores.

    Gives per release (`sglang-0.5.4`) the folder of its results, or why there are none.
    """
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return dict(
            zip((r.name for r in releases), pool.map(partial(_run, out=out, drafts=drafts), releases), strict=True)
        )


def prepare(releases: Sequence[environments.Release]) -> None:
    """Begins to make the environments that are missing. `run` waits for them, and tells what is wrong with one."""

    def make(release: environments.Release) -> None:
        with contextlib.suppress(environments.SetupError):
            environments.ensure(release)

    pool = ThreadPoolExecutor(os.cpu_count() or 1)
    for release in releases:
        pool.submit(make, release)
    pool.shutdown(wait=False)


def _run(release: environments.Release, out: Path, drafts: Sequence[Path]) -> Path | str:
    folder = out.resolve() / release.name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        environment = environments.ensure(release)
    except environments.SetupError as error:
        return str(error)
    script = HERE / "inside" / f"oracle_{release.engine}.py"
    command = [str(environment.python), str(script), str(folder), *(str(draft.resolve()) for draft in drafts)]
    with (folder / "log").open("w", encoding="utf-8") as log:
        done = subprocess.run(command, check=False, env=environment.variables(), stdout=log, stderr=subprocess.STDOUT)
    return folder if done.returncode == 0 else f"exit {done.returncode}, see {folder / 'log'}"


def main() -> int:
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    out, *rest = sys.argv[1:]
    releases = [environments.parse(text) for text in rest if "==" in text]
    found = run(releases, Path(out), [Path(text) for text in rest if "==" not in text])
    for name, result in found.items():
        print(f"{name}: {result}")
    return 0 if all(isinstance(result, Path) for result in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
