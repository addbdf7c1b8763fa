"""From a path to plans: what `plan` and `compat` of the command line call."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata

from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.errors import UsageError
from ckptdoctor.facts import Facts, describe, read_target
from ckptdoctor.findings import ServingRange
from ckptdoctor.launch.files import read_launch
from ckptdoctor.launch.line import Launch
from ckptdoctor.serving import LoadPlan, contracts, load_plan
from ckptdoctor.serving.compat import Range, compatibility, fitting_ids
from ckptdoctor.serving.config.config_edits import serving_edit
from ckptdoctor.serving.contract.contracts import Contract, Release
from ckptdoctor.serving.contract.releases import choose, remark_on
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance, provenance_of
from ckptdoctor.serving.outcomes import is_better
from ckptdoctor.summary import title
from ckptdoctor.text import listing, show

__all__ = [
    "Chosen",
    "better_releases",
    "chosen_engines",
    "compat_for",
    "installed_engine",
    "newest_plans",
    "other_ranges",
    "plan_for",
    "serving_block",
]

Chosen = tuple[Contract, str, "str | None"]
"""A release that was asked for: contract, release, and what has to be said first when nobody has read it."""

_OTHER_LAYERS = ("other_layers", "shifted_layers", "two_readings")

_LONGEST = 200
"""Characters of an engine with its release."""


def plan_for(
    path: str,
    engine: str,
    *,
    target: str | None,
    launch: str | None,
    trained_with: str | None,
    captured_with: str | None = None,
) -> tuple[LoadPlan, str]:
    """The plan of one release for the draft at `path`, and one line that says what the draft is."""
    contract, release, _ = chosen_engines([engine])[0]
    provenance = provenance_of(trained_with, captured_with)
    facts, line = _facts(path, target, launch)
    plan = load_plan(facts, contract, release, line, provenance)
    return better_releases(facts, plan, line, provenance), title(facts)


def chosen_engines(engines: Sequence[str]) -> list[Chosen]:
    """Contract, release and remark for `sglang`, `vllm==0.33.0`, `installed`…, each once. Raises `UsageError`."""
    found: dict[tuple[str, str], tuple[Contract, str, str | None]] = {}
    for engine in engines:
        if len(engine) > _LONGEST:  # Python itself refuses to read numbers of thousands of digits
            raise UsageError(f"'{show(engine, 40)}' is no engine or release")
        wanted = installed_engine() if engine.strip().lower() == "installed" else engine
        contract, release = choose(wanted)
        remark = remark_on(Release(contract, release))
        found.setdefault((contract.engine, release), (contract, release, remark))
    return list(found.values())


def better_releases(
    facts: Facts, plan: LoadPlan, launch: Launch | None = None, provenance: Provenance = NOTHING_SAID
) -> LoadPlan:
    """The plan with the releases of its engine that serve the draft better, and the ids that would fit this one."""
    if plan.outcome == "served":
        return plan
    contract = contracts()[plan.engine]
    plan = replace(
        plan,
        edits=serving_edit(
            facts, contract, plan, lambda changed: load_plan(changed, contract, plan.version, launch, provenance)
        ),
    )
    ranges = compatibility(facts, [plan.engine], launch, provenance)
    rows = [row for row in _rows(ranges) if is_better(row.outcome, plan.outcome)]
    # Where some releases serve it as trained, nobody needs those that almost do.
    rows = [row for row in rows if row.outcome == "served"] or rows
    plan = replace(plan, better=tuple(f"{row.name} {row.releases} {_SAID[row.outcome]}" for row in rows))
    if not any(r.plan.outcome == "served" for r in ranges):
        others = [e for e in _in_scans() if e != plan.engine]
        rows = _rows(compatibility(facts, others, launch, provenance))
        plan = replace(plan, elsewhere=tuple(f"{r.name} {r.releases}" for r in rows if r.outcome == "served"))
    if not any(c.kind in _OTHER_LAYERS for c in plan.capture_causes):
        return plan
    plan = replace(plan, ids_unread=Release(contract, plan.version).peek(contract.targets.get("ids_read_from")) == [])
    if plan.trained is None:
        return plan
    plan = replace(plan, fitting=fitting_ids(facts, contract, plan.version, plan.trained, launch))
    setting = contract.raw.get("layer_setting")
    if setting is None:
        return plan
    counted_from = {"boundary": 0, "layer_output": 1}[setting["counts"]]
    values = tuple(boundary - counted_from for boundary in plan.trained or ())
    return replace(plan, layer_option=setting["option"], layer_values=values)


_SAID = {"served": "serves it as trained", "degraded": "runs it, not quite as trained"}


def _in_scans() -> list[str]:
    return [name for name, contract in contracts().items() if contract.raw.get("in_scans")]


def _rows(ranges: Sequence[Range]) -> list[ServingRange]:
    """One row for neighbouring ranges of which a person would be told the same."""
    rows: list[ServingRange] = []
    for r in ranges:
        row = ServingRange(
            r.engine, r.name, r.first, r.last, r.is_newest, r.plan.outcome, next(iter(r.plan.reasons), r.plan.doubt),
            r.plan.fault,
        )  # fmt: skip
        before = rows[-1] if rows else None
        if before is not None and (before.engine, before.outcome, before.reason) == (r.engine, row.outcome, row.reason):
            rows[-1] = replace(row, first=before.first)
        else:
            rows.append(row)
    return rows


def serving_block(
    facts: Facts, launch: Launch | None = None, provenance: Provenance = NOTHING_SAID
) -> tuple[ServingRange, ...]:
    """How the engines that a scan speaks of serve the draft, release by release: the short form of `compat`."""
    if not facts.draft.kind.is_draft or not facts.files.names_sound:
        return ()
    return tuple(_rows(compatibility(facts, _in_scans(), launch, provenance)))


def other_ranges(
    facts: Facts, launch: Launch | None = None, provenance: Provenance = NOTHING_SAID
) -> tuple[ServingRange, ...]:
    """As `serving_block`, for the engines that a scan does not speak of."""
    main = _in_scans()
    others = [engine for engine in contracts() if engine not in main]
    return tuple(_rows(compatibility(facts, others, launch, provenance)))


def newest_plans(
    facts: Facts, launch: Launch | None = None, provenance: Provenance = NOTHING_SAID
) -> tuple[LoadPlan, ...]:
    """The whole plans of the newest known release of each engine that a scan speaks of."""
    if not facts.draft.kind.is_draft or not facts.files.names_sound:
        return ()
    return tuple(r.plan for r in compatibility(facts, _in_scans(), launch, provenance) if r.is_newest)


def compat_for(
    path: str,
    engines: Sequence[str],
    *,
    target: str | None,
    launch: str | None,
    trained_with: str | None,
    captured_with: str | None = None,
) -> tuple[tuple[Range, ...], str]:
    """The answers of all known releases (of the named engines, or of one release each: `vllm==0.33.0`), and one line
    that says what the draft is. Raises `UsageError`."""
    wanted: dict[tuple[str, str | None], Contract] = {}
    for engine in engines:
        contract, release, _ = chosen_engines([engine])[0]
        one = "==" in engine or engine.strip().lower() == "installed"
        wanted[contract.engine, release if one else None] = contract
    provenance = provenance_of(trained_with, captured_with)
    facts, line = _facts(path, target, launch)
    if not wanted:
        return compatibility(facts, None, line, provenance), title(facts)
    found: list[Range] = []
    for (name, version), contract in wanted.items():
        if version is None:
            found += compatibility(facts, [name], line, provenance)
        else:
            plan = load_plan(facts, contract, version, line, provenance)
            found.append(Range(name, contract.name, version, version, True, plan))
    return tuple(found), title(facts)


def installed_engine() -> str:
    """`ENGINE==RELEASE` of the engine in this Python environment. Raises `UsageError` unless there is exactly one."""
    found: list[str] = []
    packages = {name: c.raw["package"] for name, c in contracts().items() if "package" in c.raw}
    for engine, package in packages.items():
        with suppress(metadata.PackageNotFoundError):
            found.append(f"{engine}=={metadata.version(package)}")
    if not found:
        raise UsageError(f"none of {listing(packages, 12)} is installed in this environment")
    if len(found) > 1:
        raise UsageError(f"{listing(found, 12)} are installed in this environment; name the one that is meant")
    return found[0]


def _facts(path: str, target: str | None, launch: str | None) -> tuple[Facts, Launch | None]:
    line = read_launch(launch) if launch is not None else None
    known_target = read_target(target) if target is not None else None
    return describe(open_checkpoint(path, remote=True), known_target), line
