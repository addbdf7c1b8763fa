"""What readers of samples know by name: fields, roles and files, as `rules/probe/samples.yaml` has them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import yaml

from ckptdoctor.resources import rules_dir

__all__ = ["sample_words"]


@lru_cache(maxsize=1)
def sample_words() -> Mapping[str, Any]:
    """The whole of `rules/probe/samples.yaml`."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = (rules_dir() / "probe" / "samples.yaml").read_text(encoding="utf-8")
    words: Mapping[str, Any] = yaml.load(text, Loader=loader)  # noqa: S506 - a safe loader, in C
    return words
