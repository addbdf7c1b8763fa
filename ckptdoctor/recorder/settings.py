"""What the environment asks of the recorder: CKPTDOCTOR_RECORD and CKPTDOCTOR_RECORD_SAMPLES."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ckptdoctor.recorder.variables import SAMPLES, SWITCH
from ckptdoctor.recorder.words import say

__all__ = ["Settings", "settings_of"]

MOST_TOKENS = 1_000_000


@dataclass(frozen=True)
class Settings:
    """`folder` takes the JSON report and the samples, None: only the log. `tokens` is how many tokens to save, 0: none.

    `remarks` say what could not be done as asked.
    """

    folder: Path | None = None
    tokens: int = 0
    remarks: tuple[str, ...] = ()


def settings_of(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings; a value that cannot be honoured becomes a remark and never an error."""
    asked, tokens = environment.get(SWITCH, ""), environment.get(SAMPLES, "").strip()
    folder, remarks = None, []
    if asked.strip() not in ("1", "true", "yes", "on"):
        folder = Path(asked).expanduser()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            remarks.append(say("settings", "no_folder", folder=folder, why=error.strerror or type(error).__name__))
            folder = None
    wanted = 0
    if tokens:
        if not (tokens.isascii() and tokens.isdecimal() and int(tokens[:9]) <= MOST_TOKENS and len(tokens) < 9):
            remarks.append(say("settings", "no_number", name=SAMPLES, value=tokens))
        elif folder is None:
            remarks.append(say("settings", "no_place", name=SAMPLES, switch=SWITCH))
        else:
            wanted = int(tokens)
    return Settings(folder, wanted, tuple(remarks))
