"""The setup of an audit from what a person asked for and what the project's policy asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from ckptdoctor.audit.context import context_of
from ckptdoctor.audit.work import Setup
from ckptdoctor.launch.line import parse_launch
from ckptdoctor.planning import chosen_engines
from ckptdoctor.policy import Policy, read_baseline
from ckptdoctor.serving.layers.provenance import provenance_of

__all__ = ["setup_for"]


def setup_for(
    policy: Policy,
    baseline: Path | None = None,
    *,
    rules: Sequence[Path] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    engines: Sequence[str] = (),
    launch: str | None = None,
    deep: bool = False,
    target: str | None = None,
    today: date | None = None,
) -> Setup:
    """What workers have to know. What `policy` asks for holds where the other arguments leave it open, as in a scan.

    Raises `UsageError` for a launch line, engines or a baseline that cannot be read.
    """
    known = baseline if baseline is not None else policy.baseline
    read = read_baseline(known) if known is not None else None
    line = launch or policy.launch
    if line is not None:
        parse_launch(line)
    named = tuple(engines) or policy.engines
    chosen_engines(named)  # a slip of the pen is told once, and not of each draft
    setup = Setup(
        context="",
        policy=policy,
        baseline=read,
        rules=(*policy.rules, *rules),
        select=tuple(select),
        ignore=tuple(ignore),
        engines=named,
        launch=line,
        provenance=provenance_of(policy.trained_with, policy.captured_with),
        deep=deep or policy.deep,
        target=target if target is not None else policy.target,
    )
    return replace(setup, context=context_of(setup, today or date.today()))
