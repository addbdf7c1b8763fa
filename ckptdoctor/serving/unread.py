"""The plan for weights of another format, which are not read: which engines open such a file at all."""

from __future__ import annotations

from ckptdoctor.facts import Facts
from ckptdoctor.serving.contract.contracts import Contract
from ckptdoctor.serving.outcomes import Outcome
from ckptdoctor.serving.plan import LoadPlan, Refusal
from ckptdoctor.serving.words import Reason
from ckptdoctor.text import show

__all__ = ["plan_of_unread"]

_REFUSED = ("fork", "lacks", "damaged", "empty", "block_missing")
"""States of a GGUF file (`facts.containers.GgufDraft`) that the engine does not load."""


def plan_of_unread(facts: Facts, contract: Contract, version: str) -> LoadPlan:
    """Refused where the engine does not open the format, or the file is one that it cannot load; else unproven."""
    wanted = contract.raw.get("formats", ())
    found = [f for f in facts.files.foreign if f.format in wanted]
    states = {g.file: g.state for g in facts.files.ggufs}
    loadable = [f for f in found if states.get(f.file) not in _REFUSED]
    if loadable:
        return LoadPlan(contract.engine, version, None, opens=(Reason("open", "format_unread"),))
    reason = f"{contract.name} finds no safetensors or PyTorch file"
    if found:
        reason = f"{contract.name} does not load {show(found[0].file)}"
        blocks = next((g.blocks_missing for g in facts.files.ggufs if g.file == found[0].file), ())
        if blocks:
            reason += f": no tensor of block {blocks[0]} is stored, which the metadata counts"
    errors = (Refusal("load", reason),)
    return LoadPlan(contract.engine, version, None, errors=errors, outcome=Outcome.REFUSED, loading_executed=False)
