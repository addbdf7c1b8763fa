"""The audit itself: list the places, find the models, scan the drafts that have no row yet, add the rows up."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from ckptdoctor.audit.lanes import Done, Lanes, Work
from ckptdoctor.audit.pairing import Model, Models
from ckptdoctor.audit.places import FOLDER_LIMIT, Place
from ckptdoctor.audit.roots import Root, places_in
from ckptdoctor.audit.rows import NOT_EXAMINED, Row, as_line, model_in, row_for, row_id, still_paired
from ckptdoctor.audit.state import State, open_state
from ckptdoctor.audit.summary import Summary, Tally
from ckptdoctor.audit.work import Setup, look_at, prepare, scan_at
from ckptdoctor.errors import CannotExamineError
from ckptdoctor.text import plural, show

if TYPE_CHECKING:
    from ckptdoctor.audit.ray_cluster import RayCluster

__all__ = ["Options", "Watch", "audit"]

R = TypeVar("R")


class Watch(Protocol):
    """Who is told how it goes on."""

    def phase(self, name: str, total: int | None) -> None:
        """A new phase begins: `listing`, `models`, `drafts`; of so many."""

    def began(self, key: str) -> None:
        """A worker is at this checkpoint now."""

    def ended(self, key: str) -> None:
        """This one is done."""


@dataclass(frozen=True)
class Options:
    """How an audit is done. `out` is the folder of its state (None: none is kept); `limit` the seconds for a draft;
    `fresh` forgets earlier rows, `retry` those of checkpoints that could not be examined; `ray` is a cluster's address.
    """

    jobs: int
    out: Path | None = None
    limit: float = 300.0
    folders: int = FOLDER_LIMIT
    fresh: bool = False
    retry: bool = False
    ray: str | None = None


def audit(
    roots: Sequence[Root], setup: Setup, options: Options, watch: Watch, each: Callable[[bytes], None] | None = None
) -> Summary:
    """Scan every draft in `roots` and add up what was found; `each` is given the row of each checkpoint at the end.

    Raises `CkptdoctorError` where the audit as a whole cannot be done: a tree that is not there, a wrong setup, a
    state that cannot be written. What is wrong with one checkpoint is in its row.
    """
    started = time.monotonic()
    with ExitStack() as stack:
        folder = options.out
        if folder is None:
            folder = stack.enter_context(_temporary())
        state = stack.enter_context(open_state(folder, options.fresh))
        prepare(setup)
        places = stack.enter_context(_listed(roots, options, watch))
        run = _Run(state, setup, options, watch)
        if setup.target is None:
            run.find_models(places)
        run.scan(places)
        return replace(run.summed_up(places, started, each), stuck=run.stuck)


@dataclass
class _Places:
    """The places of all trees, kept in a file of their own: there may be a million."""

    path: Path
    count: int = 0
    looks: int = 0

    def __iter__(self) -> Iterator[Place]:
        with self.path.open(encoding="ascii") as reader:
            for line in reader:
                yield Place.from_line(line)


@contextmanager
def _listed(roots: Sequence[Root], options: Options, watch: Watch) -> Iterator[_Places]:
    watch.phase("listing", None)
    with _temporary() as folder:
        places = _Places(folder / "places.jsonl")
        try:
            with places.path.open("w", encoding="ascii") as file:
                for place in places_in(roots, options.folders):
                    file.write(place.as_line())
                    places.count += 1
                    places.looks += place.look
                    watch.ended(place.key)
        except OSError as error:
            why = show(error.strerror or error)
            raise CannotExamineError(
                f"the list of checkpoints cannot be kept in {show(folder, 4096)} ({why})"
            ) from None
        yield places


@contextmanager
def _temporary() -> Iterator[Path]:
    try:
        folder = tempfile.TemporaryDirectory(prefix="ckptdoctor-audit-", ignore_cleanup_errors=True)
    except OSError as error:
        raise CannotExamineError(f"no temporary folder can be made ({show(error.strerror or error)})") from None
    with folder as name:
        yield Path(name)


class _Run:
    """One run over the places, with what it has found."""

    def __init__(self, state: State, setup: Setup, options: Options, watch: Watch) -> None:
        self._state, self._setup, self._options, self._watch = state, setup, options, watch
        self._models: dict[str, Model] = {}
        self._scanned = 0
        self.stuck = False

    def find_models(self, places: _Places) -> None:
        """Find the ordinary models, which are the targets of drafts."""
        if not places.looks:
            return
        self._watch.phase("models", places.looks)
        for done in self._worked(look_at, (place for place in places if place.look and self._unknown_model(place))):
            if done.failure is not None:
                self._keep(self._failed(done.task, done.failure))
                continue
            model, row = done.value if done.value is not None else (None, None)
            if model is not None:
                self._models[done.task.key] = model
            if row is not None:
                self._keep(row)
        self._setup = replace(self._setup, models=tuple(self._models[key] for key in sorted(self._models)))

    def _unknown_model(self, place: Place) -> bool:
        """Whether only a look tells if there is a model at `place`: a row of it tells that too."""
        row = self._state.get(self._id(place))
        if row is None or (row["outcome"] in NOT_EXAMINED and self._options.retry):
            return True
        model = model_in(row)
        if model is not None:
            self._models[place.key] = replace(model, path=place.path, root=place.root, inner=place.inner)
        self._watch.ended(place.key)
        return False

    def scan(self, places: _Places) -> None:
        """Scan every place that has no row, or one that does not hold any more."""
        self._watch.phase("drafts", places.count)
        paired = Models(self._setup.models)
        for done in self._worked(scan_at, (place for place in places if self._is_due(place, paired))):
            row = done.value if done.failure is None and done.value is not None else None
            self._keep(row if row is not None else self._failed(done.task, done.failure or "crashed"))

    def _is_due(self, place: Place, models: Models) -> bool:
        row = self._state.get(self._id(place))
        if place.problem is not None:
            if row is None:
                self._keep(row_for(place, self._setup.context, "unreadable", reason=f"{place.path}: {place.problem}"))
            self._watch.ended(place.key)
            return False
        due = row is None or (not still_paired(row, models) or (self._options.retry and row["outcome"] in NOT_EXAMINED))
        if not due:
            self._watch.ended(place.key)
        return due

    def summed_up(self, places: _Places, started: float, each: Callable[[bytes], None] | None) -> Summary:
        """Add up the rows of all places, in their order."""
        tally = Tally()
        rows = 0
        for place in places:
            row = self._state.get(self._id(place))
            if row is None:
                continue
            rows += 1
            tally.add(row)
            if each is not None and row["outcome"] != "nothing":
                each(as_line(row))
        if self._options.out is not None and self._state.lines > rows:
            self._state.keep_only(self._id(place) for place in places)
        policy = self._setup.policy
        kept = max(0, rows - self._scanned)
        source = None if policy.source is None else str(policy.source)
        return tally.summary(kept, time.monotonic() - started, source, policy.fail_on)

    def _worked(self, run: Callable[[Place, Setup], R], tasks: Iterator[Place]) -> Iterator[Done[Place, R]]:
        """Do `tasks` in parallel, on this machine or on the cluster."""
        work = Work(run, prepare, self._setup)
        lanes: Lanes[Place, Setup, R] | RayCluster[Place, Setup, R]
        if self._options.ray is not None:
            from ckptdoctor.audit.ray_cluster import RayCluster  # needs the extra

            lanes = RayCluster(work, self._options.ray, self._options.limit, self._began)
        else:
            lanes = Lanes(work, self._options.jobs, self._options.limit, self._began)
        try:
            for done in lanes.run(tasks):
                self._watch.ended(done.task.key)
                yield done
        finally:
            lanes.close()
            self.stuck = self.stuck or lanes.stuck

    def _began(self, place: Place) -> None:
        self._watch.began(place.key)

    def _keep(self, row: Row) -> None:
        self._state.append(as_line(row))
        self._scanned += 1

    def _failed(self, place: Place, failure: str) -> Row:
        limit = plural(round(self._options.limit), "second") if self._options.limit >= 1 else f"{self._options.limit} s"
        reasons = {
            "timed_out": f"{place.path}: the scan was not done after {limit} and was ended",
            "crashed": f"{place.path}: the process that scanned it died, twice",
        }
        return row_for(place, self._setup.context, failure, reason=reasons[failure])

    def _id(self, place: Place) -> str:
        return row_id(place, self._setup.context)
