"""A stateful test of whole jobs on one destination, for any store; needs hypothesis (extra ``test``).

Jobs of every kind are set up, run, committed, crashed, aborted, undone and woken up in any order, while
files of others appear. After each step, `DestinationModel` decides what must be visible. Use it as
``TestMyStore = JobMachine.TestCase`` with `new_store` overridden.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import TypeVar
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ray_committer.errors import (
    CommitAbortedError,
    CommitConflictError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    IncompleteJobError,
    JobNotFoundError,
    PackChangedError,
    RayCommitterError,
    TaskCommitError,
)
from ray_committer.job_files.success import read_success
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.paths import join, new_job_attempt
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.take_away import sweep_all_gone
from ray_committer.stores.base import StoreOperations, Versions
from ray_committer.testing.chaos_executor import Chaos
from ray_committer.testing.faults import SimulatedCrash
from ray_committer.testing.harness import (
    all_files,
    commit_attempt,
    put_file,
    run_abort,
    run_undo,
    visible_files,
    write_attempt,
)
from ray_committer.testing.memory_store import Identity, MemoryStore
from tests.machines.job_actions import COMMIT_CALLS, PARTITIONS, JobActions
from tests.machines.job_model import (
    WHOLE_DESTINATION,
    DestinationModel,
    ModelAttempt,
    ModelJob,
    Phase,
)

TASK_CALLS = 8
MOST_OPEN_JOBS = 3
MOST_SETTLED_FILES = 12
SAFE_CHAOS = tuple(kind for kind in Chaos if kind is not Chaos.TWICE_AT_ONCE)
UNFINISHED = (Phase.DECIDED, Phase.UNDOING, Phase.COMMITTED)
IN_THE_WAY = (Phase.DECIDED, Phase.UNDOING)

T = TypeVar("T")
picks = st.integers(0, 1000)
seeds = st.integers(0, 2**32 - 1)
partitions = st.sampled_from(PARTITIONS)
outputs = st.lists(partitions, max_size=3)


class JobMachine(JobActions, RuleBasedStateMachine):
    """Any operations on any jobs of one destination, in any order."""

    def new_store(self, kind: int) -> StoreOperations:
        """Open an empty store of the kind with this number; override it to test another store."""
        identity = list(Identity)[kind % 4]
        return MemoryStore(identity=identity, real_directories=kind < 4, listing_is_cheap=kind % 2 == 0)

    @initialize(kind=st.integers(0, 7), nonces=seeds)
    def open(self, kind: int, nonces: int) -> None:
        """Begin with a file of another program, and with one that another committer is writing.

        Names are listed and deleted in order, so random names are also drawn from the seed; otherwise a
        run could not be repeated.
        """
        self.store = self.new_store(kind)
        self.model = DestinationModel()
        drawn = _hex_of(Random(nonces))
        self.nonces = patch("secrets.token_hex", drawn)
        self.nonces.start()
        self.numbers = itertools.count(1)
        self.theirs = join(self.destination, "_temporary", "0", "_temporary", "attempt_0", "part-0")
        put_file(self.store, self.theirs, b"work of a classic committer")
        self.put_foreign("p=1/foreign", self.data())

    @precondition(lambda self: len(self.model.in_phase(Phase.OPEN)) < MOST_OPEN_JOBS)
    @rule(root=st.sampled_from((None, None, WHOLE_DESTINATION, "p=1")), names=outputs)
    def set_up_job(self, root: str | None, names: list[str]) -> None:
        """Set up a job and commit its first task; it is refused beside an unfinished job, unless it only
        replaces what that one does not write."""
        job = ModelJob(new_job_attempt(self.destination, f"job_{next(self.numbers)}", 0), root)
        roots = () if root is None else (self.path(root),)
        try:
            setup_job(self.store, job.job, replaces=roots)
        except CommitConflictError:
            assert self.model.in_phase(*IN_THE_WAY), "only beside an unfinished job one may be refused"
            return
        in_the_way = self.model.in_phase(*IN_THE_WAY)
        if root is None:
            in_the_way = [other for other in in_the_way if not other.is_passed_by_appends]
        if root == WHOLE_DESTINATION:  # what neither writes nor replaces anything is not in its way
            in_the_way = [other for other in in_the_way if other.files or other.root is not None]
        assert not (root in (None, WHOLE_DESTINATION) and in_the_way)
        self.model.jobs.append(job)
        if names:
            self.succeed(job, self.run_attempt(job, 0, names, same=False))

    @precondition(lambda self: self._accepting())
    @rule(pick=picks, task=st.integers(0, 2), names=outputs, same=st.booleans(), wins=st.booleans())
    def run_task(self, pick: int, task: int, names: list[str], same: bool, wins: bool) -> None:
        """A task attempt writes, and may commit; others of its task may still run or have committed."""
        job = _one(self._accepting(), pick)
        attempt = self.run_attempt(job, task, names, same=same and task == 0)
        if wins:
            self.succeed(job, attempt)

    @precondition(lambda self: self._with_running())
    @rule(pick=picks, faults=st.none() | seeds)
    def commit_task(self, pick: int, faults: int | None) -> None:
        """A task attempt commits, perhaps so late that its job has been decided or is over."""
        late = [job for job in self._with_running() if job.phase in IN_THE_WAY or job.is_closed]
        job = _one(late or self._with_running(), pick)
        attempt = job.running.pop(pick % len(job.running))
        if job.phase is Phase.OPEN:  # the commit of another job may have withdrawn a dead declaration
            self.model.learn(self.store, job)
        try:
            store = self.faulty_store(faults, TASK_CALLS)
            attempt.result = commit_attempt(
                store, job.job, attempt.task, attempt.task_attempt_id, files=attempt.files
            )
        except (TaskCommitError, CommitRecordExistsError, OSError, SimulatedCrash):
            is_open = job.phase is Phase.OPEN and not job.is_closed
            assert faults is not None or not is_open
            if is_open:
                self.retry(job, attempt)
            return
        is_open = job.phase is Phase.OPEN and not job.is_closed
        assert is_open, "no task can be committed once a commit has begun"
        job.winners[attempt.task] = attempt

    @precondition(lambda self: self._with_running())
    @rule(pick=picks)
    def abort_task(self, pick: int) -> None:
        """A task attempt that has not committed is given up."""
        job = _one(self._with_running(), pick)
        attempt = job.running.pop(pick % len(job.running))
        self.give_up(job, attempt)

    @precondition(lambda self: self._with_running())
    @rule(pick=picks)
    def wake_zombie(self, pick: int) -> None:
        """A task attempt continues to write, in any state of its job."""
        job = _one(self._with_running(), pick)
        attempt = _one(job.running, pick)
        files = {self.name_for(attempt.task_attempt_id, "p=1", "zombie"): self.data()}
        write_attempt(self.store, job.job, attempt.task_attempt_id, files)
        attempt.files |= files
        job.has_zombie_files |= job.phase is Phase.OVER

    @precondition(lambda self: self._ready())
    @rule(pick=picks, faults=seeds, chaos=st.none() | seeds)
    def commit_under_faults(self, pick: int, faults: int, chaos: int | None) -> None:
        """Under faults a commit may end in any way, except with a wrong result."""
        job = _one(self._ready(), pick)
        job.was_cut = True
        result = self.commit(job, faults, chaos, tuple(Chaos))
        self.model.learn(self.store, job)
        if isinstance(result, CommitResult):
            assert job.phase in (Phase.COMMITTED, Phase.OVER), "it said that it has committed"

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, chaos=st.none() | seeds)
    def commit_job(self, pick: int, chaos: int | None) -> None:
        """On a healthy store a commit succeeds, or reports why it cannot."""
        jobs = (pick % 4 and self._ready()) or self.model.jobs
        self._commit_and_check(_one(jobs, pick), chaos)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, faults=st.none() | seeds)
    def abort_job(self, pick: int, faults: int | None) -> None:
        """An abort succeeds until the commit record is written, and never after that."""
        job = _one(self.model.jobs, pick)
        job.was_cut |= faults is not None
        decided = job.phase in UNFINISHED
        try:
            run_abort(self.faulty_store(faults, COMMIT_CALLS // 4), job.job)
        except (RayCommitterError, OSError, SimulatedCrash) as e:
            expected = decided and isinstance(e, CommitRecordExistsError)
            assert faults is not None or expected, f"{job}: could not be aborted: {e!r}"
        else:
            assert not decided, f"{job}: was aborted after its record"
        self.model.learn(self.store, job, aborts=not decided)
        assert faults is not None or decided or job.phase is Phase.OVER

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, faults=st.none() | seeds)
    def undo_job(self, pick: int, faults: int | None) -> None:
        """A recorded commit can be given up until it is sealed, and after that if all of its old files
        are put aside."""
        decided = self.model.in_phase(Phase.DECIDED)
        recorded = [job for job in decided if job.is_undoable or not job.is_sealed]
        job = _one((pick % 4 and recorded) or self.model.jobs, pick)
        job.was_cut |= faults is not None
        is_fixed = job.is_sealed and not job.is_undoable and job.phase in UNFINISHED
        is_final = is_fixed or job.phase is Phase.COMMITTED
        try:
            run_undo(self.faulty_store(faults, COMMIT_CALLS // 2), job.job)
        except (RayCommitterError, OSError, SimulatedCrash) as e:
            expected = is_final and isinstance(e, CommitRecordExistsError)
            expected |= self.is_in_doubt(job) and isinstance(e, CommitStateUnknownError)
            is_blocked = self.make_way(job, e)
            assert faults is not None or expected or is_blocked, f"{job}: could not be undone: {e!r}"
        else:
            is_blocked = False
            assert not is_final, f"{job}: was undone after old files could be gone"
        self.model.learn(self.store, job, aborts=not is_final, undoes=True)
        is_over = job.phase is Phase.OVER or self.is_in_doubt(job) or is_blocked
        assert faults is not None or is_final or is_over

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def sweep(self, pick: int) -> None:
        """A sweep at any time deletes what was taken away but not deleted, and nothing else."""
        sweep_all_gone(self.store, _one(self.model.jobs, pick).job)

    @precondition(lambda self: len(self.model.settled) < MOST_SETTLED_FILES)
    @rule(pick=picks, partition=partitions, in_the_way=st.booleans())
    def foreign_file_appears(self, pick: int, partition: str, in_the_way: bool) -> None:
        """Another program writes to the destination, perhaps to a path that a job needs."""
        there = visible_files(self.store, self.destination)
        wanted = [
            (name, data if job.phase is Phase.DECIDED or job.root is None else self.data())
            for job in self.model.jobs
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
        """A manifest is ignored if its task saves it without checking whether the job is decided."""
        job = _one(self._decided_with_files(), pick)
        self.replace_manifest(job, _with_files(job))
        self._commit_and_check(job, None)

    @precondition(lambda self: any(job.is_closed for job in self.model.jobs))
    @rule(pick=picks)
    def begin_task_too_late(self, pick: int) -> None:
        """No task begins after a job is decided; a task that begins before that does not commit."""
        job = _one([job for job in self.model.jobs if job.is_closed], pick)
        try:
            self.run_attempt(job, 0, ["p=1"], same=False)
        except TaskCommitError:
            return
        assert job.phase is Phase.OPEN, f"{job}: a task began"

    @precondition(lambda self: self._decided_with_files())
    @rule(pick=picks)
    def torn_pack_stops_everything(self, pick: int) -> None:
        """Nothing is moved if a pack is not the one in the commit record."""
        job = _one(self._decided_with_files(), pick)
        with self.torn_packs(job):
            result = self.commit(job, None, None, SAFE_CHAOS)
            assert isinstance(result, PackChangedError), f"{job}: {result!r}"
            self.model.check(self.store, self.destination)

    @invariant()
    def only_what_must_be_is_visible(self) -> None:
        """Complete, exclusive, continuous, nothing lost, nothing of others touched."""
        if hasattr(self, "model"):
            self.model.check(self.store, self.destination)
            assert self.store.read(self.theirs) == b"work of a classic committer"

    def teardown(self) -> None:
        """Every job can be brought to its end, in every case."""
        if not hasattr(self, "model"):
            return
        try:
            if sys.exc_info()[0] is None:  # else the error of the rule that failed is the one to show
                self._end_every_job()
        finally:
            self.nonces.stop()

    def _end_every_job(self) -> None:
        for job in self.model.in_phase(Phase.ABORTING):
            self.finish_abort(job)
        for job in self.model.in_phase(Phase.UNDOING):
            self.finish_undo(job)
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
            left = all_files(self.store, job.job.state)
            if job.was_cut and left and all("/aborted." in path for path in left):
                run_abort(self.store, job.job)  # of what late tasks had left, an abort was killed
            sweep_all_gone(self.store, job.job)
            self.model.check_clean(self.store, job)
        self.model.check_swept(self.store, self.destination)

    def finish_abort(self, job: ModelJob) -> None:
        """Abort a job whose commit is not decided."""
        run_abort(self.store, job.job)
        self.model.learn(self.store, job, aborts=True)

    def finish_undo(self, job: ModelJob) -> None:
        """Give up a commit; first move away the files that the store cannot recognise again."""
        if self.is_in_doubt(job):
            there = visible_files(self.store, self.destination)
            self.move_away(name for name in job.files if name in self.model.settled)
            for name in job.files.keys() & there.keys():
                self.store.delete_file(self.path(name))
        try:
            run_undo(self.store, job.job)
        except CommitStateUnknownError as e:
            assert self.make_way(job, e), f"{job}: could not be undone: {e!r}"
            run_undo(self.store, job.job)
        self.model.learn(self.store, job, aborts=True, undoes=True)

    def make_way(self, job: ModelJob, error: BaseException) -> bool:
        """Whether an undo has failed because names of old files are taken; then move away what has
        taken them, as a user does after reading the error."""
        if "its name is taken" not in str(error):
            return False
        self.model.learn(self.store, job, undoes=True)
        names = [name for name in job.old if f"{self.path(name)}: its name is taken" in str(error)]
        self.move_away(names)
        self.model.settled.update((name, job.old[name]) for name in names)
        return True

    def is_in_doubt(self, job: ModelJob) -> bool:
        """Whether only sizes may show which files at the destination belong to a job."""
        is_known = self.store.capabilities.versions is not Versions.NONE or _has_times(self.store)
        return not is_known and job.phase in IN_THE_WAY

    def _commit_and_check(self, job: ModelJob, chaos: int | None) -> None:
        there = visible_files(self.store, self.destination)
        blockers = [name for name in self.model.blockers(job) if name in there]
        is_refused = any(job.is_hindered(other) for other in self._others(job, IN_THE_WAY))
        phase = job.phase
        result = self.commit(job, None, chaos, SAFE_CHAOS)
        self.model.learn(self.store, job)
        expected: tuple[type[Exception], ...] = ()
        if phase is Phase.OVER:
            success = read_success(self.store, self.destination)
            is_noted = success is not None and success.job_id == job.job.job_id
            if job.was_committed and not is_noted and isinstance(result, CommitResult):
                return None  # what was left of it to be deleted said so
            expected = () if is_noted else (JobNotFoundError,)
        elif phase is Phase.UNDOING:
            expected = (CommitRecordExistsError,)
        elif phase is Phase.ABORTING:
            expected = (CommitAbortedError, JobNotFoundError)
        elif phase is Phase.OPEN and not job.winners:
            expected = (IncompleteJobError,)
        elif phase is Phase.OPEN and is_refused:
            expected = (CommitConflictError,)
            assert job.phase is Phase.OPEN
        elif phase in (Phase.OPEN, Phase.DECIDED) and blockers:
            assert isinstance(result, CommitConflictError), f"{job}: {blockers} were in the way"
            if phase is Phase.OPEN and self.store.capabilities.listing_is_cheap:
                assert job.phase is Phase.OPEN, "what could be seen was to be seen before the record"
                assert all(name in str(result) for name in blockers)
            self.move_away(blockers)
            return self._commit_and_check(job, chaos)
        if expected:
            assert isinstance(result, expected), f"{job}: {result!r} instead of {expected}"
        else:
            self._check_committed(job, result, marked_before=phase is Phase.COMMITTED and job.was_cut)
        return None

    def _check_committed(
        self, job: ModelJob, result: CommitResult | BaseException, *, marked_before: bool
    ) -> None:
        """Check a commit that must have succeeded.

        `marked_before`: its ``_SUCCESS`` existed, and may be gone since another job was set up.
        """
        assert isinstance(result, CommitResult), f"{job}: could not be committed: {result!r}"
        assert result.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
        success = read_success(self.store, self.destination)
        assert marked_before or (success is not None and success.job_id == job.job.job_id)
        self.model.check_clean(self.store, job)

    def _accepting(self) -> list[ModelJob]:
        """The jobs whose tasks may commit."""
        return [job for job in self.model.in_phase(Phase.OPEN) if not job.is_closed]

    def _ready(self) -> list[ModelJob]:
        """The jobs that have something to commit or to finish."""
        return [job for job in self.model.jobs if job.winners and job.phase is not Phase.OVER]

    def _decided_with_files(self) -> list[ModelJob]:
        return [job for job in self.model.in_phase(Phase.DECIDED) if job.files]

    def _others(self, job: ModelJob, phases: Iterable[Phase]) -> list[ModelJob]:
        return [other for other in self.model.in_phase(*phases) if other is not job]

    def _with_running(self) -> list[ModelJob]:
        return [job for job in self.model.jobs if job.running]


def _one(items: Sequence[T], pick: int) -> T:
    return items[pick % len(items)]


def _hex_of(random: Random) -> Callable[[int], str]:
    return lambda size: random.randbytes(size).hex()


def _with_files(job: ModelJob) -> ModelAttempt:
    return next(attempt for attempt in job.winners.values() if attempt.files)


def _has_times(store: StoreOperations) -> bool:
    """Whether the store reports when a file was written, which a rename keeps."""
    return not isinstance(store, MemoryStore) or store.identity is Identity.MODIFICATION_TIME
