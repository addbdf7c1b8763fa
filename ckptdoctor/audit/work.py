"""What a worker does with one place: a look whether it is a model, or the scan with its target, to one row."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from pathlib import Path

from ckptdoctor.audit.pairing import Model, Models, Pairing, Wants, is_model, model_of, wants_of
from ckptdoctor.audit.places import Place, may_be_model
from ckptdoctor.audit.rows import Row, model_in, row_for
from ckptdoctor.checkpoint import open_checkpoint
from ckptdoctor.checkpoint.by_address import open_remote
from ckptdoctor.checkpoint.folder import Folder
from ckptdoctor.checkpoint.weights import find_weights, read_json_file
from ckptdoctor.errors import CkptdoctorError
from ckptdoctor.facts import Facts, Target, describe, read_target
from ckptdoctor.facts.asked import Asked
from ckptdoctor.findings import Examination, Report, fingerprint
from ckptdoctor.launch.line import parse_launch
from ckptdoctor.policy import NO_POLICY, Baseline, Policy, applied
from ckptdoctor.repair.known_rules import rulebook
from ckptdoctor.report.scan.confidence import capped
from ckptdoctor.report.scan.json_report import as_data
from ckptdoctor.rulebook import Rule, RuleBook
from ckptdoctor.scanning import examination
from ckptdoctor.serving.layers.provenance import NOTHING_SAID, Provenance
from ckptdoctor.text import show

__all__ = ["Setup", "look_at", "prepare", "scan_at"]

_TRACE_LIMIT = 4000


@dataclass(frozen=True)
class Setup:
    """All that workers have to know beside the place. It travels to them once.

    `context` marks what all rows depend on. `models` are what drafts are paired with; `target` is the one target for
    all, given by the person.
    """

    context: str
    policy: Policy = NO_POLICY
    baseline: Baseline | None = None
    rules: tuple[Path, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()
    launch: str | None = None
    provenance: Provenance = NOTHING_SAID
    deep: bool = False
    target: str | None = None
    models: tuple[Model, ...] = ()


def prepare(setup: Setup) -> None:
    """Load what all scans need. Raises `CkptdoctorError` where the setup is wrong."""
    _rules(setup.rules, setup.select, setup.ignore)
    if setup.target is not None:
        _target(setup.target)


def look_at(place: Place, setup: Setup) -> tuple[Model | None, Row | None]:
    """The model at `place`, if drafts may have it as their target; with the row of what is no draft."""
    started = time.monotonic()
    try:
        with _opened(place) as address:
            if find_weights(Folder(Path(address))) is None:
                empty = _without_weights(place, setup, address, started)
                return model_in(empty), empty
            facts = describe(open_checkpoint(address), None)
            ordinary = is_model(facts)
            if not ordinary and not _holds_its_target(facts):
                return None, None
            model = _model(place, address)
    except (CkptdoctorError, MemoryError, RecursionError):
        return None, None  # the scan says what is wrong
    row = row_for(place, setup.context, "model", started, model=model) if ordinary else None
    return model, row


def scan_at(place: Place, setup: Setup) -> Row:
    """The row of `place`. What is wrong with the files is in it; raises nothing but what ends the process."""
    started = time.monotonic()
    try:
        with _opened(place) as address:
            return _scanned(place, setup, address, started)
    except CkptdoctorError as error:
        return row_for(place, setup.context, "unreadable", started, reason=str(error))
    except MemoryError:
        return row_for(place, setup.context, "crashed", started, reason="there was not enough memory for the scan")
    except Exception as error:  # noqa: BLE001  # one draft that our code does not bear must not end the audit
        trace = "".join(traceback.format_exception(error))[-_TRACE_LIMIT:]
        return row_for(place, setup.context, "failed", started, reason=f"{type(error).__name__}: {error}", trace=trace)


def _scanned(place: Place, setup: Setup, address: str, started: float) -> Row:
    if find_weights(Folder(Path(address))) is None:
        return _without_weights(place, setup, address, started)
    facts = describe(open_checkpoint(address), None)
    if is_model(facts):
        return row_for(place, setup.context, "model", started, model=_model(place, address))
    wants = wants_of(facts)
    with _paired(place, setup, wants, facts) as (pairing, target):
        found = _examined(address, place, setup, target)
        judged, remarks = applied(setup.policy, found, date.today(), setup.baseline)
    report = capped(Report((judged,)))
    return row_for(
        place, setup.context, "scanned", started, wants=wants, pairing=pairing, title=found.title, remarks=remarks,
        report=as_data(report)["checkpoints"][0], model=_model(place, address) if _holds_its_target(facts) else None,
        marks=[fingerprint(finding) for finding in report.examinations[0].findings],
    )  # fmt: skip


def _without_weights(place: Place, setup: Setup, address: str, started: float) -> Row:
    """The row of a folder without weights; the config of a model in it is all that its drafts need."""
    config = read_json_file(Folder(Path(address)), "config.json")
    model = None
    if config is not None and config.readable and may_be_model(config.object):
        model = _model(place, address)
        if model.hidden_size is None or model.vocab_size is None:
            model = None
    return row_for(place, setup.context, "nothing", started, model=model)


def _examined(address: str, place: Place, setup: Setup, target: Target | None) -> Examination:
    asked = Asked(launch=parse_launch(setup.launch) if setup.launch else None, deep=setup.deep)
    rules = _rules(setup.rules, setup.select, setup.ignore)
    try:
        found = examination(address, target, rules, setup.engines, asked, provenance=setup.provenance)
    except CkptdoctorError as error:
        raise type(error)(str(error).replace(address, place.path)) from None
    return replace(found, path=place.path)


@contextmanager
def _opened(place: Place) -> Iterator[str]:
    """A local path under which the files of `place` can be read; those elsewhere are fetched as they are asked for."""
    if place.root is not None:
        from ckptdoctor.audit.elsewhere import fsspec_folder

        folder = fsspec_folder(place)
        yield str(folder.root)
    elif place.path.startswith("hf://"):
        folder = open_remote(place.path)
        yield str(folder.root)
    else:
        yield place.path


@contextmanager
def _paired(place: Place, setup: Setup, wants: Wants, facts: Facts) -> Iterator[tuple[Pairing, Target | None]]:
    """The target of the draft at `place`, open as long as it is needed."""
    if setup.target is not None:
        yield Pairing(None, "it was given for all drafts", setup.target, None, "given"), _target(setup.target)
        return
    pairing = _models(setup.models).target_of(place.key, wants)
    model = pairing.model
    if model is None and wants.name is not None and place.path.startswith("hf://"):
        pairing, target = _at_hub(pairing, wants.name)
        yield pairing, target
        return
    if model is None:
        yield (replace(pairing, why="it holds its own target") if _holds_its_target(facts) else pairing), None
        return
    with _opened(Place(model.key, model.path, model.mark, root=model.root, inner=model.inner)) as address:
        try:
            target = replace(read_target(address), path=model.path)
        except CkptdoctorError:
            yield Pairing(None, f"its target {model.key} cannot be read any more"), None
            return
        yield pairing, target


def _at_hub(pairing: Pairing, name: str) -> tuple[Pairing, Target | None]:
    """The target that a draft of the Hub names, where it is a repository there too."""
    address = f"hf://{name.strip().removeprefix('hf://').rstrip('/')}"
    try:
        target = _target(address)
    except CkptdoctorError as error:
        return replace(pairing, why=f"{pairing.why}, and cannot be read at the Hub ({show(error, 300)})"), None
    return Pairing(None, f"its config names {show(name)}, which was read at the Hub", address, None, "hub"), target


def _holds_its_target(facts: Facts) -> bool:
    mtp = facts.mtp
    return facts.draft.algorithm == "mtp" and mtp is not None and mtp.whole


def _model(place: Place, address: str) -> Model:
    path = Path(address)
    with Folder(path).open("config.json") as stream:
        config = hashlib.sha256(stream.read()).hexdigest()[:32]
    model = model_of(place.key, place.path, place.mark, read_target(address), config)
    return replace(model, root=place.root, inner=place.inner)


@lru_cache(maxsize=4)
def _rules(user: tuple[Path, ...], select: tuple[str, ...], ignore: tuple[str, ...]) -> RuleBook | Sequence[Rule]:
    return rulebook(user).select(select, ignore)


@lru_cache(maxsize=64)
def _target(address: str) -> Target:
    return read_target(address)


@lru_cache(maxsize=4)
def _models(models: tuple[Model, ...]) -> Models:
    return Models(models)
