"""The environment variables of the recorder. The entry points of engines import this, and it imports nothing."""

from __future__ import annotations

__all__ = ["SAMPLES", "SWITCH"]

SWITCH = "CKPTDOCTOR_RECORD"
SAMPLES = "CKPTDOCTOR_RECORD_SAMPLES"
