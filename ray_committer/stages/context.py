"""The context that every stage gets: the store, the job attempt, the options and the executor."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ray_committer.errors import CommitCancelledError, RayCommitterError, mark, shown
from ray_committer.events import CancelToken, EventSink, Notice, StageEnded, StageStarted, ignore
from ray_committer.executors.base import Work, WorkExecutor
from ray_committer.limits import waiting
from ray_committer.options import CommitOptions
from ray_committer.places.base import Places
from ray_committer.places.choose import old_files_of, output_of, own_files_of, places_of
from ray_committer.places.deleted import Deleted
from ray_committer.places.old_files import OldFiles
from ray_committer.places.output import Output
from ray_committer.places.own_files import OwnFiles
from ray_committer.protocol.iostatistics import IOStatistics, aggregate, duration
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.table_state import ClaimInFlight
from ray_committer.stages.other_jobs.end_others import EndJob, cannot_end
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.registry import shown_url
from ray_committer.work.batches import batches

_log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class JobContext:
    """One run of a job-level operation; frozen, except for `journal`. `executor_reason`: why this
    executor. `began`: by `time.monotonic`. `is_sequential`: no two requests of this process at the same
    time. `end_other`: ends a stopped job in the way. `is_adopted`: Hadoop's S3A committer left it."""

    store: GuardedStore
    job: JobAttempt
    options: CommitOptions
    executor: WorkExecutor
    emit: EventSink = ignore
    now_milliseconds: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    cancelled: CancelToken = field(default_factory=CancelToken)
    journal: Journal = field(default_factory=lambda: Journal())
    is_sequential: bool = False
    executor_reason: str = ""
    began: float = field(default_factory=time.monotonic)
    end_other: EndJob = cannot_end
    is_adopted: bool = False
    places: Places = field(init=False)
    old_files: OldFiles = field(init=False)
    own_files: OwnFiles = field(init=False)
    output: Output = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", places_of(self.store))
        object.__setattr__(self, "old_files", old_files_of(self.store))
        object.__setattr__(self, "own_files", own_files_of(self.store))
        object.__setattr__(self, "output", output_of(self.store))

    @property
    def url(self) -> str:
        """The job's destination as a user names it: a URL or a local path, without a password."""
        return shown_url(self.store.spec, self.job.destination)

    @contextmanager
    def stage(self, name: str, *, cancellable: bool = True) -> Iterator[None]:
        """Time a stage, send its events, and note its duration, failed or not."""
        if cancellable:
            self.check_cancelled()
        with time_stage(name, self.emit, self.journal, self.job.job_id):
            try:
                yield
            except RayCommitterError as e:
                e.locate(shown_url(self.store.spec, ""))
                raise
            finally:
                self.journal.add(self.store.take_statistics())

    def check_cancelled(self) -> None:
        """Raise `CommitCancelledError` if the commit was cancelled."""
        if self.cancelled.is_cancelled:
            raise CommitCancelledError(
                f"{mark(self.url)}: the commit of job {self.job.job_id} was cancelled",
                "run the same command to finish it",
            )

    def sleep(self, seconds: float) -> None:
        """Sleep; `CommitCancelledError` if the commit is cancelled."""
        waiting.sleep(seconds, self.check_cancelled)

    def until_cancelled(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield `items` until the commit is cancelled."""
        for item in items:
            if self.cancelled.is_cancelled:
                return
            yield item

    def run(self, work: Work[Result], items: Iterable[Item]) -> Iterator[Result]:
        """Run `work` on the executor; if cancelled, `CommitCancelledError` follows the results."""
        yield from self.executor.run(work, self.until_cancelled(items))
        self.check_cancelled()

    def run_batches(self, work: Work[Result], items: Sequence[Item]) -> Iterator[Result]:
        """`run` for batches of the `items`, in order."""
        return self.run(work, batches(self.executor, items))

    def as_recorded(self, record: CommitRecord) -> JobContext:
        """Return this context with what the record promises, even if the options do not ask for it."""
        durable = self.options.durable or record.durable
        return replace(self, options=replace(self.options, durable=durable))

    @property
    def syncs(self) -> bool:
        """Whether the commit must survive a power cut, on a store that needs requests for that."""
        return self.options.durable and self.places.needs_sync

    def sync(self, *paths: str) -> None:
        """Force files, and the names in directories, to disk, in this order, if the commit `syncs`."""
        for path in paths if self.syncs else ():
            self.store.sync(path)

    def at_once(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Apply `function` to a few items in this process; in parallel where requests wait."""
        if self._is_alone or len(items) < 2:
            return list(map(function, items))
        return self.executor.driver.each(function, items)

    @property
    def _is_alone(self) -> bool:
        return self.is_sequential or not self.moves_at_once(2)

    def moves_at_once(self, files: int) -> bool:
        """Whether the requests that move so many files wait for a store, all at the same time."""
        in_flight = self.executor.width * self.executor.threads
        return files <= in_flight and not self.store.capabilities.renames_are_local

    def do_at_once(self, *steps: Callable[[], Any]) -> list[Any]:
        """`at_once` for steps that differ; return their results."""
        return self.at_once(lambda step: step(), steps)

    @contextmanager
    def beside(self, *steps: Callable[[], Any]) -> Iterator[list[Any]]:
        """Take `steps` while the block runs, if requests wait, else before it. Then the list has the
        results."""
        if self._is_alone:
            yield [step() for step in steps]
        else:
            with self.executor.driver.beside(lambda step: step(), steps) as results:
                yield results

    def notice(self, text: str) -> None:
        """Send a text for a person as an event, and add it to the report, with URLs for its paths."""
        text = self.located(text)
        self.journal.notices.append(text)
        self.emit(Notice(text))

    def notice_once(self, text: str) -> None:
        """`notice`, unless the same text was sent before; for things that are checked several times."""
        if self.located(text) not in self.journal.notices:
            self.notice(text)

    def note_changed(self, path: str) -> None:
        """Report an old file that stays, because it has changed since it was listed to be replaced."""
        self.journal.changed.append(self.located(mark(path)))
        self.notice(f"{mark(path)}: was to be replaced but has changed since then; it was kept")

    def located(self, text: str) -> str:
        """Show the paths in a text as URLs."""
        return shown(text, shown_url(self.store.spec, ""))


@dataclass(slots=True)
class Journal:
    """What happened so far, for the report: seconds by stage, statistics and notices; `changed` are the
    old files that are kept since they have changed, `summary` is the URL of its summary report. Of an
    abort: what it has `deleted`, and the `ended_claim`."""

    seconds: dict[str, float] = field(default_factory=dict)
    statistics: IOStatistics = field(default_factory=IOStatistics)
    notices: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    failed_stage: str | None = None
    summary: str = ""
    deleted: Deleted | None = None
    ended_claim: ClaimInFlight | None = None

    def note_stage(self, name: str, seconds: float, *, failed: bool) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds  # some stages run twice
        self.add(duration(name, round(seconds * 1000), failed=failed))
        if failed and self.failed_stage is None:
            self.failed_stage = name

    def add(self, statistics: IOStatistics) -> None:
        self.statistics = aggregate(self.statistics, statistics)


@contextmanager
def time_stage(name: str, emit: EventSink, journal: Journal, about: str) -> Iterator[None]:
    """Time a stage, send its events, and note its duration, failed or not; `about` is for the log. For
    what is done before there is a `JobContext`; later, `JobContext.stage` does it."""
    emit(StageStarted(name))
    started = time.monotonic()
    error: str | None = "ended by a signal"
    try:
        yield
        error = None
    except Exception as e:
        error = str(e)
        raise
    finally:
        seconds = time.monotonic() - started
        journal.note_stage(name, seconds, failed=error is not None)
        emit(StageEnded(name, seconds, error))
        _log.info("%s of %s: %.3f s", name, about, seconds)
