"""A plan names what a commit would do, and making one changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode, JobPlan
from ray_committer.errors import (
    CommitAbortedError,
    CommitConflictError,
    CommitRecordExistsError,
    CommitterBusyError,
    IncompleteJobError,
    RayCommitterError,
    RecordGoneError,
    StoreUnavailableError,
)
from ray_committer.job_files.job_state import adopt_state, advance
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreOperations, StoreSpec, Versions
from ray_committer.stores.local import LocalStore
from ray_committer.stores.network_files import Mounts
from ray_committer.testing import (
    Identity,
    LinkingStore,
    MemoryStore,
    StoreCall,
)
from ray_committer.testing import write_job as write_to
from ray_committer.testing.harness import all_files, put_file
from tests.opening import dying, moves_a_file, opening
from tests.stages.support import JOB, KINDS, at, staged_name, stamp_manifest

FILES = {0: {"p=2/b": "yy", "p=1/a": "x"}, 1: {"p=1/c": "zzz"}, 2: {}}


def test_the_first_directories_and_renames_are_named_and_all_are_counted(write_job, dest: Path):
    job = write_job(FILES)
    plan = ray_committer.plan_job(str(dest), first=2)
    assert plan.first_directories == (f"{dest}/p=1", f"{dest}/p=2")
    assert [(one.destination, one.size) for one in plan.first_renames] == [
        (f"{dest}/p=1/a", 1),
        (f"{dest}/p=2/b", 2),
    ]
    assert plan.first_renames[0].source == f"{job.task_attempt('attempt_1_m_000000_0')}/p=1/a"
    assert (plan.directories, plan.files, plan.bytes, plan.manifests) == (2, 3, 6, 3)
    assert ray_committer.plan_job(str(dest), first=0).first_renames == ()
    assert len(ray_committer.plan_job(str(dest), first=100).first_renames) == 3


@pytest.mark.parametrize("tasks", [1, 30])
def test_the_estimate_is_near_what_the_commit_makes(write_job, dest: Path, tasks: int, calls: list[str]):
    write_job({task: {f"p={task % 5}/{task}-{n}": "x" for n in range(10)} for task in range(tasks)})
    plan = ray_committer.plan_job(str(dest))
    calls.clear()
    report = ray_committer.commit_job(str(dest), executor="inline")
    assert plan.requests == pytest.approx(len(calls), rel=0.2)
    assert report.requests == len(calls) - 3  # those that find the job
    assert plan.seconds_at(10) == plan.requests / 10


def test_a_job_that_is_being_aborted_has_no_plan(write_job, dest: Path):
    write_job(FILES)
    with dying(lambda call: call.operation == "move_directory"):
        ray_committer.abort_job(str(dest))
    with pytest.raises(CommitAbortedError, match="ray-committer abort"):
        ray_committer.plan_job(str(dest))
    assert ray_committer.plan_abort(str(dest)).files == 3


@pytest.mark.parametrize("phase", [Phase.SEALED, Phase.COMMITTED])
def test_an_undo_that_would_be_refused_has_no_plan(write_job, dest: Path, store, phase: Phase):
    dest.mkdir(exist_ok=True)
    (dest / "a").write_text("old, and replaced where it is")
    job = write_job({0: {"a": "new"}})
    ray_committer.record_job(str(dest), options=CommitOptions(mode=ConflictMode.OVERWRITE))
    advance(store, job, adopt_state(store, job), phase)
    with pytest.raises(CommitRecordExistsError, match="can no longer be undone; finish it with"):
        ray_committer.plan_abort(str(dest), undo=True)


def test_an_undo_beside_a_commit_at_work_has_no_plan(write_job, dest: Path):
    write_job(FILES)
    refused: list[CommitterBusyError] = []

    def look(call: StoreCall) -> None:
        if moves_a_file(call):
            with pytest.raises(CommitterBusyError) as error:
                ray_committer.plan_abort(str(dest), undo=True)
            refused.append(error.value)

    with opening(before=look):
        ray_committer.commit_job(str(dest), executor="inline")
    assert len(refused) == 3


TABLE = "/table"
"""Of the store in memory that each test puts in the place of the local one."""


def plan_beside(store: MemoryStore, hook: Callable[[StoreCall], None]) -> JobPlan:
    """A plan whose requests `hook` is told of before they are made."""
    with opening(store, before=hook):
        return ray_committer.plan_job(TABLE, "job_1")


def with_job(store: MemoryStore) -> MemoryStore:
    write_to(store, JOB, {0: {"p=1/a": b"x"}, 1: {"p=2/b": b"y"}})
    return store


def test_it_says_how_many_directories_would_go_whole_and_why_the_others_would_not():
    store = MemoryStore()
    names = [f"p=1/{staged_name('a')}", f"p=2/{staged_name('a')}", "p=3/of-a-format"]
    write_to(store, JOB, {0: dict.fromkeys(names, b"x")})
    put_file(store, f"{TABLE}/p=2/older", b"x")
    plan = plan_beside(store, lambda _: None)
    assert (plan.directories, plan.whole) == (3, 1)
    assert plan.by_file == {"it is there": 1, "names of their own": 1}


STORES: dict[str, tuple[Callable[[], StoreOperations], dict[str, int]]] = {
    "moves directories": (lambda: on("ext4"), {"it is there": 1}),
    "another type": (lambda: on("exfat"), {"not here": 2}),
    "in user space": (lambda: on("fuse.fuse-overlayfs"), {"not here": 2}),
    "renames by links": (lambda: LinkingStore(StoreSpec("file")), {"not here": 2}),
}


def on(kind: str) -> LocalStore:
    """Files on a disk of a type."""
    return LocalStore(StoreSpec("file"), mounts=Mounts(lambda _: kind))


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("is_frozen", [False, True])
def test_of_each_file_system_it_says_what_the_commit_does(
    write_job, dest: Path, name: str, *, is_frozen: bool
):
    opens, by_file = STORES[name]
    (dest / "p=2").mkdir(parents=True)
    write_job({task: {staged_name(f"p={task}/a", task): "x"} for task in (1, 2)})
    if is_frozen:
        with dying(lambda call: call.operation == "advance", 2, opens()):
            ray_committer.commit_job(str(dest), executor="inline")
    assert any(dest.rglob("frozen-tasks-*")) == (is_frozen and "not here" not in by_file)
    with opening(opens()):
        plan = ray_committer.plan_job(str(dest))
        report = ray_committer.commit_job(str(dest), executor="inline")
    assert (
        (plan.whole, plan.by_file)
        == (report.whole, report.by_file)
        == (2 - sum(by_file.values()), by_file)
    )


@pytest.mark.parametrize(
    ("error", "whole"),
    [(StoreUnavailableError("/table", "simulated"), 1), (PermissionError("simulated"), 0)],
)
def test_no_answer_about_moves_is_no_reason_to_expect_none(error: OSError, whole: int):
    store = MemoryStore()
    write_to(store, JOB, {0: {f"p=1/{staged_name('a')}": b"x"}})
    assert plan_beside(store, at("move_whole", error)).whole == whole


def test_it_says_that_no_directory_would_go_whole_in_a_job_that_hadoop_has_set_up():
    store = MemoryStore()
    write_to(store, JOB, {0: {"p=1/a": b"x"}})
    stamp_manifest(store, 0, None)
    store.delete_directory(JOB.state)
    plan = plan_beside(store, lambda _: None)
    assert (plan.directories, plan.whole, plan.by_file) == (1, 0, {"not here": 1})


def at_each_request(
    base: MemoryStore, act: Callable[[], object]
) -> Iterator[JobPlan | RayCommitterError]:
    """The plans, or what they say instead, of which each has something done at another request."""
    calls: list[StoreCall] = []
    plan_beside(base.copy(), calls.append)
    for number in range(1, len(calls) + 1):
        left = [number]

        def hook(_: StoreCall, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == 0:
                act()

        try:
            yield plan_beside(base.copy(), hook)
        except RayCommitterError as e:
            yield e


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_beside_a_commit_that_freezes_and_records_starts_again(kind: str):
    def record() -> None:
        ray_committer.record_job(TABLE, "job_1", executor="inline")

    for plan in at_each_request(with_job(KINDS[kind]()), record):
        assert isinstance(plan, JobPlan), plan
        assert (plan.files, plan.directories, len(plan.first_renames)) == (2, 2, 2)


@pytest.mark.parametrize("cleanup", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_commit_beside_it_has_moved_is_neither_missing_nor_in_the_way(kind: str, cleanup: bool):
    def commit() -> None:
        options = CommitOptions(cleanup=cleanup)
        ray_committer.commit_job(TABLE, "job_1", executor="inline", options=options)

    for plan in at_each_request(with_job(KINDS[kind]()), commit):
        assert isinstance(plan, JobPlan), plan
        assert (plan.state, plan.files) in (("running", 2), ("committed", 2), ("cleaned up", 0))


def test_a_plan_beside_tasks_that_commit_all_the_time_says_so():
    store = with_job(MemoryStore())

    def save_again(call: StoreCall) -> None:
        if call.operation == "read" and call.paths[0].startswith(JOB.manifests):
            store.write(call.paths[0], store.read(call.paths[0]) + b" ")

    with pytest.raises(IncompleteJobError, match="tasks are still committing"):
        plan_beside(store, save_again)


def test_what_is_in_the_way_of_a_job_that_nobody_changes_is_said_at_once():
    store = with_job(MemoryStore())
    put_file(store, "/table/p=1/a", b"of somebody else")
    calls: list[StoreCall] = []
    with pytest.raises(CommitConflictError, match="/table/p=1/a: is there already"):
        plan_beside(store, calls.append)
    assert [call.paths for call in calls].count(("/table/p=1",)) == 1


VERSIONED = [
    one for one in Identity if MemoryStore(identity=one).capabilities.versions is Versions.LISTED
]


@pytest.mark.parametrize("identity", VERSIONED)
def test_a_plan_saves_nothing_on_a_store_with_versions(identity: Identity):
    store = MemoryStore(identity=identity)
    write_to(store, new_job_attempt("/table", "job_1", 0), {0: {"a": b"x"}})
    before = all_files(store, "/table")
    with opening(store):
        assert ray_committer.plan_job(TABLE).files == 1
    assert all_files(store, "/table") == before


def test_a_committed_job_without_its_record_is_only_left_to_be_cleaned_up(write_job, dest: Path):
    job = write_job(FILES)
    ray_committer.commit_job(str(dest), options=CommitOptions(cleanup=False))
    (record,) = (
        path for path in Path(job.directory, "state").glob("*.json") if b"packs" in path.read_bytes()
    )
    record.unlink()
    plan = ray_committer.plan_job(str(dest), job.job_id)
    assert (plan.state, plan.files) == ("committed", 0)


@pytest.mark.parametrize("phase", [Phase.RECORDED, Phase.UNDOING])
def test_a_plan_of_a_job_whose_record_is_gone_says_so(write_job, dest: Path, store, phase: Phase):
    job = write_job(FILES)
    ray_committer.record_job(str(dest))
    seen = adopt_state(store, job)
    if phase is Phase.UNDOING:
        advance(store, job, seen, phase)
    Path(job.content(seen.state.record or "")).unlink()
    with pytest.raises(RecordGoneError, match="is gone, and only it names the job's files"):
        ray_committer.plan_job(str(dest), job.job_id)
    with pytest.raises(RecordGoneError, match="is gone, and only it names the job's files"):
        ray_committer.abort_job(str(dest), job.job_id, undo=True)
