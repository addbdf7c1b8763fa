"""Plans as JSON: the objects of `plan`, `compat` and of a scan for a named engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from ckptdoctor.jsontext import dumps
from ckptdoctor.shapes import Count, Shape, encode, item

if TYPE_CHECKING:
    from ckptdoctor.serving import LoadPlan

__all__ = ["Outcome", "Plan", "plan_data", "plans_text"]

Outcome: TypeAlias = Annotated[
    Literal["served", "degraded", "broken", "refused", "unknown"],
    "served: as trained; degraded: runs, something is not as trained; broken: runs and accepts next to nothing; "
    "refused: stops at start, load or first forward; unknown: what decides between the others is not known (see "
    "reasons and unproven).",
]
Boundaries: TypeAlias = Annotated[list[Count] | None, "Boundaries; null when they could not be known."]


class Parameter(Shape):
    name: str
    shape: list[Count] | None
    state: Literal["loaded", "partly", "shared", "initial"] = item("Where its values come from.")
    initial: Literal["ones", "zeros", "identity", "random", "empty"] = item("What it holds when nothing is loaded.")
    used: bool = item("Whether the forward pass reads it.")
    keys: list[str] = item("The stored tensors.")
    parts_missing: list[str] = item("Parts of a fused parameter that nothing fills.")


class Stored(Shape):
    name: str
    fate: str
    parameter: str | None
    why: str


class Edit(Shape):
    key: str = item(at=0)
    value: Any = item(at=1)


class Plan(Shape, further=True, needed=("engine", "version", "outcome")):
    """The load plan of one engine release. Further keys may be added."""

    engine: str
    version: str
    model_class: str | None = item("The engine's class that loads the files.")
    outcome: Outcome
    reasons: list[str] = item("Why the outcome is not served, the worst first.")
    loaded: dict[str, list[str]] = item(
        "The engine's parameters and the stored tensors each is loaded from.",
        at=lambda plan: {p.name: p.keys for p in plan.parameters if p.keys and not p.shared},
    )
    shared: list[str] = item(
        "Parameters taken from the target.", at=lambda plan: [p.name for p in plan.parameters if p.shared]
    )
    uninitialised: list[str] = item("Used parameters left at their initial value.")
    dropped: list[str] = item("Stored names that no used parameter takes.")
    parameters: list[Parameter] = item("The engine's parameters in its own order.")
    stored: list[Stored] = item("Each stored tensor and what the engine does with it.")
    counts: dict[str, Count] = item(
        at=lambda plan: {
            "parameters": len(plan.parameters),
            "loaded": sum(p.state == "loaded" for p in plan.parameters),
            "shared": sum(p.shared for p in plan.parameters),
            "uninitialised": len(plan.uninitialised),
            "dropped": len(plan.dropped),
        }
    )
    captured_boundaries: Boundaries = item(
        "The boundaries captured in the extend phase; boundary b is the residual stream after b layers.",
        at=lambda plan: plan.captured.get("extend"),
    )
    captured: dict[str, Boundaries] = item("The captured boundaries of each phase.")
    trained_boundaries: Boundaries = item("The boundaries that the draft was trained on.", at="trained")
    wiring: dict[str, Any] = item("How the parts are connected.")
    errors: list[str] = item(
        "What the engine stops with.", at=lambda plan: [f"{e.stage}: {e.reason}" for e in plan.errors]
    )
    unproven: list[str] = item("What could not be known.")
    edits: list[Edit] = item(
        "Keys of config.json and the values with which this release serves the draft as trained; found by planning."
    )
    remarks: list[str]
    release_remark: str | None = item("What has to be said first where nobody has read this release; else null.")
    executed: bool = item("Whether every contract entry used was seen in a run of the engine.")


def plan_data(plan: LoadPlan) -> dict[str, Any]:
    """One plan as the plain object of the documents."""
    return encode(Plan, plan)


def plans_text(plans: Sequence[dict[str, Any]], **more: Any) -> str:
    """The document that `plan` and `compat` print. `caveats`: what has to be said first."""
    caveats = dict.fromkeys(plan["release_remark"] for plan in plans if plan["release_remark"] is not None)
    return dumps({"schema_version": 1, "caveats": list(caveats), "plans": list(plans), **more})
