"""The commands that an answer names, with the paths and the engine that are known filled in."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

__all__ = ["filled"]

_PLACEHOLDERS = {"draft": "DRAFT", "target": "TARGET", "engine": "ENGINE", "tokens": "N", "length": "LENGTH"}
_OPTIONAL = re.compile(r" --(?:launch|engine|target) \{(launch|engine|target)\}")
_LONGEST = 400


def filled(command: str, values: Mapping[str, str | None]) -> str:
    """The command with `values` quoted for a shell; what is not known becomes a word in capitals, or is left out.

    `--launch` and, where the command does without it, `--engine` are left out; the target is always worth naming.
    """
    known = {name: value for name, value in values.items() if value is not None and _fit(value)}

    def option(match: re.Match[str]) -> str:
        name = match[1]
        keep = name in known or name == "target" or (name == "engine" and command.startswith("ckptdoctor plan"))
        return match[0] if keep else ""

    # What was given is a whole piece of a command and quoted already.
    number = known.get("number", "LENGTH --draft-tokens N")
    text = _OPTIONAL.sub(option, command).replace("{number}", "\0")
    for name in ("draft", "target", "engine", "launch", "tokens", "length"):
        text = text.replace(f"{{{name}}}", shlex.quote(known[name]) if name in known else _PLACEHOLDERS.get(name, ""))
    return text.replace("\0", number)


def _fit(value: str) -> bool:
    # A path from a log with a control character in it is no path that a person could type.
    return 0 < len(value) <= _LONGEST and value.isprintable()
