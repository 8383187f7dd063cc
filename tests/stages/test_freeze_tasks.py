"""Files of tasks are frozen before the record, and only one run of a commit knows where they are."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import (
    CommitStateUnknownError,
    CommitterBusyError,
    IncompleteJobError,
    ManifestError,
    PathError,
    PreflightError,
    RayCommitterError,
    StoreUnavailableError,
)
from ray_committer.job_files import owners
from ray_committer.jobs.abort_report import AbortReport
from ray_committer.jobs.plan_abort import plan_abort
from ray_committer.jobs.survey_jobs import survey_exactly
from ray_committer.limits import waiting
from ray_committer.places.base import tasks_of
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.paths import (
    FROZEN_BYTES,
    FROZEN_TASKS,
    MARK,
    TASKS,
    JobAttempt,
    join,
    new_job_attempt,
)
from ray_committer.protocol.state import Phase
from ray_committer.stages.context import JobContext
from ray_committer.stages.freeze_tasks import find_staging, freeze_tasks, holds_tasks, take_over
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import (
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.faults import LinkingStore
from ray_committer.testing.harness import (
    all_files,
    commit_attempt,
    load_ahead,
    put_file,
    run_abort,
    run_undo,
    set_up_attempt,
    write_attempt,
)
from ray_committer.work.entries import longest_source
from tests.stages.support import (
    JOB,
    NOW,
    at,
    bring_to,
    context,
    died,
    do_at,
    each_crash,
    phase_of,
    seen_in,
    source_path,
    staged_name,
    stamp_of_job,
    state_of,
    with_job,
)

A, B = "p=7/a", "p=8/b"
FILES = {A: b"a1", B: b"b1"}
NO_WAIT = CommitOptions(conflict_wait_seconds=0.0)


@pytest.fixture(autouse=True)
def all_others_are_taken_for_dead(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(owners, "DEAD_SECONDS", -1.0)


def staged(store: StoreOperations | None = None) -> MemoryStore:
    """A store with a job of two files, whose names are such that they are moved one by one."""
    return with_job({0: FILES}, store=store)


def stagings(store: StoreOperations, job: JobAttempt = JOB) -> list[str]:
    return [place.staging for place in tasks_of(store, job)]


def half(store: MemoryStore) -> MemoryStore:
    """The job is recorded, and its first file is in place."""
    return died(store, lambda one: run_commit(one, JOB), "rename", B)


def named(store: StoreOperations, **options: object) -> Callable[[StoreOperations], object]:
    """Set the job up on `store`; the commit by its driver, which has the results of the tasks."""
    results = write_job(store, JOB, {0: FILES})

    def commit(one: StoreOperations) -> object:
        known = NO_WAIT.changed(expected_tasks=1, committed_tasks=tuple(results), **options)
        return run_commit(one, JOB, known, ahead=load_ahead(one, JOB, results))

    return commit


def test_the_mark_is_there_before_the_state():
    calls: list[StoreCall] = []
    write_job(WrappedStore(MemoryStore(), after=calls.append), JOB, {})
    (marked,) = [n for n, call in enumerate(calls) if MARK in call.paths[0]]
    begins = [n for n, call in enumerate(calls) if call.operation == "move_directory"]
    assert calls[marked].operation == "mkdirs"
    assert marked < begins[0]


def test_a_store_that_moves_no_directory_whole_gets_no_mark():
    store = MemoryStore(real_directories=False)
    write_job(store, JOB, {0: FILES})
    assert not [path for path in store.files() if MARK in path]


@pytest.mark.parametrize("is_named", [True, False])
def test_files_of_tasks_are_frozen_before_the_record(is_named: bool):
    store, seen = MemoryStore(), list[list[str]]()
    commit = named(store) if is_named else lambda one: run_commit(one, JOB)
    if not is_named:
        staged(store)
    look = do_at("advance", lambda: seen.append(stagings(store)), "recorded")
    commit(WrappedStore(store, before=look))
    assert [name.startswith(FROZEN_TASKS) for names in seen for name in names] == [True]
    assert visible_files(store, "/table") == FILES


@pytest.mark.parametrize("is_named", [True, False])
def test_the_manifests_are_frozen_first(is_named: bool):
    """Otherwise a task could write its last file and save its manifest between the two."""
    store, calls = MemoryStore(), list[StoreCall]()
    commit = named(store) if is_named else lambda one: run_commit(one, JOB)
    if not is_named:
        staged(store)
    commit(WrappedStore(store, after=calls.append))
    order = [call.operation for call in calls if call.operation in ("move_whole", "advance")]
    assert order[:2] == (["move_whole", "advance"] if is_named else ["advance", "move_whole"])
    frozen = next(n for n, call in enumerate(calls) if call.paths[-1] == JOB.frozen)
    assert frozen < next(n for n, call in enumerate(calls) if call.operation == "move_whole")


def test_a_task_that_runs_again_while_the_files_are_frozen_replaces_no_manifest_that_counts():
    store, told = MemoryStore(), list[object]()
    commit = named(store)

    def run_again() -> None:
        try:
            attempt = set_up_attempt(store, JOB, 0, 1)
            write_attempt(store, JOB, attempt, {"c": b"c"})
            told.append(commit_attempt(store, JOB, 0, attempt))
        except RayCommitterError as e:
            told.append(e)

    commit(WrappedStore(store, after=do_at("move_whole", run_again)))
    assert isinstance(told[0], RayCommitterError)
    assert visible_files(store, "/table") == FILES


@pytest.mark.parametrize("is_named", [True, False])
def test_who_freezes_the_files_of_a_later_job_of_the_id_puts_them_back(is_named: bool):
    """Its own job was aborted while it slept before the freeze, and a task of the later one writes."""
    store, running = MemoryStore(), list[str]()
    commit = named(store) if is_named else lambda one: run_commit(one, JOB)
    if not is_named:
        staged(store)

    def set_up_again() -> None:
        run_abort(store, JOB)
        setup_job(store, JOB)
        running.append(set_up_attempt(store, JOB, 0, 0))
        write_attempt(store, JOB, running[0], {"c": b"c"})

    with pytest.raises(RayCommitterError):
        commit(WrappedStore(store, before=do_at("move_whole", set_up_again)))
    assert stagings(store) == [TASKS]
    commit_attempt(store, JOB, 0, running[0])
    assert run_commit(store, JOB).files == 1
    assert visible_files(store, "/table") == {"c": b"c"}


@pytest.mark.parametrize("when", ["declared", "recorded", "committed"])
def test_a_late_writer_changes_no_file_that_is_committed(when: str):
    """It writes its file again by its path, and another one beside it."""
    store = staged()
    source = source_path(0, A)

    def write() -> None:
        if when != "declared":  # it wakes up after the freeze
            put_file(store, source, b"late")
            put_file(store, join(source.rpartition("/")[0], staged_name("x", 0, 1)), b"x")

    run_commit(WrappedStore(store, before=do_at("advance", write, when)), JOB)
    assert visible_files(store, "/table") == FILES
    assert list(all_files(store, JOB.temporary)) == []


def test_what_a_late_task_has_made_again_never_counts():
    """The run that froze the files has died; the next one meets a new directory, without the mark."""
    store = died(staged(), lambda one: run_commit(one, JOB), "advance", "recorded")
    frozen = stagings(store)
    put_file(store, source_path(0, A), b"late")
    assert stagings(store) == [*frozen, TASKS]
    run_commit(store, JOB)
    assert visible_files(store, "/table") == FILES


def test_a_freeze_that_gets_what_a_late_task_has_made_again_looks_for_the_jobs_own():
    store = MemoryStore()
    commit = named(store)
    died(store, commit, "advance", "recorded")
    put_file(store, source_path(0, A), b"late")
    commit(store)
    assert visible_files(store, "/table") == FILES


def test_a_mark_of_another_job_does_not_count():
    """A set-up of an earlier job of the id wakes up and makes its directories."""
    store = died(staged(), lambda one: run_commit(one, JOB), "advance", "recorded")
    store.mkdirs(JOB.mark("0123456789abcdef"))
    put_file(store, source_path(0, A), b"late")
    found = find_staging(store, JOB, state_of(store))
    assert found is not None
    assert found.staging != TASKS
    run_commit(store, JOB)
    assert visible_files(store, "/table") == FILES


def test_a_directory_that_just_gets_another_name_is_looked_for_again():
    store = half(staged())
    state, (name,) = state_of(store), stagings(store)

    def rename() -> None:
        store.move_whole(join(JOB.directory, name), JOB.with_frozen_tasks("again").tasks)

    looking = WrappedStore(store, after=do_at("list_status", rename, "/00"))
    found = find_staging(looking, JOB, state)
    assert found is not None
    assert found.staging == f"{FROZEN_TASKS}again"


def test_who_continues_a_commit_gives_the_files_a_new_name_each_time():
    store, names = half(staged()), set[str]()
    for _ in range(3):
        names.update(stagings(store))
        died(store, lambda one: run_commit(one, JOB), "rename", B)
    assert len(names) == 3
    assert run_commit(store, JOB).resumed
    assert visible_files(store, "/table") == FILES


def test_the_job_is_taken_over_only_once_it_is_declared_or_recorded():
    store = died(staged(), lambda one: run_commit(one, JOB), "advance", "recorded")
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, after=calls.append), JOB)
    changes = [call for call in calls if call.operation in ("move_whole", "advance")]
    order = [call.paths[-1].rpartition("/")[2].partition(".")[0] for call in changes]
    assert [name[:12] for name in order] == ["open", "declared", "frozen-tasks", "recorded", "committed"]


@pytest.mark.parametrize("ends", [True, False])
def test_a_run_that_was_overtaken_never_says_that_files_are_lost_or_to_be_given_up(ends: bool):
    """It sleeps before it moves a file, is taken for dead, and another run continues the commit, and
    ends it, or dies, too."""
    store = staged()

    def overtake() -> None:
        if ends:
            assert run_commit(store, JOB).outcome is Outcome.COMMITTED
        else:
            died(store, lambda one: run_commit(one, JOB), "rename", A)

    sleeping = WrappedStore(store, before=do_at("rename", overtake, A))
    if ends:
        assert run_commit(sleeping, JOB, NO_WAIT).outcome is Outcome.ALREADY_COMMITTED
    else:
        with pytest.raises(CommitterBusyError, match="another process has taken over") as caught:
            run_commit(sleeping, JOB, NO_WAIT)
        assert "abort" not in str(caught.value)
        assert caught.value.exit_code == 4
        assert run_commit(store, JOB).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == FILES


def overtaken(store: MemoryStore, then: Callable[[], object]) -> WrappedStore:
    """The store of a run that sleeps before it moves a file. Another run takes the commit over and dies;
    `then` something happens while the first one asks who has the files."""
    is_overtaken = list[object]()

    def overtake() -> None:
        is_overtaken.append(died(store, lambda one: run_commit(one, JOB), "rename", A))

    sleeps, asks = do_at("rename", overtake, A), do_at("get_status", then, MARK + stamp_of_job(store))

    def hook(call: StoreCall) -> None:
        sleeps(call)
        if is_overtaken:
            asks(call)

    return WrappedStore(store, before=hook)


def test_a_run_that_was_overtaken_looks_at_the_job_also_if_it_has_waited_for_others_before():
    store = staged()
    sleeping = overtaken(store, lambda: run_commit(store, JOB))
    assert run_commit(sleeping, JOB, NO_WAIT).outcome is Outcome.ALREADY_COMMITTED
    assert visible_files(store, "/table") == FILES


def test_no_file_is_said_to_be_lost_while_it_is_not_known_who_has_the_files():
    store = staged()

    def fail() -> None:
        raise PermissionError(13, "Permission denied", JOB.directory)

    with pytest.raises(CommitStateUnknownError, match="not known whether another process has continued"):
        run_commit(overtaken(store, fail), JOB, NO_WAIT)
    assert run_commit(store, JOB).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == FILES


@pytest.mark.parametrize("act", [partial(run_commit, options=NO_WAIT), run_undo])
def test_an_error_for_want_of_a_mark_names_the_directories_that_are_there(act: Callable[..., object]):
    """A program that removes empty directories takes it. A new `tasks` would be taken for the job's."""
    store = half(staged())
    (name,) = stagings(store)
    made = join(name, "in", MARK + stamp_of_job(store))
    assert store.remove_empty_directory(join(JOB.directory, made))
    with pytest.raises(RayCommitterError, match="is not found") as caught:
        act(store, JOB)
    there = f"memory://test{join(JOB.directory, name)}"
    assert f"in the directory that holds the job's files, of: {there}" in str(caught.value)
    assert TASKS not in stagings(store)
    store.mkdirs(join(JOB.directory, made))
    act(store, JOB)
    assert visible_files(store, "/table") == ({} if act is run_undo else FILES)


def unanswered(store: MemoryStore, tries: int) -> tuple[WrappedStore, list[str]]:
    """A store that answers no `move_whole` at first, and what was asked for, by its new names."""
    asked = list[str]()

    def hook(call: StoreCall) -> None:
        if call.operation == "move_whole":
            asked.append(call.paths[1])
            if len(asked) <= tries:
                raise StoreUnavailableError(call.paths[0], "safe mode")

    return WrappedStore(store, before=hook), asked


@pytest.mark.parametrize("begins", [staged, lambda: half(staged())])
@pytest.mark.parametrize("act", [run_commit, run_undo])
def test_a_store_that_does_not_answer_for_a_while_is_asked_for_a_new_name_each_time(
    begins: Callable[[], MemoryStore], act: Callable[..., object], no_pauses
):
    store = begins()
    asking, asked = unanswered(store, 3)
    act(asking, JOB)
    assert len(asked) == len(set(asked)) == (0 if act is run_undo and begins is staged else 4)
    assert visible_files(store, "/table") == ({} if act is run_undo else FILES)


def test_a_store_that_does_not_answer_is_not_taken_for_other_processes_at_work(
    monkeypatch: pytest.MonkeyPatch,
):
    store, pauses = half(staged()), list[int]()

    class Noted(waiting.Pauses):
        def after(self, attempt: int, more: float = 0.0) -> float:
            pauses.append(attempt)
            return 0.0

    monkeypatch.setattr(waiting, "REQUEST", Noted(0.0, 0.0))
    asking, asked = unanswered(store, 100)
    with pytest.raises(CommitStateUnknownError, match="safe mode"):
        run_commit(asking, JOB)
    assert pauses == list(range(1, len(asked))) == [*range(1, 8)]
    assert run_commit(store, JOB).outcome is Outcome.COMMITTED


def test_a_run_that_sleeps_before_it_takes_over_leaves_the_files_to_the_run_that_has_the_job():
    """An earlier run has frozen them, so this one takes them over once it has declared the job."""
    store = died(staged(), lambda one: run_commit(one, JOB), "advance", "recorded")
    calls = list[StoreCall]()
    other = do_at("move_whole", lambda: died(store, lambda one: run_commit(one, JOB), "rename", A))
    run_commit(WrappedStore(store, before=other, after=calls.append), JOB)
    # The second comes once it has seen that the job is recorded, and that the other run is dead.
    assert [call.operation for call in calls].count("move_whole") == 2
    assert visible_files(store, "/table") == FILES


def test_what_a_late_task_makes_while_a_run_takes_the_commit_over_never_counts():
    """The files are in `tasks` again after a power cut, and two runs take them over."""
    store = half(staged())
    (name,) = stagings(store)
    store.move_directory(join(JOB.directory, name), JOB.tasks)

    def other() -> None:
        taken = JOB.with_frozen_tasks("other").tasks
        store.move_whole(JOB.tasks, taken)
        put_file(store, source_path(0, B), b"late")

    taken = take_over(context(WrappedStore(store, before=do_at("move_whole", other))), seen_in(store))
    assert store.get_status(taken.job.mark(stamp_of_job(store))) is not None


def test_an_overtaken_run_takes_no_commit_over_again():
    """Two that did so at each miss could go on for ever and move nothing."""
    store, calls = half(staged()), list[StoreCall]()

    def overtake() -> None:
        died(store, lambda one: run_commit(one, JOB), "rename", B)

    with pytest.raises(CommitterBusyError):
        run_commit(
            WrappedStore(store, before=do_at("rename", overtake, B), after=calls.append), JOB, NO_WAIT
        )
    assert Counter(call.operation for call in calls)["move_whole"] == 1
    assert run_commit(store, JOB).resumed


def test_a_run_that_was_overtaken_gives_no_sign_of_life_while_it_waits(no_pauses):
    """Otherwise it would take its own sign for the one of the run that has the job."""
    store, run = staged(), list[object]()

    def overtake() -> None:
        died(store, lambda one: run_commit(one, JOB), "rename", A)
        run.append(store.read(JOB.heartbeat))

    def end() -> None:
        run_commit(store, JOB)

    waits = do_at("list_status", lambda: run and end(), "/00/state")
    sleeping = WrappedStore(store, before=do_at("rename", overtake, A), after=waits)
    with suppress(CommitterBusyError):
        run_commit(sleeping, JOB, NO_WAIT)
    run_commit(store, JOB)
    assert visible_files(store, "/table") == FILES


def test_an_error_about_files_that_another_run_has_frozen_is_not_told():
    """Both runs found the job open. The first has looked at no file yet; the second dies declared."""
    store = staged()

    def other() -> None:
        with pytest.raises(SimulatedCrash):
            run_commit(WrappedStore(store, before=at("advance", SimulatedCrash(), "recorded")), JOB)

    sleeping = WrappedStore(store, before=do_at("list_status", other, "/00/manifests"))
    assert run_commit(sleeping, JOB).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == FILES


def test_files_that_are_missing_where_this_run_has_frozen_them_are_named():
    store = staged()
    store.delete_file(source_path(0, A))
    with pytest.raises(ManifestError, match="names 1 files that are missing or changed"):
        run_commit(store, JOB)
    with pytest.raises(ManifestError, match="names 1 files that are missing or changed"):
        run_commit(store, JOB)
    assert visible_files(store, "/table") == {}
    assert run_abort(store, JOB)


def test_task_attempts_without_a_manifest_are_looked_for_where_the_files_are():
    """A run that knew the number of tasks has frozen them, and died; the next one does not know it."""
    store = staged()
    running = set_up_attempt(store, JOB, 1, 0)
    put_file(store, join(JOB.task_attempt(running), "c"), b"c1")
    died(store, lambda one: run_commit(one, JOB, CommitOptions(expected_tasks=1)), "advance", "recorded")
    assert stagings(store) != [TASKS]
    with pytest.raises(
        IncompleteJobError, match="1 task attempts have files, but no manifest"
    ) as caught:
        run_commit(store, JOB)
    assert "they can no longer be committed" in str(caught.value)
    run_commit(store, JOB, CommitOptions(expected_tasks=1))
    assert visible_files(store, "/table") == FILES


def test_files_that_are_frozen_after_the_look_for_attempts_are_looked_at_again():
    """Another run, which knew the number of tasks, freezes them in between, and dies."""
    store = staged()
    running = set_up_attempt(store, JOB, 1, 0)
    told = CommitOptions(expected_tasks=1)

    def freeze() -> None:
        put_file(store, join(JOB.task_attempt(running), "c"), b"c1")
        died(store, lambda one: run_commit(one, JOB, told), "advance", "recorded")

    sleeping = WrappedStore(store, before=do_at("write", freeze))
    with pytest.raises(IncompleteJobError, match="1 task attempts have files, but no manifest"):
        run_commit(sleeping, JOB)


def test_a_job_whose_files_are_nowhere_is_not_given_up_and_the_error_says_how_it_goes_on():
    store = half(staged())
    (name,) = stagings(store)
    store.move_directory(join(JOB.directory, name), "/rescued")
    with pytest.raises(CommitterBusyError, match="is not found, or gets new names") as caught:
        run_commit(store, JOB, NO_WAIT)
    made = f"in/{MARK}{stamp_of_job(store)}"
    assert f"job's files back as memory://test{JOB.tasks}, and make {made} in it" in str(caught.value)
    store.move_directory("/rescued", JOB.tasks)
    assert run_commit(store, JOB).outcome is Outcome.COMMITTED
    assert visible_files(store, "/table") == FILES


# Where nothing is frozen


class Refusing(MemoryStore):
    """A store whose directories cannot be moved whole, as on a network file system."""

    def move_whole(self, source: str, dest: str) -> None:
        raise OSError(95, "not here", source)


@pytest.mark.parametrize(("is_frozen", "is_made_again"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("act", [partial(run_commit, options=NO_WAIT), run_undo])
def test_where_nobody_can_rename_them_the_files_are_found_without_a_mark(
    act: Callable[..., object], is_frozen: bool, is_made_again: bool
):
    """But not if another client, which can, has given them another name: that client can still move
    them, so an undo that takes nothing away must not say that the job is aborted."""
    store = half(staged(Refusing()))
    assert stagings(store) == [TASKS]
    assert store.remove_empty_directory(JOB.mark(stamp_of_job(store)))
    if is_frozen:
        store.move_directory(JOB.tasks, JOB.with_frozen_tasks("0000").tasks)
        if is_made_again:
            store.mkdirs(JOB.tasks)
        with pytest.raises(RayCommitterError, match="is not found"):
            act(store, JOB)
        return
    assert survey_exactly(store, JOB, NOW, threads=1).left == len(FILES) - 1
    act(store, JOB)
    assert visible_files(store, "/table") == ({} if act is run_undo else FILES)


class MovesOnlyWhole(MemoryStore):
    """A store whose jobs are not renamed, although it could move a directory whole."""

    def has(self, operation: Callable[..., object]) -> bool:
        return operation is StoreOperations.move_whole or super().has(operation)

    def move_whole(self, source: str, dest: str) -> None:
        for path in [path for path in self.files() if path.startswith(f"{source}/")]:
            self.rename(path, join(dest, path.removeprefix(f"{source}/")))


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EBUSY, errno.EIO])
def test_a_job_whose_files_cannot_be_renamed_is_committed_from_where_they_are(
    number: int, is_named: bool
):
    """Such as where `tasks` is a mount point."""
    store = MemoryStore()
    commit = named(store) if is_named else lambda one: run_commit(staged(one), JOB)

    def refuse(call: StoreCall) -> None:
        if call.operation == "move_whole":
            raise OSError(number, os.strerror(number), call.paths[0])

    result = commit(WrappedStore(store, before=refuse))
    assert isinstance(result, CommitResult)
    assert [notice for notice in result.notices if "cannot be renamed" in notice] != []
    assert visible_files(store, "/table") == FILES


def test_what_a_run_has_frozen_is_not_moved_from_there_by_another_that_cannot_rename_it():
    store = half(staged())

    def refuse(call: StoreCall) -> None:
        if call.operation == "move_whole":
            raise PermissionError(errno.EACCES, "Permission denied", call.paths[0])

    with pytest.raises(CommitStateUnknownError, match="Permission denied"):
        run_commit(WrappedStore(store, before=refuse), JOB)
    assert run_commit(store, JOB).outcome is Outcome.COMMITTED


def test_where_jobs_get_no_mark_nothing_is_frozen():
    store, seen = staged(MovesOnlyWhole(real_directories=False)), list[list[str]]()
    look = do_at("rename", lambda: seen.append(stagings(store)), A)
    run_commit(WrappedStore(store, before=look), JOB)
    assert seen == [[TASKS]]
    assert visible_files(store, "/table") == FILES


def test_a_store_that_refuses_commits_as_before():
    store, seen = staged(Refusing()), list[list[str]]()
    look = do_at("rename", lambda: seen.append(stagings(store)), A)
    run_commit(WrappedStore(store, before=look), JOB)
    assert seen == [[TASKS]]
    assert visible_files(store, "/table") == FILES


@pytest.mark.parametrize("is_dead", [True, False])
def test_where_renames_need_links_nothing_is_frozen(tmp_path: Path, is_dead: bool):
    """A rename that sleeps between link and unlink has its source open, wherever that is by then."""
    job = new_job_attempt(str(tmp_path / "table"), "job_1", 0)
    store = LinkingStore(StoreSpec("file"))
    write_job(store, job, {0: FILES})
    died(store, lambda one: run_commit(one, job), "rename", B)
    assert stagings(store, job) == [TASKS]
    assert run_undo(store, job) if is_dead else run_commit(store, job)
    assert visible_files(store, job.destination) == ({} if is_dead else FILES)


def test_a_job_that_hadoop_set_up_is_not_frozen():
    store = MemoryStore()
    store.mkdirs(JOB.manifests)
    store.mkdirs(JOB.tasks)
    seen = bring_to(store, Phase.OPEN)
    found = context(store)
    assert freeze_tasks(found, seen.state) is found
    assert take_over(found, seen).job.tasks == JOB.tasks
    assert holds_tasks(found, seen.state)
    assert stagings(store) == [TASKS]


def test_a_link_in_the_place_of_the_files_is_not_taken_over(tmp_path: Path):
    job = new_job_attempt(str(tmp_path / "table"), "job_1", 0)
    store = LocalStore(StoreSpec("file"))
    write_job(store, job, {0: FILES})
    died(store, lambda one: run_commit(one, job), "rename", B)
    (name,) = stagings(store, job)
    elsewhere = tmp_path / "elsewhere"
    (Path(job.directory) / name).rename(elsewhere)
    (Path(job.directory) / name).symlink_to(elsewhere)
    for run in (lambda: run_commit(store, job, NO_WAIT), lambda: run_undo(store, job)):
        with pytest.raises((CommitterBusyError, CommitStateUnknownError), match="is not found"):
            run()
    assert {path.read_bytes() for path in elsewhere.rglob("b")} == {b"b1"}


# Undo


@pytest.mark.parametrize("more", [0, 1])
def test_a_path_that_would_be_too_long_once_it_is_taken_away_is_refused_first(tmp_path: Path, more: int):
    job = new_job_attempt(str(tmp_path / "table"), "job_1", 0)
    store = LocalStore(StoreSpec("file"))
    attempt = job.task_attempt("attempt_job_1_m_000000_0")
    left = store.capabilities.max_path_length - FROZEN_BYTES - len(attempt) + more
    name = "/".join("d" * 99 for _ in range(left // 100 - 1))
    name += "/" + "f" * (left - len(name) - 2)
    write_job(store, job, {0: {name: b"1", "b": b"2"}})
    if more:
        with pytest.raises(PreflightError, match="of which a commit needs"):
            run_commit(store, job)
        assert stagings(store, job) == [TASKS]
        return
    died(store, lambda one: run_commit(one, job), "rename", "/b")
    assert run_undo(store, job)
    assert visible_files(store, job.destination) == {}


@pytest.mark.parametrize("more", [0, 1])
def test_a_task_is_not_let_to_write_what_a_commit_refuses(tmp_path: Path, more: int):
    destination = str(tmp_path / "table")
    ray_committer.setup_job(destination, "j")
    with (
        pytest.raises(PathError, match="where the task writes") if more else nullcontext(),
        ray_committer.task_attempt(destination, "j", 0) as attempt,
    ):
        left = longest_source(LocalStore(StoreSpec("file"))) - len(attempt.directory) - 1 + more
        name = "d" * (left % 100 + 50) + "/" + "/".join("d" * 99 for _ in range(left // 100 - 1))
        with attempt.open(f"{name}{'f' * (left - len(name))}") as file:
            file.write(b"x")
    if not more:
        assert ray_committer.commit_job(destination, "j").files == 1


def test_an_undo_takes_the_files_of_tasks_away_at_once():
    store, calls = half(staged()), list[StoreCall]()
    assert run_undo(WrappedStore(store, after=calls.append), JOB)
    assert visible_files(store, "/table") == {}
    moves = [call for call in calls if call.operation == "move_whole"]
    assert [call.paths[1].startswith(f"{JOB.directory}/undone/") for call in moves] == [True]
    takes = [call for call in calls if call.operation == "set_aside"]
    assert [call.paths[0] for call in takes] == [f"/table/{A}"]


def test_an_undo_takes_also_what_gets_another_name_meanwhile():
    """A committer that was taken for dead wakes up and takes the files over, and then it moves one."""
    store, taken = half(staged()), list[JobContext]()

    def take() -> None:
        taken.append(take_over(context(store), seen_in(store)))

    def move(call: StoreCall) -> None:
        if call.operation == "advance" and call.paths[-1].startswith("aborted"):
            with suppress(FileNotFoundError):
                store.rename(source_path(0, B, taken[0].job), f"/table/{B}")

    takes = do_at("move_whole", take)
    assert run_undo(WrappedStore(store, before=lambda call: (takes(call), move(call))), JOB)
    assert visible_files(store, "/table") == {}
    assert store.get_status(JOB.job_directory) is None


def test_an_undo_does_not_go_on_while_the_files_of_tasks_are_under_no_name():
    """A listing can show a directory that is just renamed under neither name."""
    store = half(staged())
    (name,) = stagings(store)
    there, away = join(JOB.directory, name), "/away"
    store.move_directory(there, away)
    with pytest.raises(
        CommitStateUnknownError, match="it is not known whether a process can still move"
    ):
        run_undo(store, JOB)
    assert phase_of(store) is Phase.UNDOING
    assert set(visible_files(store, "/table")) == {A}
    store.move_directory(away, there)
    assert run_undo(store, JOB)
    assert visible_files(store, "/table") == {}


def test_an_undo_stops_where_this_client_cannot_take_what_another_has_frozen():
    """Such as by a gateway, or on another mount: the committer that is thought dead may go on."""
    store = half(staged())

    def refuse(call: StoreCall) -> None:
        if call.operation == "move_whole":
            raise OSError(errno.ENOTSUP, "not here")

    with pytest.raises(CommitStateUnknownError, match="run the same command where the commit has run"):
        run_undo(WrappedStore(store, before=refuse), JOB)
    assert set(visible_files(store, "/table")) == {A}
    assert run_undo(store, JOB)
    assert visible_files(store, "/table") == {}


def test_an_undo_looks_for_sources_only_among_the_jobs_own_files():
    """A late task wrote a moved file again, and a committer that slept froze that."""
    store = half(staged())
    put_file(store, source_path(0, A), b"a1")
    store.move_whole(JOB.tasks, JOB.with_frozen_tasks("0000").tasks)
    assert run_undo(store, JOB)
    assert visible_files(store, "/table") == {}


def test_an_undo_that_dies_anywhere_is_ended_by_the_next():
    for store in each_crash(lambda: half(staged()), lambda one: run_undo(one, JOB)):
        run_undo(store, JOB)
        assert visible_files(store, "/table") == {}
        assert store.get_status(JOB.job_directory) is None


def test_a_committer_that_sleeps_before_it_takes_over_moves_nothing_after_an_undo():
    store, names = half(staged()), ("list_status", "get_status", "move_whole", "rename")
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store.copy(), after=calls.append), JOB)
    total = max(n for n, call in enumerate(calls, 1) if call.operation in names)
    for number in range(1, total + 1):
        one = store.copy()

        def undo(call: StoreCall, number: int = number, one: MemoryStore = one) -> None:
            if call.number == number and phase_of(one) is Phase.RECORDED:
                assert run_undo(one, JOB)

        outcome = None
        with suppress(RayCommitterError):
            outcome = run_commit(WrappedStore(one, before=undo), JOB, NO_WAIT).outcome
        is_committed = outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
        assert visible_files(one, "/table") == (FILES if is_committed else {})


def test_two_undos_at_once_take_everything_back():
    store = half(staged())
    total = 30
    for number in range(1, total):
        one = store.copy()

        def other(call: StoreCall, number: int = number, one: MemoryStore = one) -> None:
            if call.number == number:
                run_undo(one, JOB)

        with suppress(CommitStateUnknownError):
            run_undo(WrappedStore(one, before=other), JOB)
        assert visible_files(one, "/table") == {}


# What is shown of a job whose files are frozen


def test_an_abort_counts_files_that_are_frozen(tmp_path: Path):
    job = new_job_attempt(str(tmp_path / "table"), "job_1", 0)
    store = LocalStore(StoreSpec("file"))
    write_job(store, job, {0: FILES})
    died(store, lambda one: run_commit(one, job), "advance", "recorded")
    assert plan_abort(job.destination).files == 2
    told: list[AbortReport] = []
    ray_committer.abort_job(job.destination, on_report=told.append)
    assert [report.files for report in told] == [2]
    assert store.get_status(job.job_directory) is None


def test_a_dry_run_and_a_look_find_files_that_are_frozen():
    store = half(staged())
    assert survey_exactly(store, JOB, NOW, threads=2).left == 1
