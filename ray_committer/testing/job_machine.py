"""A stateful test of whole jobs on one destination, for any store; needs hypothesis (extra ``test``).

Jobs of every kind are set up, run, committed, crashed, aborted and woken up in any order, while files
of others appear. `DestinationModel` says after each step what must be visible. Use it as
``TestMyStore = JobMachine.TestCase`` with `new_store` overridden.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ray_committer.commit_report import CommitReport, Outcome
from ray_committer.errors import (
    CommitAbortedError,
    CommitConflictError,
    CommitRecordExistsError,
    IncompleteJobError,
    JobNotFoundError,
    ManifestChangedError,
    RayCommitterError,
    TaskCommitError,
)
from ray_committer.protocol.paths import join, new_job_attempt
from ray_committer.stages.abort_task import abort_task
from ray_committer.stages.find_job import read_success
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.chaos_executor import Chaos
from ray_committer.testing.faults import SimulatedCrash
from ray_committer.testing.harness import (
    commit_attempt,
    put_file,
    run_abort,
    visible_files,
    write_attempt,
)
from ray_committer.testing.job_actions import COMMIT_CALLS, PARTITIONS, JobActions
from ray_committer.testing.job_model import (
    WHOLE_DESTINATION,
    DestinationModel,
    ModelJob,
    Phase,
)
from ray_committer.testing.memory_store import Identity, MemoryStore

TASK_CALLS = 8
MOST_OPEN_JOBS = 3
MOST_SETTLED_FILES = 12
SAFE_CHAOS = tuple(kind for kind in Chaos if kind is not Chaos.TWICE_AT_ONCE)
UNFINISHED = (Phase.DECIDED, Phase.COMMITTED, Phase.ABORTING)

T = TypeVar("T")
picks = st.integers(0, 1000)
seeds = st.integers(0, 2**32 - 1)
partitions = st.sampled_from(PARTITIONS)
outputs = st.lists(partitions, max_size=3)


class JobMachine(JobActions, RuleBasedStateMachine):
    """Any operations on any jobs of one destination, in any order."""

    def new_store(self, kind: int) -> StoreOperations:
        """Open an empty store, one of several kinds by number; override it to test another store."""
        identity = list(Identity)[kind % 4]
        return MemoryStore(identity=identity, real_directories=kind < 4, listing_is_cheap=kind % 2 == 0)

    @initialize(kind=st.integers(0, 7))
    def open(self, kind: int) -> None:
        """Begin with a file of somebody else, and one that another committer is writing."""
        self.store = self.new_store(kind)
        self.model = DestinationModel()
        self.numbers = itertools.count(1)
        self.theirs = join(self.destination, "_temporary", "0", "_temporary", "attempt_0", "part-0")
        put_file(self.store, self.theirs, b"work of a classic committer")
        self.put_foreign("p=1/foreign", self.data())

    @precondition(lambda self: len(self.model.in_phase(Phase.OPEN)) < MOST_OPEN_JOBS)
    @rule(root=st.sampled_from((None, None, WHOLE_DESTINATION, "p=1")), names=outputs)
    def set_up_job(self, root: str | None, names: list[str]) -> None:
        """A job, its first task committed; one that replaces all is refused beside an unfinished one."""
        job = ModelJob(new_job_attempt(self.destination, f"job_{next(self.numbers)}", 0), root)
        roots = () if root is None else (self.path(root),)
        try:
            setup_job(self.store, job.job, replaces=roots)
        except CommitConflictError:
            assert root == WHOLE_DESTINATION, "only a job that replaces everything may be refused"
            assert self.model.in_phase(*UNFINISHED), "and only beside an unfinished one"
            return
        assert not (root == WHOLE_DESTINATION and self.model.in_phase(Phase.DECIDED))
        self.model.jobs.append(job)
        if names:
            self.succeed(job, self.run_attempt(job, 0, names, same=False))

    @precondition(lambda self: self.model.in_phase(Phase.OPEN))
    @rule(pick=picks, task=st.integers(0, 2), names=outputs, same=st.booleans(), wins=st.booleans())
    def run_task(self, pick: int, task: int, names: list[str], same: bool, wins: bool) -> None:
        """An attempt writes, and may commit; others of its task may be running or have committed."""
        job = _one(self.model.in_phase(Phase.OPEN), pick)
        attempt = self.run_attempt(job, task, names, same=same and task == 0)
        if wins:
            self.succeed(job, attempt)

    @precondition(lambda self: self._with_running())
    @rule(pick=picks, faults=st.none() | seeds)
    def commit_task(self, pick: int, faults: int | None) -> None:
        """A task attempt commits, perhaps so late that its job has been decided or is over."""
        late = [job for job in self._with_running() if job.phase is Phase.DECIDED]
        job = _one(late or self._with_running(), pick)
        attempt = job.running.pop(pick % len(job.running))
        try:
            store = self.faulty_store(faults, TASK_CALLS)
            commit_attempt(store, job.job, attempt.task, attempt.task_attempt_id)
        except (TaskCommitError, CommitRecordExistsError, OSError, SimulatedCrash):
            assert faults is not None or job.phase is not Phase.OPEN
            if job.phase is Phase.OPEN:
                self.retry(job, attempt)
            return
        assert job.phase is Phase.OPEN, "no task can be committed once its job is decided"
        job.winners[attempt.task] = attempt

    @precondition(lambda self: self._with_running())
    @rule(pick=picks)
    def abort_task(self, pick: int) -> None:
        """A task attempt that has not committed is given up."""
        job = _one(self._with_running(), pick)
        attempt = job.running.pop(pick % len(job.running))
        abort_task(self.store, job.job, attempt.task_attempt_id)

    @precondition(lambda self: self._with_running())
    @rule(pick=picks)
    def wake_zombie(self, pick: int) -> None:
        """An attempt writes on, whatever has become of its job."""
        job = _one(self._with_running(), pick)
        attempt = _one(job.running, pick)
        files = {f"p=1/zombie-{next(self.numbers)}": self.data()}
        write_attempt(self.store, job.job, attempt.task_attempt_id, files)
        attempt.files |= files
        job.has_zombie_files |= job.phase is Phase.OVER

    @precondition(lambda self: self._ready())
    @rule(pick=picks, faults=seeds, chaos=st.none() | seeds)
    def commit_under_faults(self, pick: int, faults: int, chaos: int | None) -> None:
        """Anything may come of it but a wrong result."""
        job = _one(self._ready(), pick)
        job.was_cut = True
        result = self.commit(job, faults, chaos, tuple(Chaos))
        self.model.learn(self.store, job, aborts=False)
        if isinstance(result, CommitReport):
            assert job.phase in (Phase.COMMITTED, Phase.OVER), "it said that it has committed"

    @precondition(lambda self: self._committable())
    @rule(pick=picks, chaos=st.none() | seeds)
    def commit_job(self, pick: int, chaos: int | None) -> None:
        """On a healthy store a commit succeeds, or says why it cannot."""
        jobs = (pick % 4 and self._ready()) or self._committable()
        self._commit_and_check(_one(jobs, pick), chaos)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, faults=st.none() | seeds)
    def abort_job(self, pick: int, faults: int | None) -> None:
        """An abort succeeds until the record stands, and never after."""
        job = _one(self.model.jobs, pick)
        job.was_cut |= faults is not None
        decided = job.phase in (Phase.DECIDED, Phase.COMMITTED)
        try:
            run_abort(
                self.faulty_store(faults, COMMIT_CALLS // 4), job.job, nonce=f"a{next(self.numbers)}"
            )
        except (RayCommitterError, OSError, SimulatedCrash) as e:
            expected = decided and isinstance(e, CommitRecordExistsError)
            assert faults is not None or expected, f"{job}: could not be aborted: {e!r}"
        else:
            assert not decided, f"{job}: was aborted after its record"
        self.model.learn(self.store, job, aborts=not decided)
        assert faults is not None or decided or job.phase is Phase.OVER

    @precondition(lambda self: len(self.model.settled) < MOST_SETTLED_FILES)
    @rule(pick=picks, partition=partitions, in_the_way=st.booleans())
    def foreign_file_appears(self, pick: int, partition: str, in_the_way: bool) -> None:
        """Somebody writes to the destination, perhaps where a job wants to put a file."""
        there = visible_files(self.store, self.destination)
        wanted = [
            (name, data if job.phase is Phase.DECIDED or job.root is None else self.data())
            for job in self._committable()
            for name, data in job.files.items()
            if name not in there
        ]
        if in_the_way and wanted:
            name, like = _one(wanted, pick)
            # A size alone must not make it the job's own. Where an old file of this name is to go, no
            # store need tell the two apart, nor can the model, which knows files by their bytes.
            is_listed = any(name in job.old for job in self.model.in_phase(Phase.DECIDED))
            self.put_foreign(name, self.data() if is_listed else b"y" * len(like))
            return
        old = self.model.old_files(there) if pick % 2 else []  # rewritten, it is old no more
        fresh = f"{partition}/foreign-{next(self.numbers)}"
        self.put_foreign(_one(old, pick) if old else fresh, self.data())

    @precondition(lambda self: self._decided_with_files())
    @rule(pick=picks)
    def zombie_replaces_manifest(self, pick: int) -> None:
        """A task that asks whether its job is decided is refused; one that does not stops everything."""
        job = _one(self._decided_with_files(), pick)
        late = self.run_attempt(job, 0, ["p=1"], same=False)
        try:
            self.succeed(job, late)
        except CommitRecordExistsError:
            job.running.remove(late)
        assert late not in job.winners.values(), f"{job}: took a task after its record"
        attempt = next(attempt for attempt in job.winners.values() if attempt.files)
        with self.another_manifest(job, attempt):
            result = self.commit(job, None, None, SAFE_CHAOS)
            assert isinstance(result, ManifestChangedError), f"{job}: {result!r}"
            self.model.check(self.store, self.destination)

    @invariant()
    def only_what_must_be_is_visible(self) -> None:
        """Complete, exclusive, continuous, nothing lost, nothing of others touched."""
        if hasattr(self, "model"):
            self.model.check(self.store, self.destination)
            assert self.store.read(self.theirs) == b"work of a classic committer"

    def teardown(self) -> None:
        """Whatever happened, every job can be brought to its end."""
        if not hasattr(self, "model") or sys.exc_info()[0] is not None:
            return  # the error of the rule that failed is the one to show
        for job in self.model.in_phase(Phase.ABORTING):
            self.finish_abort(job)
        for job in self.model.in_phase(Phase.DECIDED, Phase.COMMITTED):
            self._commit_and_check(job, None)
        for job in self.model.in_phase(Phase.OPEN):
            if job.winners:
                self._commit_and_check(job, None)
            else:
                self.finish_abort(job)
        self.only_what_must_be_is_visible()
        for job in self.model.jobs:
            assert job.phase is Phase.OVER, f"{job}: cannot be brought to an end"
            self.model.check_clean(self.store, job)

    def finish_abort(self, job: ModelJob) -> None:
        """Abort a job that nobody has decided to commit."""
        run_abort(self.store, job.job)
        self.model.learn(self.store, job, aborts=True)

    def _commit_and_check(self, job: ModelJob, chaos: int | None) -> None:
        blockers = self.model.blockers(job)
        is_refused = job.root == WHOLE_DESTINATION and self._others(job, UNFINISHED)
        phase = job.phase
        result = self.commit(job, None, chaos, SAFE_CHAOS)
        self.model.learn(self.store, job, aborts=False)
        expected: tuple[type[Exception], ...] = ()
        if phase is Phase.OVER:
            success = read_success(self.store, self.destination)
            is_noted = success is not None and success.job_id == job.job.job_id
            expected = () if is_noted else (JobNotFoundError,)
        elif phase is Phase.ABORTING:
            expected = (CommitAbortedError, JobNotFoundError)
        elif phase is Phase.OPEN and not job.winners:
            expected = (IncompleteJobError,)
        elif phase is Phase.OPEN and is_refused:
            expected = (CommitConflictError,)
        elif phase in (Phase.OPEN, Phase.DECIDED) and blockers:
            assert isinstance(result, CommitConflictError), f"{job}: {blockers} were in the way"
            self.move_away(blockers)
            return self._commit_and_check(job, chaos)
        if expected:
            assert isinstance(result, expected), f"{job}: {result!r} instead of {expected}"
        else:
            self._check_committed(job, result)
        return None

    def _check_committed(self, job: ModelJob, result: CommitReport | BaseException) -> None:
        assert isinstance(result, CommitReport), f"{job}: could not be committed: {result!r}"
        assert result.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
        success = read_success(self.store, self.destination)
        assert success is not None
        assert success.job_id == job.job.job_id
        self.model.check_clean(self.store, job)

    def _committable(self) -> list[ModelJob]:
        """The jobs whose commit may be tried: a partition is not replaced beside an unfinished job."""
        return [
            job
            for job in self.model.jobs
            if not (job.root and job.phase is Phase.OPEN and self._others(job, (Phase.DECIDED,)))
        ]

    def _ready(self) -> list[ModelJob]:
        """Those that have something to commit or to finish."""
        return [job for job in self._committable() if job.winners and job.phase is not Phase.OVER]

    def _decided_with_files(self) -> list[ModelJob]:
        return [job for job in self.model.in_phase(Phase.DECIDED) if job.files]

    def _others(self, job: ModelJob, phases: Iterable[Phase]) -> list[ModelJob]:
        return [other for other in self.model.in_phase(*phases) if other is not job]

    def _with_running(self) -> list[ModelJob]:
        return [job for job in self.model.jobs if job.running]


def _one(items: Sequence[T], pick: int) -> T:
    return items[pick % len(items)]
