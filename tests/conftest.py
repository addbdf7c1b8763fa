"""What the tests share: the builder of the fixtures on the path, and each recipe built once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from recipe_cases import Built

ROOT = Path(__file__).resolve().parents[1]
for folder in (ROOT / "fixtures", ROOT / "tests" / "fixtures"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Every recipe that a test asks for, built once in the whole run."""
    from recipe_cases import built_in

    return built_in(tmp_path_factory.getbasetemp() / "recipes")
