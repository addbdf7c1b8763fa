"""Which commands are worth running after a scan."""

from __future__ import annotations

import shlex
from collections.abc import Container, Sequence

from ckptdoctor.facts import Target
from ckptdoctor.findings import Severity
from ckptdoctor.rulebook import Judgement
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance
from ckptdoctor.text import show

__all__ = ["next_commands"]


def next_commands(
    path: str,
    target: Target | None,
    judgement: Judgement,
    shipped: Container[str],
    engines: Sequence[str] = (),
    folder: bool = True,
    deep: bool = False,
    provenance: Provenance = NOTHING_SAID,
    launch: str | None = None,
) -> tuple[str, ...]:
    """Commands worth running next: an explanation of the worst finding (of a rule whose id is in `shipped`: others
    need their folder), the repair if one is possible and a whole `folder` was scanned, and the scan with what was
    missing. `deep`: values of weights were read, and a repair may need them too, as well as the `launch` line."""
    commands = [f"ckptdoctor explain {f.rule}" for f in judgement.findings if f.rule in shipped][:1]
    here = path
    possible = [f.fix for f in judgement.findings if f.fix and not f.fix.refused and f.severity is not Severity.NOTE]
    if possible and folder:
        if path.startswith("hf://"):  # only files of this machine are repaired
            here, (repo, _, revision) = "FOLDER", path.removeprefix("hf://").partition("@")
            fetch = ["hf", "download", repo, *(["--revision", revision] if revision else []), "--local-dir", here]
            commands.append(show(shlex.join(fetch), 4096))
        words = ["ckptdoctor", "fix", here, "--out", "NEW"]
        words += ["--target", target.path] if target is not None else []
        words += [word for engine in engines for word in ("--engine", engine)]
        words += _said(provenance)
        words += ["--launch", launch] if launch is not None else []
        words += ["--deep"] if deep else []
        words += [] if any(fix.safety == "safe" for fix in possible) else ["--unsafe"]
        commands.append(show(shlex.join(words), 4096))
    if target is None and any("--target" in skip.needs for skip in judgement.skipped):
        commands.append(f"ckptdoctor scan {show(shlex.quote(path))} --target PATH-OF-THE-TARGET")
    return tuple(commands)


def _said(provenance: Provenance) -> list[str]:
    """The options that say the same again."""
    words = ["--trained-with", provenance.trained_with] if provenance.trained_with is not None else []
    return words + (["--captured-with", "==".join(provenance.captured_with)] if provenance.captured_with else [])
