"""Keep what the real loaders did with the drafts of fixtures/trainers: `python -m tests.conformance.record RESULTS`.

RESULTS is a folder written by `matrix --out` or `oracles`. Writes `recorded/<engine>-<release>.json`, one object for
each draft, without what a comparison does not need.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.conformance import environments

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
TRAINERS = HERE.parents[1] / "fixtures" / "trainers"
_KEPT = ("draft", "model_class", "parameters", "loaded", "partially", "untouched", "ignored", "error")


def main() -> int:
    """Run the command; the exit code."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    RECORDED.mkdir(exist_ok=True)
    for release in environments.RELEASES.values():
        results = Path(sys.argv[1], release.name)
        rows = []
        for draft in sorted(TRAINERS.iterdir()):
            if (result := results / f"{draft.name}.json").exists():
                truth = json.loads(result.read_text(encoding="utf-8"))
                rows.append(json.dumps({name: truth[name] for name in _KEPT}, separators=(",", ":")))
        if rows:
            text = "[\n" + ",\n".join(rows) + "\n]\n"
            (RECORDED / f"{release.name}.json").write_text(text, encoding="utf-8")
            print(f"{release.name}: {len(rows)} drafts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
