"""The probes of one engine, in an environment of a release: `probes.py ENGINE` writes what was seen as JSON."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

from counting import in_child
from sglang_probes import Sglang
from vllm_probes import Vllm


def inside(engine: str) -> list[dict[str, Any]]:
    warnings.filterwarnings("ignore")
    module: Any = {"sglang": Sglang, "vllm": Vllm}[engine]()
    rows = []
    for kind, name, work in module.probes():
        rows.append({"kind": kind, "name": name, **in_child(work)})
    return rows


if __name__ == "__main__":
    out = os.dup(1)
    os.dup2(2, 1)
    answer_rows = inside(sys.argv[1])
    with os.fdopen(out, "w") as stream:
        json.dump(answer_rows, stream)
