"""The treatments there are: what each is called, when it is made, what it says, and where its code stands."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from ckptdoctor.repair.plan.case import Propose, Treatment
from ckptdoctor.resources import read_yaml, rules_dir
from ckptdoctor.rulebook.checking import Arguments

__all__ = ["code_of", "treatment_arguments", "treatment_names", "treatments"]


@lru_cache(maxsize=1)
def treatments() -> Mapping[str, Treatment]:
    """Every treatment of rules/repair by its name."""
    rows: list[tuple[str, dict[str, Any]]] = []
    for path in sorted((rules_dir() / "repair").glob("*.yaml")):
        rows += ((path.stem, row) for row in read_yaml(path))
    return {
        row["name"]: Treatment(
            name=row["name"],
            stage=row["stage"],
            about=row["about"],
            refusals=row.get("refusals", {}),
            assumptions=row.get("assumptions", {}),
            serves=row.get("serves", ""),
            proof=row.get("proof", "everything"),
            rests_on=tuple(row.get("rests_on", ())),
            measures=row.get("measures", False),
            home=home,
        )
        for home, row in rows
    }


def treatment_arguments() -> Mapping[str, Arguments]:
    """What each treatment takes in `with`, as its function says."""
    found = {}
    for name in treatments():
        given = list(signature(code_of(name)).parameters.values())[1:]
        needed = frozenset(p.name for p in given if p.default is Parameter.empty)
        found[name] = Arguments(needed, frozenset(p.name for p in given))
    return found


def treatment_names() -> frozenset[str]:
    """The names that a rule may give as its treatment."""
    return frozenset(treatments())


def code_of(name: str) -> Propose:
    """The function that proposes the edits of the treatment `name`.

    Its module has the same name, in the folder that is called like the file of rules/repair that describes it.
    """
    module = import_module(f"ckptdoctor.repair.treatments.{treatments()[name].home}.{name.replace('-', '_')}")
    propose: Propose = module.propose
    return propose
