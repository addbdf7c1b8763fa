"""Entry points of engines: `vllm.general_plugins` and `sglang.srt.plugins`.

Both are called in every process of the engine, at its start (vllm/plugins/__init__.py load_general_plugins, read in
0.22.0 and 0.33.0; sglang/srt/plugins/__init__.py load_plugins, 0.5.11 and 0.5.23). vLLM does not catch what a plugin
raises. So nothing is imported here that imports more, and nothing can leave but a sentence on stderr.
"""

from __future__ import annotations

import os
import sys

from ckptdoctor.recorder.variables import SWITCH

__all__ = ["in_sglang", "in_vllm"]


def in_vllm() -> None:
    """The plugin for vLLM. Does nothing unless CKPTDOCTOR_RECORD is set; never raises."""
    _enter("vllm")


def in_sglang() -> None:
    """The plugin for SGLang. Does nothing unless CKPTDOCTOR_RECORD is set; never raises."""
    _enter("sglang")


def _enter(engine: str) -> None:
    if os.environ.get(SWITCH, "0") in ("", "0"):
        return
    try:
        from ckptdoctor.recorder.switching import switch_on

        switch_on(engine)
    except Exception as error:  # noqa: BLE001 - an engine must start whatever is wrong with its recorder
        print(f"ckptdoctor: the recorder is off: {type(error).__name__}: {error}", file=sys.stderr)
