"""One command: environments where they are missing, then what the real loaders do with drafts.

    python -m tests.conformance.oracles OUT ENGINE==RELEASE… DRAFT…

writes OUT/<engine>-<release>/<draft>.json for each pair.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import environments

HERE = Path(__file__).resolve().parent


def run(release: environments.Release, out: Path, drafts: Sequence[Path]) -> Path:
    """Runs one release over drafts and gives the folder of its results."""
    environment = environments.ensure(release)
    folder = out.resolve() / release.name
    script = HERE / f"oracle_{release.engine}.py"
    command = [str(environment.python), str(script), str(folder), *(str(draft.resolve()) for draft in drafts)]
    subprocess.run(command, check=True, env=environment.variables())
    return folder


def main() -> int:
    if len(sys.argv) < 4:
        print(__doc__, file=sys.stderr)
        return 2
    out, *rest = sys.argv[1:]
    drafts = [Path(text) for text in rest if "==" not in text]
    status = 0
    for text in (text for text in rest if "==" in text):
        try:
            run(environments.parse(text), Path(out), drafts)
        except (environments.EnvironmentError_, subprocess.CalledProcessError) as error:
            print(f"{text}: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
