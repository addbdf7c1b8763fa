"""A probe as JSON, an interface: `rules/schema/probe.schema.json` describes it, tests hold it to that."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ckptdoctor.jsontext import dumps

if TYPE_CHECKING:
    from ckptdoctor.probe.probing import ProbeResult
    from ckptdoctor.probe.search.figures import Length, Step
    from ckptdoctor.probe.wiring import Wiring

__all__ = ["probe_data", "probe_text"]

SCHEMA_VERSION = 1


def probe_text(result: ProbeResult) -> str:
    """The document that `probe --format json` prints."""
    return dumps(probe_data(result))


def probe_data(result: ProbeResult) -> dict[str, Any]:
    """The result as the plain object of the document. `found` is null without a search."""
    from ckptdoctor.version import __version__

    samples, chance, found = result.samples, result.chance, result.found
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "ckptdoctor", "version": __version__},
        "path": result.path,
        "target": result.target,
        "verdict": result.verdict,
        "samples": {
            "form": samples.form, "texts": len(samples.items), "counted": samples.counted, "columns": samples.columns,
            "width": samples.width, "boundaries": list(samples.boundaries), "remarks": list(samples.remarks),
        },
        "stated": {**_wiring(result.stated), **_figures(result.steps, result.length)},
        "found": None
        if found is None
        else {
            **_wiring(found.wiring), **_figures(result.best_steps, found.length), "changed": list(found.changed),
            "boundaries": None if result.boundaries is None else list(result.boundaries),
            "better_than_stated_in": found.beats_stated_in, "open": list(found.open_parts), "tried": found.tried,
            "alternatives": [
                {"part": a.part, **_wiring(a.wiring), "accepted_length": a.length, "beaten_in": a.beaten_in}
                for a in found.alternatives
            ],
        },
        "chance": {
            "commonest_token": chance.share, "hits": chance.hits, "of": chance.of,
            "shuffled_accepted_length": chance.shuffled, "beaten_in": chance.beaten_in,
        },
        "entries": [{"key": entry.key, "value": entry.value} for entry in result.entries],
        "serving": [
            {
                "engine": row.engine, "releases": row.releases,
                "as_it_is": row.as_it_is, "with_entries": row.with_entries,
                "ids": None if row.ids is None else list(row.ids),
                "captured": None if row.captured is None else list(row.captured), "why": row.why,
            }
            for row in result.served
        ],
        "shapes": [{"name": flow.name, "shape": list(flow.shape)} for flow in result.flows],
    }  # fmt: skip


def _wiring(wiring: Wiring) -> dict[str, Any]:
    return {"wiring": {**asdict(wiring), "states": list(wiring.states)}}


def _figures(steps: tuple[Step, ...], length: Length) -> dict[str, Any]:
    return {
        "steps": [
            {
                "step": step.number, "hits": step.hits, "of": step.of, "accuracy": step.accuracy,
                "low": step.interval.low, "high": step.interval.high,
            }
            for step in steps
        ],
        "accepted_length": {"value": length.value, "low": length.interval.low, "high": length.interval.high},
    }  # fmt: skip
