"""Plans as JSON: the objects of `plan`, `compat` and of a scan for a named engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ckptdoctor.jsontext import dumps
from ckptdoctor.serving import LoadPlan

__all__ = ["plan_data", "plans_text"]


def plan_data(plan: LoadPlan) -> dict[str, Any]:
    """One plan. `uninitialised`: used parameters that keep an initial value; `dropped`: stored names none takes."""
    return {
        "engine": plan.engine,
        "version": plan.version,
        "model_class": plan.model_class,
        "outcome": plan.outcome,
        "reasons": list(plan.reasons),
        "loaded": {p.name: list(p.keys) for p in plan.parameters if p.keys and not p.shared},
        "shared": [p.name for p in plan.parameters if p.shared],
        "uninitialised": list(plan.uninitialised),
        "dropped": list(plan.dropped),
        "parameters": [
            {
                "name": p.name, "shape": None if p.shape is None else list(p.shape), "state": p.state,
                "initial": p.initial, "used": p.used, "keys": list(p.keys),
                "parts_missing": list(p.parts_missing),
            }
            for p in plan.parameters
        ],
        "stored": [
            {"name": s.name, "fate": s.fate, "parameter": s.parameter, "why": s.why} for s in plan.stored
        ],
        "counts": {
            "parameters": len(plan.parameters),
            "loaded": sum(p.state == "loaded" for p in plan.parameters),
            "shared": sum(p.shared for p in plan.parameters),
            "uninitialised": len(plan.uninitialised),
            "dropped": len(plan.dropped),
        },
        "captured_boundaries": _list(plan.captured.get("extend")),
        "captured": {phase: _list(boundaries) for phase, boundaries in plan.captured.items()},
        "trained_boundaries": _list(plan.trained),
        "wiring": {k: _list(v) if isinstance(v, tuple) else v for k, v in plan.wiring.items()},
        "errors": [f"{e.stage}: {e.reason}" for e in plan.errors],
        "unproven": list(plan.unproven),
        "edits": [{"key": key, "value": value} for key, value in plan.edits],
        "remarks": list(plan.remarks),
        "release_remark": plan.release_remark,
        "executed": plan.executed,
    }  # fmt: skip


def _list(value: Sequence[int] | None) -> list[int] | None:
    return None if value is None else list(value)


def plans_text(plans: Sequence[dict[str, Any]], **more: Any) -> str:
    """The document that `plan` and `compat` print. `caveats`: what has to be said first."""
    caveats = dict.fromkeys(plan["release_remark"] for plan in plans if plan["release_remark"] is not None)
    return dumps({"schema_version": 1, "caveats": list(caveats), "plans": list(plans), **more})
