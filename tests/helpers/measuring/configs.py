"""What the tests of measured dtypes and rotary settings share: configs and targets from values."""

from __future__ import annotations

import json
from typing import Any

from ckptdoctor.checkpoint import read_json
from ckptdoctor.facts.config import Config
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.target import Target

KNOWN = knowledge()


def config_of(value: dict[str, Any]) -> Config:
    return Config(read_json(json.dumps(value).encode(), "config.json"), KNOWN)


def target_of(value: dict[str, Any], **more: Any) -> Target:
    kind = value.get("model_type")
    kind = kind if isinstance(kind, str) else None
    return Target("t", None, kind, "", 64, 8, 512, (), None, config=value, document=value, **more)
