"""What the tests of audits take from those of the registry: a Hub on loopback."""

from __future__ import annotations

import sys
from pathlib import Path

REGISTRY = str(Path(__file__).parents[1] / "registry")
if REGISTRY not in sys.path:
    sys.path.append(REGISTRY)
