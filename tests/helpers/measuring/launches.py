"""What the tests of launch lines share: lines of two engines, and what is read of one."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

from ckptdoctor.launch.line import Launch, parse_launch

SPECULATION = {"method": "eagle3", "model": "me/draft", "num_speculative_tokens": 3}
QUOTED = shlex.quote(json.dumps(SPECULATION))
AS_VLLM = Launch(text="", engine="vllm", method="eagle3", draft_path="me/draft", draft_tokens=3)


# What the tests of single options leave aside: the words behind a fact, and what nearly every line says.
ASIDE = {
    "engine_name": None, "release": None, "method_word": None, "target_path": None, "speculates": False,
    "open_fields": frozenset(),
}  # fmt: skip


def read(text: str) -> Launch:
    """The launch line without its text and without what is left aside."""
    found = parse_launch(text)
    assert found.text == text
    return replace(found, text="", **ASIDE)  # type: ignore[arg-type]
