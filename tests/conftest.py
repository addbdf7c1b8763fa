"""What the tests share: each recipe built once, and how property tests run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from recipe_cases import Built

SLOW = [HealthCheck.too_slow]
# What ckptdoctor itself does wrong is counted and told to a person; in its tests it fails.
os.environ["CKPTDOCTOR_STRICT"] = "1"

# A busy machine is no failure: nothing is timed. `steady` tries the same few examples every time, so that no run fails
# by luck; `searching` looks for new ones, and prints what brings a found one back. A test sets no number of its own.
settings.register_profile("steady", max_examples=30, derandomize=True, deadline=None, suppress_health_check=SLOW)
settings.register_profile(
    "searching", max_examples=300, derandomize=False, deadline=None, suppress_health_check=SLOW, print_blob=True
)
settings.load_profile(os.environ.get("CKPTDOCTOR_HYPOTHESIS") or "steady")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Every recipe that a test asks for, built once in the whole run."""
    from recipe_cases import built_in

    return built_in(tmp_path_factory.getbasetemp() / "recipes")
