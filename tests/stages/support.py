"""What the tests of single stages share: a context, a count of the requests, faults at them."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from ray_committer.events import CancelToken, EventSink, ignore
from ray_committer.executors.base import WorkExecutor
from ray_committer.executors.inline import InlineExecutor
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import Seen, adopt_state, advance, read_state
from ray_committer.job_files.owners import owner_of
from ray_committer.options import CommitOptions
from ray_committer.places.base import tasks_of
from ray_committer.protocol.manifest import STAMP
from ray_committer.protocol.pack import Pack, PackRef
from ray_committer.protocol.paths import JobAttempt, is_inside, join, new_job_attempt
from ray_committer.protocol.record import (
    Claim,
    CommitRecord,
    ConflictMode,
    Declaration,
    Owner,
    encode,
)
from ray_committer.protocol.state import UNSTAMPED, JobState, Phase, new_nonce
from ray_committer.stages.context import JobContext
from ray_committer.stages.load_manifests import LoadedManifests, load_manifests, save_packs
from ray_committer.stages.load_packs import load_packs
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.local import LocalStore
from ray_committer.testing import (
    Identity,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    crash_at,
    write_job,
)
from ray_committer.testing.harness import ending, put_file, source_of
from ray_committer.testing.memory_store import moved
from ray_committer.work.worker import Worker
from tests.servers.fake_s3 import FakeS3Store

JOB = new_job_attempt("/table", "job_1", 0)
OTHER_JOB = new_job_attempt("/table", "job_2", 0)
NOW = 1_700_000_000_000
DEAD = owner_of("a run that has ended")
ALIVE = Owner("elsewhere", "boot", 1, 2, "run")
"""A committer on another machine, which is believed since its last sign was `NOW`."""
CLAIM = Claim(["/table"])
WHEN = ("before", "after")
"""A hook before a call keeps it from the store; one after it loses its answer."""

Run = Callable[[StoreOperations], Any]

KINDS: dict[str, Callable[[], MemoryStore]] = {
    "directories": MemoryStore,
    "etags": lambda: MemoryStore(identity=Identity.ETAG),
    "flat": lambda: MemoryStore(real_directories=False),
    "generations": lambda: MemoryStore(real_directories=False, identity=Identity.GENERATION),
}
"""Stores that differ in what a stage does on them."""
KINDS_OF_TABLES: dict[str, Callable[[], Any]] = {**KINDS, "uploads": FakeS3Store}
EACH_TABLE = [*KINDS, pytest.param("uploads", marks=pytest.mark.wide)]
"""Stores on which tables with a log differ."""


def only(kept: str) -> list[ParameterSet]:
    """All kinds, of which `make test` tries one."""
    return [pytest.param(one, marks=() if one == kept else (pytest.mark.wide,)) for one in KINDS]


ON_DIRECTORIES, ON_OBJECTS = only("directories"), only("generations")
"""For tests that take long, such as a crash at any request: some are tried on one, some on the other."""


class SyncedStore(MemoryStore):
    """A store on which paths must be forced to disk; it notes which were."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []

    def sync(self, path: str) -> None:
        if self.get_status(path) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        self.synced.append(path)


class WithMount(LocalStore):
    """Below ``p=2`` another file system is mounted."""

    def file_system(self, path: str) -> str:
        return "other" if "/p=2" in path else super().file_system(path)


class OfWorkers(InlineExecutor):
    """An executor of workers that have stores of their own, like one on Ray."""

    starts_workers = True


class MakesParentsOfWrites(MemoryStore):
    """As Azure: a write makes the directories above it."""

    def write(self, path: str, data: bytes) -> None:
        self.mkdirs(path.rpartition("/")[0])
        super().write(path, data)


def each_of(*kinds: str) -> Any:
    """A fixture `store`: an empty one of each of these kinds, or of all."""

    @pytest.fixture(params=kinds or KINDS)
    def store(request: pytest.FixtureRequest) -> MemoryStore:
        return KINDS[request.param]()

    return store


def context(
    store: StoreOperations,
    options: CommitOptions | None = None,
    *,
    job: JobAttempt = JOB,
    executor: WorkExecutor | None = None,
    emit: EventSink = ignore,
    cancelled: bool = False,
) -> JobContext:
    """What a stage is given, with its work done inline, so that the order of the calls is fixed."""
    executor = executor or InlineExecutor(lambda permits: Worker(store, job, permits, in_driver=True))
    token = CancelToken()
    if cancelled:
        token.cancel()
    return JobContext(
        GuardedStore(store, executor.permits),
        job,
        options or CommitOptions(),
        executor,
        emit=emit,
        now_milliseconds=lambda: NOW,
        cancelled=token,
        end_other=ending(store),
    )


def record_of(packs: Sequence[Pack] = (), **fields: Any) -> CommitRecord:
    """A commit record of `JOB` with what a test cares for."""
    values = {
        "nonce": "nonce",
        "job_id": JOB.job_id,
        "job_attempt": 0,
        "created_milliseconds": NOW,
        "owner": DEAD,
        "claim": CLAIM,
    }
    return CommitRecord(packs=[pack.ref for pack in packs], **{"tasks": 0, **values, **fields})


_WAYS = {
    Phase.OPEN: (),
    Phase.DECLARED: (Phase.DECLARED,),
    Phase.RECORDED: (Phase.DECLARED, Phase.RECORDED),
    Phase.SEALED: (Phase.DECLARED, Phase.RECORDED, Phase.SEALED),
    Phase.COMMITTED: (Phase.DECLARED, Phase.RECORDED, Phase.COMMITTED),
    Phase.UNDOING: (Phase.DECLARED, Phase.RECORDED, Phase.UNDOING),
    Phase.ABORTED: (Phase.ABORTED,),
}


def bring_to(
    store: StoreOperations, phase: Phase, *, job: JobAttempt = JOB, record: CommitRecord | None = None
) -> Seen:
    """Bring an open job to a phase, with `record` and a declaration of the same beside its state."""
    record = record or record_of(job_id=job.job_id, job_attempt=job.number)
    seen = adopt_state(store, job)
    for step in _WAYS[phase]:
        nonce = record.nonce if step is Phase.RECORDED else new_nonce()
        if step is Phase.DECLARED:
            store.write(job.content(nonce), encode(_declaration(record, nonce)))
        if step is Phase.RECORDED:
            store.write(job.content(nonce), encode(record))
        seen = advance(store, job, seen, step, nonce)
    return seen


def with_job(
    tasks: Mapping[int, Mapping[str, bytes]] | None = None,
    *,
    store: Any = None,
    job: JobAttempt = JOB,
    mode: ConflictMode = ConflictMode.APPEND,
    phase: Phase = Phase.OPEN,
    **fields: Any,
) -> Any:
    """A store, by default a new one, with a job whose tasks have committed.

    The job is in a phase, and `fields` are those of its declaration and its record.
    """
    store = MemoryStore() if store is None else store
    write_job(store, job, tasks or {}, mode=mode)
    record = record_of(job_id=job.job_id, job_attempt=job.number, **fields)
    bring_to(store, phase, job=job, record=record)
    return store


def set_up(*jobs: JobAttempt) -> MemoryStore:
    """A store with jobs that were only set up."""
    store = MemoryStore()
    for one in jobs:
        setup_job(store, one)
    return store


def a_file(path: str) -> MemoryStore:
    """A store with one empty file."""
    store = MemoryStore()
    put_file(store, path, b"")
    return store


def _declaration(record: CommitRecord, nonce: str) -> Declaration:
    return Declaration(
        nonce=nonce,
        job_id=record.job_id,
        job_attempt=record.job_attempt,
        created_milliseconds=record.created_milliseconds,
        owner=record.owner,
        claim=record.claim,
    )


def loaded(found: JobContext, stamp: str | None = None) -> LoadedManifests:
    """Load the job's manifests, as the stages that follow need it; without `stamp` it is looked up."""
    stamp = stamp_of_job(found.store, found.job) if stamp is None else stamp
    return load_manifests(found, (found.job.destination,), stamp=stamp)


def pack_of(files: int = 0, size: int = 0, name: str = "pack") -> Pack:
    """A pack as a record names it, of so many files of so many bytes in all."""
    return Pack(PackRef(name, "", 1, files, size))


def files_of(store: MemoryStore) -> dict[str, bytes]:
    """All files but for those beside the state of `JOB`."""
    return {path: data for path, data in store.files().items() if not is_inside(path, JOB.state)}


def seen_in(store: StoreOperations, job: JobAttempt = JOB) -> Seen:
    """What is seen of a job that has a state."""
    seen = read_state(store, job)
    assert seen is not None
    return seen


def state_of(store: StoreOperations, job: JobAttempt = JOB) -> JobState:
    """The state of a job that has one."""
    return seen_in(store, job).state


def phase_of(store: StoreOperations, job: JobAttempt = JOB) -> Phase | None:
    """How far a job is; None if it is over, or never was."""
    seen = read_state(store, job)
    return seen.phase if seen else None


def stamp_of_job(store: StoreOperations, job: JobAttempt = JOB) -> str:
    """What the manifests of a job must bear."""
    seen = read_state(store, job)
    return seen.state.stamp if seen else UNSTAMPED


def manifest_path(task: int, job: JobAttempt = JOB) -> str:
    """The place of the manifest that `write_job` saves for a task."""
    return job.manifest(f"task_{job.job_id}_m_{task:06d}")


def record(store: StoreOperations, job: JobAttempt = JOB, **fields: Any) -> CommitRecord:
    """Load, freeze and record an open job, as a commit does before it moves a file."""
    found = context(store, job=job)
    saved = save_packs(found, loaded(found))
    known = {"job_id": job.job_id, "job_attempt": job.number, "tasks": saved.tasks}
    recorded = record_of(saved.packs, **{**known, **fields})
    if store.has(StoreOperations.move_directory):
        freeze(store, job)
    bring_to(store, Phase.RECORDED, job=job, record=recorded)
    return recorded


def resumed(found: JobContext) -> tuple[CommitRecord, LoadedManifests]:
    """The record of a job, and the packs that it names, as a run that goes on loads them."""
    state = state_of(found.store, found.job)
    record = load_commit_record(found.store, found.job, state)
    return record, load_packs(found, record, (found.job.destination,))


def frozen_path(task: int, job: JobAttempt = JOB) -> str:
    """The place of that manifest once it is frozen."""
    return join(job.frozen, manifest_path(task, job).rpartition("/")[2])


def freeze(store: StoreOperations, job: JobAttempt = JOB) -> None:
    """Put the manifests where they are once no task can add one."""
    store.move_directory(job.manifests, job.frozen)


def source_path(task: int, name: str, job: JobAttempt = JOB) -> str:
    """The place of a file that `write_job` writes for a task."""
    return source_of(job, f"attempt_{job.job_id}_m_{task:06d}_0", name)


def now(store: StoreOperations, job: JobAttempt = JOB) -> JobAttempt:
    """The attempt with the files of its tasks where they are now."""
    return next(iter(tasks_of(store, job)), job)


def place_of(store: StoreOperations, path: str, job: JobAttempt = JOB) -> str:
    """Where a file of a task is now, which it wrote at `path`."""
    return moved(path, job.tasks, now(store, job).tasks)


def task_files(store: MemoryStore, job: JobAttempt = JOB) -> dict[str, bytes]:
    """The files of tasks, wherever they are, by the paths that manifests name."""
    place = now(store, job)
    return {moved(path, place.tasks, job.tasks): data for path, data in store.files(place.tasks).items()}


def staged_name(name: str, task: int = 0, attempt: int = 0) -> str:
    """A name that `write_attempt` stages, for this attempt of a task."""
    return f"{name}-{task:08x}{attempt:08x}"


def stamp_manifest(store: MemoryStore, task: int, stamp: str | None) -> None:
    """Let a task's manifest be of the job with another stamp, or of one without."""
    content = json.loads(store.read(manifest_path(task)))
    content["extraData"] = {} if stamp is None else {STAMP: stamp}
    store.write(manifest_path(task), json.dumps(content).encode())


def requests(store: StoreOperations, run: Run) -> Counter[str]:
    """How many requests of each kind `run` makes."""
    return Counter(call.operation for call in calls_of(store, run))


def calls_of(store: StoreOperations, run: Run) -> list[StoreCall]:
    """The requests that `run` makes."""
    calls: list[StoreCall] = []
    run(WrappedStore(store, before=calls.append))
    return calls


def at(operation: str, error: BaseException, end: str = "") -> Callable[[StoreCall], None]:
    """A hook: raise `error` at each call of an operation whose last path ends in `end`.

    Of a file that is put aside it can be the first path, since the other one is random. Of a change of
    the state `end` is the phase that it leads to.
    """

    def hook(call: StoreCall) -> None:
        if _is_at(call, operation, end):
            raise error

    return hook


def _is_at(call: StoreCall, operation: str, end: str) -> bool:
    """Where nothing is renamed, "rename" stands for the request that puts an entry into a log."""
    last = call.paths[-1]
    if call.operation == "set_aside" and not last.endswith(end):
        last = call.paths[0]
    operation = "create" if (call.operation, operation) == ("create", "rename") else operation
    is_there = last.startswith(end) if operation == "advance" else last.endswith(end)
    return call.operation == operation and is_there


def closed(store: StoreOperations, *paths: str) -> WrappedStore:
    """A store on which these paths, and what is below them, are another user's and may not be read."""

    def deny(call: StoreCall) -> None:
        for path in call.paths:
            if any(path == one or is_inside(path, one) for one in paths):
                raise PermissionError(errno.EACCES, "denied", path)

    return WrappedStore(store, before=deny)


def do_at(operation: str, action: Callable[[], Any], end: str = "") -> Callable[[StoreCall], None]:
    """A hook: do something once, at the first call that `at` would meet."""
    done: list[Any] = []

    def hook(call: StoreCall) -> None:
        if _is_at(call, operation, end) and not done:
            done.append(None)
            action()

    return hook


def at_call(number: int, action: Callable[[], Any]) -> Callable[[StoreCall], None]:
    """A hook: do something at the request of this number."""

    def hook(call: StoreCall) -> None:
        if call.number == number:
            action()

    return hook


def died(store: Any, run: Run, operation: str, end: str = "", when: str = "before") -> Any:
    """A store on which `run` has died at the first call that `at` would meet."""
    with pytest.raises(SimulatedCrash):
        run(WrappedStore(store, **{when: at(operation, SimulatedCrash(), end)}))
    return store


def crash_points(calls: int) -> Iterator[tuple[str, int]]:
    """Where a process can die: before each of so many calls, and after the last.

    After a call the store has what it has before the next one.
    """
    yield from (("before", number) for number in range(1, calls + 1))
    yield "after", calls


def each_crash(new: Callable[[], MemoryStore], run: Run) -> Iterator[MemoryStore]:
    """What a crash of `run` between any two of its calls leaves, each on a store of its own."""
    start = new()
    calls = calls_of(start.copy(), run)
    assert calls
    for when, number in crash_points(len(calls)):
        store = start.copy()
        with pytest.raises(SimulatedCrash):
            run(WrappedStore(store, **{when: crash_at(number)}))
        yield store
