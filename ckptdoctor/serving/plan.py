"""`LoadPlan`: parameter by parameter what a release's loader does with a draft, and what will flow."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ckptdoctor.serving.outcomes import Outcome
from ckptdoctor.serving.words import Reason
from ckptdoctor.text import show

__all__ = ["RESTS_ON", "LoadPlan", "Parameter", "Refusal", "Stored"]

RESTS_ON: Mapping[str, tuple[str, ...]] = {
    "loading": (
        "load_errors", "first_load_error", "parameters", "stored", "uninitialised", "left_random", "left_over",
        "left_biases", "absent_layers", "depth_refused", "lacks_embedding", "left_at_ones", "unplaced", "dropped",
    ),
    "capture": ("late_errors", "captured", "capture_causes", "captures_neither"),
    "wiring": ("wiring", "wiring_causes"),
    "everything": ("errors", "causes", "opens", "outcome", "reasons", "doubt"),
    "nothing": (
        "engine", "version", "label", "model_class", "other_class", "is_refused", "executed", "loading_executed",
        "capture_executed", "wiring_executed", "trained", "trained_certain", "readings", "better", "elsewhere",
        "fitting", "layer_option", "layer_values", "ids_unread", "edits", "edit_text", "unproven", "is_load_open",
        "remarks", "release_remark", "fault",
    ),
}  # fmt: skip
"""Which facts of a plan are only as sure as the contract entries behind which part of it."""

_LAYER = re.compile(r"(?<=\.layers\.)[0-9]+(?=\.)")
_STAGES = {
    "config": "while reading the config",
    "class": "while looking for the class",
    "construct": "while building the draft",
    "start": "at the start",
    "load": "while loading the weights",
    "first_forward": "at the first forward",
}
_LATE = ("start", "first_forward")
_OF_CAPTURE = (
    "other_layers", "shifted_layers", "two_readings", "trained_unknown", "trained_either", "trained_likely",
    "target_absent",
    "target_unlisted", "no_targets",
)  # fmt: skip
_OF_LOADING = ("parameters_left", "biases_left", "norms_at_ones", "size_changed")


@dataclass(frozen=True)
class Parameter:
    """One parameter that the engine builds, under the engine's own name.

    `keys` are the stored names that land in it, in stored order; `parts_missing` the parts of a fused
    parameter that nothing lands in. `shared` says that the target's tensor takes its place after
    loading. `initial` is what it holds where nothing lands: `ones`, `zeros`, `random` or `empty`.
    `used` is False where the forward never reads it. `shape` is None when a size is not known.
    """

    name: str
    shape: tuple[int, ...] | None
    initial: str
    keys: tuple[str, ...] = ()
    parts_missing: tuple[str, ...] = ()
    shared: bool = False
    used: bool = True

    @property
    def state(self) -> str:
        """`shared`, `loaded`, `partly` (a part of a fused parameter is missing) or `initial`."""
        if self.shared:
            return "shared"
        if not self.keys:
            return "initial"
        return "partly" if self.parts_missing else "loaded"


@dataclass(frozen=True)
class Stored:
    """The fate of one stored tensor: `used`, `dropped`, `dropped_with_warning` or `rejected`.

    A tensor that lands in a parameter which the target's replaces, or which is never read, is dropped.
    `why` says so in a few words. `resized` says that the loader cut it, or filled it up, to the size of its
    parameter.
    """

    name: str
    fate: str
    parameter: str | None = None
    why: str = ""
    resized: bool = False


@dataclass(frozen=True)
class Refusal:
    """A loud error: its `stage` (`config`, `class`, `construct`, `load`, `first_forward`), and why in our words.

    `about` is `name` when a stored name names nothing, or nothing is stored under a name that must be there,
    `layers` when it comes from which layers of the target are captured, `depth` when the release does not take
    num_hidden_layers as it is, and `class` when the class is none for drafts of this kind. `mtp`: the MTP layer is
    stored, and not where the release looks for it; `mtp_absent`, `mtp_parts` and `mtp_name`: a layer, or tensors of it,
    are not stored, or a name in it is no parameter. `format`: the config is in a format that the
    release does not read.
    """

    stage: str
    reason: str
    about: str = ""

    @property
    def where(self) -> str:
        """The stage in words: `at the first forward`."""
        return _STAGES[self.stage]


@dataclass(frozen=True)
class LoadPlan:
    """What one engine release does with a draft.

    `model_class` is the class that is built. `captured` gives the boundaries per phase (`extend`,
    `verify`, `verify_graph`), None where they are not known. `trained` are the boundaries that the
    draft was trained with, as far as known. `wiring` holds what flows otherwise: `fc`, `residual`,
    `map`. `outcome` is `served`, `degraded`, `broken`, `refused` or `unknown`; `causes` say why, `errors`
    are the loud ones; `opens` is what could not be known: of level `open` where it decides between outcomes, `aside`
    where it does not. `release_remark` is what has to be said first where nobody has read this release. `better` is
    where it is otherwise, `fitting` the ids that would make this release capture the trained boundaries; where an
    engine takes the layers from a setting of its own and not from the draft, `layer_option` is its name and
    `layer_values` what it would have to be.
    `ids_unread` says that this release never reads the ids in the draft's config.
    `edits` are keys of config.json and values with which this release serves the draft as trained, planned.
    `other_class` says that the class that is built is none for drafts of this kind (an ordinary model, or another kind
    of draft): what becomes of single parameters is then no diagnosis. `absent_layers` are the layers that are built and
    of which the file holds nothing. `elsewhere` names other engines that serve the draft as trained, where no release
    of this one does.
    `loading_executed`, `capture_executed` and `wiring_executed` say whether the contract entries behind
    parameters, captured boundaries and the rest of the wiring were executed; `readings` are the boundaries that the ids
    in the draft can mean, the likely ones first; `trained_certain` whether
    only one reading of the trained boundaries is left.
    """

    engine: str
    version: str
    model_class: str | None
    parameters: tuple[Parameter, ...] = ()
    stored: tuple[Stored, ...] = ()
    captured: Mapping[str, tuple[int, ...] | None] = field(default_factory=dict)
    trained: tuple[int, ...] | None = None
    wiring: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[Refusal, ...] = ()
    outcome: Outcome = Outcome.UNKNOWN
    causes: tuple[Reason, ...] = ()
    opens: tuple[Reason, ...] = ()
    better: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = ()
    other_class: bool = False
    absent_layers: tuple[int, ...] = ()
    fitting: tuple[int, ...] | None = None
    layer_option: str | None = None
    layer_values: tuple[int, ...] | None = None
    ids_unread: bool = False
    edits: tuple[tuple[str, Any], ...] = ()
    remarks: tuple[str, ...] = ()
    release_remark: str | None = None
    loading_executed: bool = True
    capture_executed: bool = True
    wiring_executed: bool = True
    trained_certain: bool = True
    readings: tuple[tuple[int, ...], ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the outcome is what it is: the loud errors, else the causes of that level, in words."""
        if self.errors:
            return tuple(dict.fromkeys(e.reason for e in self.errors))
        if self.outcome == "unknown":
            return tuple(dict.fromkeys(reason.text for reason in self.opens if reason.level == "open"))
        return tuple(cause.text for cause in self.causes if cause.level == self.outcome)

    @property
    def fault(self) -> str:
        """What went wrong, where nothing is known because of a fault of ckptdoctor; else empty."""
        return next((str(r.values["problem"]) for r in self.opens if r.kind == "fault"), "")

    @property
    def doubt(self) -> str:
        """What has to be said beside `served`: that the trained layers are likely these, and not proven. Else empty."""
        return next((r.text for r in self.opens if r.kind == "trained_likely"), "")

    @property
    def unproven(self) -> tuple[str, ...]:
        """What could not be known, in words."""
        return tuple(dict.fromkeys(reason.text for reason in self.opens))

    @property
    def is_load_open(self) -> bool:
        """Whether something is open that could change what is built and loaded."""
        return any(r.level == "open" and r.kind not in _OF_CAPTURE for r in self.opens)

    @cached_property
    def uninitialised(self) -> tuple[str, ...]:
        """Parameters that keep an initial value, wholly or in part, and are read."""
        return tuple(p.name for p in self.parameters if p.used and p.state in ("initial", "partly"))

    @property
    def edit_text(self) -> str:
        """`transformer_layer_config.num_aux_hidden_states: 4`; empty without edits."""
        return " and ".join(show(f"{key}: {json.dumps(value)}", 400) for key, value in self.edits)

    @property
    def label(self) -> str:
        """`sglang 0.5.9`."""
        return f"{self.engine} {self.version}"

    @property
    def executed(self) -> bool:
        """Whether every contract entry that was used was executed, not only read."""
        return self.loading_executed and self.capture_executed and self.wiring_executed

    @property
    def is_refused(self) -> bool:
        """Whether the release stops with an error."""
        return bool(self.errors)

    @property
    def load_errors(self) -> tuple[Refusal, ...]:
        """Loud errors until the weights are loaded."""
        return tuple(e for e in self.errors if e.stage not in _LATE)

    @property
    def first_load_error(self) -> tuple[Refusal, ...]:
        """The loud error that ends the start: the first of `load_errors`, or none."""
        return self.load_errors[:1]

    @property
    def late_errors(self) -> tuple[Refusal, ...]:
        """Loud errors that come from how target and draft are put together: at the start, or at the first forward."""
        return tuple(e for e in self.errors if e.stage in _LATE)

    @property
    def capture_causes(self) -> tuple[Reason, ...]:
        """Causes, and what is open, that rest on which layers of the target are captured."""
        return tuple(c for c in (*self.causes, *self.opens) if c.kind in _OF_CAPTURE)

    @property
    def captures_neither(self) -> bool:
        """Whether a phase captures other layers than the ids name, in whichever of several ways they are counted."""
        captured = (b for b in self.captured.values() if b is not None)
        several = not self.trained_certain and len(self.readings) > 1
        return several and not self.wiring.get("final_state") and any(b not in self.readings for b in captured)

    @property
    def wiring_causes(self) -> tuple[Reason, ...]:
        """Causes that rest on how fc, norms, head and map are applied."""
        return tuple(c for c in self.causes if c.kind not in (*_OF_CAPTURE, *_OF_LOADING))

    @cached_property
    def left_random(self) -> tuple[str, ...]:
        """Used parameters that keep random or unfilled memory, wholly or in part."""
        lost = (p for p in self.parameters if p.used and p.state in ("initial", "partly"))
        return tuple(p.name for p in lost if p.initial in ("random", "empty"))

    @cached_property
    def left_biases(self) -> tuple[str, ...]:
        """Those of `left_over` that are biases."""
        return tuple(name for name in self.left_over if name.endswith(".bias"))

    @cached_property
    def left_over(self) -> tuple[str, ...]:
        """Those of `left_random` that are in no layer of `absent_layers`."""
        absent = {str(number) for number in self.absent_layers}
        return tuple(name for name in self.left_random if absent.isdisjoint(_LAYER.findall(f".{name}")))

    @property
    def depth_refused(self) -> bool:
        """Whether the release stops because of the number of layers that the config declares."""
        return any(error.about == "depth" for error in self.load_errors[:1])

    @property
    def lacks_embedding(self) -> bool:
        """Whether the embedding is among `left_random`: the release neither finds one nor takes the target's."""
        return any(name.endswith("embed_tokens.weight") for name in self.left_random)

    @cached_property
    def left_at_ones(self) -> tuple[str, ...]:
        """Used norms that stay at ones."""
        return tuple(p.name for p in self.parameters if p.used and p.state == "initial" and p.initial == "ones")

    @cached_property
    def unplaced(self) -> tuple[str, ...]:
        """Stored names for which the engine has no parameter, and which it passes over without meaning to."""
        dropped = (s for s in self.stored if s.fate.startswith("dropped") and s.parameter is None)
        return tuple(s.name for s in dropped if s.why == "no such parameter")

    @cached_property
    def dropped(self) -> tuple[str, ...]:
        """Stored names that no used parameter takes."""
        return tuple(s.name for s in self.stored if s.fate.startswith("dropped") or s.fate == "rejected")
