"""What a person knows of a draft's training that its files need not show: the tool, and the release that captured."""

from __future__ import annotations

from dataclasses import dataclass

from ckptdoctor.errors import UsageError
from ckptdoctor.facts.knowledge import knowledge
from ckptdoctor.serving.contract.contracts import contracts, parse_release
from ckptdoctor.text import listing, show

__all__ = ["NOTHING_SAID", "Provenance", "provenance_of"]


@dataclass(frozen=True)
class Provenance:
    """`trained_with` is the id of the writer (rules/writers) that wrote the ids, `captured_with` the engine and the
    release whose target runner produced the states of the training. None: nobody said. `written_for`: the ids are those
    that a repair wrote for that release, whatever the writer means by its own."""

    trained_with: str | None = None
    captured_with: tuple[str, str] | None = None
    written_for: bool = False


NOTHING_SAID = Provenance()


def provenance_of(trained_with: str | None = None, captured_with: str | None = None) -> Provenance:
    """What `--trained-with TOOL[==RELEASE]` and `--captured-with ENGINE==RELEASE` say.

    Raises `UsageError` for an unknown tool or engine, and for what is no release.
    """
    return Provenance(
        _writer(trained_with) if trained_with is not None else None,
        _release(captured_with) if captured_with is not None else None,
    )


def _writer(text: str) -> str:
    name = text.partition("==")[0].strip().lower()
    if name not in knowledge().writers:
        raise UsageError(f"unknown writer '{show(name)}'; known are {listing(sorted(knowledge().writers), 12)}")
    return name


def _release(text: str) -> tuple[str, str]:
    """The engine, and the release as the contract spells it where it knows it. How it was built does not matter."""
    engine, _, version = text.partition("+")[0].partition("==")
    engine, version = engine.strip().lower(), version.strip()
    contract = contracts().get(engine)
    if contract is None:
        raise UsageError(f"unknown engine '{show(engine)}'; known are {listing(sorted(contracts()), 12)}")
    if not version:
        raise UsageError(
            f"--captured-with {show(engine)}: say the release too ({engine}=={contract.newest}), since releases count "
            "layers in different ways"
        )
    order = parse_release(version, contract.scheme)
    return engine, next((r for r in contract.releases if parse_release(r, contract.scheme) == order), version)
