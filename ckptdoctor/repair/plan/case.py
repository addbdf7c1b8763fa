"""What a treatment is given, and what it answers: edits, or a refusal with its reason. Pure data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ckptdoctor.checkpoint import Checkpoint
from ckptdoctor.facts import Facts, describe
from ckptdoctor.facts.target_weights import TargetWeights, find_target_weights
from ckptdoctor.launch.line import Launch
from ckptdoctor.repair.edits import Edit
from ckptdoctor.repair.state import State
from ckptdoctor.serving import LoadPlan, load_plan
from ckptdoctor.serving.contract.contracts import Contract
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance

__all__ = ["Case", "Proposal", "Propose", "Proposed", "Refusal", "RefusedError", "Treatment"]


class RefusedError(Exception):
    """Raised by a treatment that will not touch this draft. `key` names the sentence in rules/repair,
    `values` fill its blanks."""

    def __init__(self, key: str, /, **values: object) -> None:
        super().__init__(key)
        self.key, self.values = key, values


@dataclass(frozen=True)
class Case:
    """What a treatment may look at.

    `engines` are the releases that the copy is to be good for, with their plans for the draft as it is (`plans`, same
    order); empty when none was named. With `reads` False (a plain scan) no weights may be read: a treatment that has
    to compare some answers as if they were equal and is asked again when the copy is made; `most_read` are the bytes of
    a tensor that may be compared (None: all). `finding_engines` are the labels (`sglang==0.5.9`) of the finding that is
    to be answered.
    """

    checkpoint: Checkpoint
    facts: Facts
    engines: tuple[tuple[Contract, str], ...] = ()
    plans: tuple[LoadPlan, ...] = ()
    launch: Launch | None = None
    provenance: Provenance = NOTHING_SAID
    reads: bool = False
    most_read: int | None = None
    finding_engines: tuple[str, ...] = ()

    def target_weights(self) -> TargetWeights | None:
        """The target's embedding and head; None unless a target with weights was given."""
        target = self.facts.target
        return None if target is None or target.root is None else find_target_weights(str(target.root))

    def after(self, edits: Sequence[Edit]) -> Facts:
        """The facts of the draft with these edits made."""
        return describe(State.of(self.checkpoint).after(edits).checkpoint, self.facts.target)

    def plans_after(self, edits: Sequence[Edit]) -> tuple[LoadPlan, ...]:
        """The plans of `engines` for the draft with these edits made."""
        facts = self.after(edits)
        return tuple(load_plan(facts, c, release, self.launch, self.provenance) for c, release in self.engines)


@dataclass(frozen=True)
class Proposed:
    """Edits that belong together, for the thing `subject` (a tensor, a config key, a file, a layout).

    `assumption` names a sentence of the treatment (rules/repair, `assumptions`) on which these edits
    rest although the rule calls the repair safe; None when they rest on none.
    """

    edits: tuple[Edit, ...]
    subject: str
    assumption: str | None = None


Propose = Callable[..., Proposed]
"""`propose(case, **arguments)`: the function that a treatment module has. Raises `RefusedError`. Never writes."""


@dataclass(frozen=True)
class Proposal:
    """A repair that could be made: what it is called, what it does, and on what it rests.

    `rules` are the ids of the findings that it answers, `engines` the labels (`sglang==0.5.9`) of the releases that
    these speak of. `assumption` is a sentence for people, None for a safe one. `read` says that what a finding tells of
    an engine was read in its source and not executed, so that only an executed plan of the copy can be proof.
    """

    treatment: str
    subject: str
    edits: tuple[Edit, ...]
    summary: str
    safety: str
    assumption: str | None = None
    rules: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    read: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """By what a step of a plan is known: the treatment and its subject."""
        return self.treatment, self.subject

    def resting_on(self, assumption: str) -> Proposal:
        """The same as an unsafe repair, which rests on `assumption`."""
        return replace(self, safety="unsafe", assumption=assumption)


@dataclass(frozen=True)
class Refusal:
    """A repair that will not be made, and why, in a sentence that says what would decide. `fault` is what went
    wrong where that is a fault of ckptdoctor."""

    treatment: str
    why: str
    rules: tuple[str, ...] = ()
    fault: str | None = None


@dataclass(frozen=True)
class Treatment:
    """A treatment as rules/repair describes it. Lower `stage`s are made first, and the draft is judged
    again before the next.

    `serves` says of which engines it claims something that their plans have to bear out: those that were `named`, or,
    where none was, the `newest` releases; `""` for one that claims nothing. What a finding says of an engine is always
    such a claim. `proof` is the part of a plan that has to be executed to bear it out, where the finding was only read:
    `loading`, or `everything`.
    `rests_on` are facts that it goes by beside those of the rule. `measures` says that what it writes comes from stored
    tensors, so that it is refused while two files hold one of them. `home` is the file of rules/repair that describes
    it, and the folder of its code.
    """

    name: str
    stage: int
    about: str
    refusals: Mapping[str, str] = field(default_factory=dict)
    assumptions: Mapping[str, str] = field(default_factory=dict)
    serves: str = ""
    proof: str = "everything"
    rests_on: tuple[str, ...] = ()
    measures: bool = False
    home: str = ""
