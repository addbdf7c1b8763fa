"""From a path to plans: what `plan` and `compat` of the command line call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.errors import UsageError
from ckptdoctor.facts import Facts, describe, read_target
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.facts.launch import Launch, parse_launch
from ckptdoctor.serving import LoadPlan, contracts, load_plan
from ckptdoctor.serving.compat import Range, compatibility
from ckptdoctor.serving.contracts import choose
from ckptdoctor.summary import title
from ckptdoctor.text import listing, show

__all__ = ["compat_for", "installed_engine", "plan_for"]


def plan_for(
    path: str, engine: str, *, target: str | None, launch: str | None, trained_with: str | None
) -> tuple[LoadPlan, str]:
    """The plan of one release for the draft at `path`, and one line that says what the draft is."""
    facts, line = _facts(path, target, launch)
    requirement = installed_engine() if engine == "installed" else engine
    contract, release, remark = choose(requirement)
    plan = load_plan(facts, contract, release, line, _writer(trained_with))
    if remark:
        plan = replace(plan, remarks=(remark, *plan.remarks))
    return plan, title(facts)


def compat_for(
    path: str, engines: Sequence[str], *, target: str | None, launch: str | None, trained_with: str | None
) -> tuple[tuple[Range, ...], str]:
    """The answers of all known releases (of the named engines), and one line that says what the draft is."""
    facts, line = _facts(path, target, launch)
    for engine in engines:
        if engine not in contracts():
            raise UsageError(f"unknown engine '{show(engine)}'; known are {listing(sorted(contracts()), 12)}")
    return compatibility(facts, engines or None, line, _writer(trained_with)), title(facts)


def installed_engine() -> str:
    """`ENGINE==RELEASE` of the engine in this Python environment. Raises `UsageError` when there is none."""
    for engine in contracts():
        try:
            return f"{engine}=={metadata.version(engine)}"
        except metadata.PackageNotFoundError:
            continue
    raise UsageError(f"none of {listing(sorted(contracts()), 12)} is installed in this environment")


def _facts(path: str, target: str | None, launch: str | None) -> tuple[Facts, Launch | None]:
    line = parse_launch(launch) if launch is not None else None
    known_target = read_target(target) if target is not None else None
    return describe(open_checkpoint(path), known_target), line


def _writer(trained_with: str | None) -> str | None:
    if trained_with is None:
        return None
    name = trained_with.partition("==")[0].lower()
    if name not in knowledge().writers:
        raise UsageError(f"unknown writer '{show(name)}'; known are {listing(sorted(knowledge().writers), 12)}")
    return name
