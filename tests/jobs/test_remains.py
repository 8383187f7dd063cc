"""What is old enough to go, what is kept and why: decided from the store, which is not changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from ray_committer.jobs.remains import Remains, find_remains
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.record import Owner
from ray_committer.protocol.state import Phase
from ray_committer.testing import Identity, MemoryStore, StoreCall, WrappedStore, fail_at, write_job
from ray_committer.testing.harness import put_file
from tests.clock import Clock
from tests.stages.support import (
    ALIVE,
    DEAD,
    JOB,
    OTHER_JOB,
    WHEN,
    bring_to,
    calls_of,
    closed,
    record_of,
    requests,
    source_path,
    state_of,
    with_job,
)

HOUR = 3_600_000
WRITTEN = 1_700_000_000_000


def abandoned(tasks: int = 2, clock: Clock | None = None) -> MemoryStore:
    """A job that was written at one moment and left."""
    return with_job(
        {task: {f"f{task}": b"xy"} for task in range(tasks)},
        store=MemoryStore(clock=clock or Clock(WRITTEN)),
    )


def look(store, hours_later: float = 3.0) -> list[Remains]:
    now = WRITTEN + round(hours_later * HOUR)
    found = find_remains(store, "/table", older_than_seconds=7200.0, now_milliseconds=now)
    return sorted(found, key=lambda one: one.status.job.directory)


def test_where_no_job_is_there_are_no_remains():
    assert look(MemoryStore()) == []
    store = MemoryStore()
    store.mkdirs(JOB.temporary)
    assert look(store) == []


@pytest.mark.parametrize("tasks", [1, 5])
def test_an_old_job_can_go_with_all_its_files(tasks: int):
    store = abandoned(tasks)
    (found,) = look(store)
    assert (found.attempt, found.kept, found.decided) == (JOB, None, None)
    assert (found.files, found.newest_milliseconds) == (2 * tasks + 1, WRITTEN)  # and the state
    assert found.bytes == sum(len(data) for data in store.files().values())


@pytest.mark.parametrize(("hours", "kept"), [(1.9, True), (2.0, True), (2.1, False), (24.0, False)])
def test_a_job_that_has_changed_since_the_limit_is_kept(hours: float, kept: bool):
    (found,) = look(abandoned(), hours)
    assert found.kept == ("it has changed recently" if kept else None)


def test_one_young_file_keeps_its_job_alone():
    clock = Clock(WRITTEN)
    store = abandoned(clock=clock)
    write_job(store, OTHER_JOB, {0: {"b": b"y"}})
    clock.now += 2 * HOUR
    store.write(source_path(1, "f1"), b"written again")
    assert [found.kept for found in look(store)] == ["it has changed recently", None]


@pytest.mark.parametrize("identity", [Identity.ETAG, Identity.SIZE_ONLY])
def test_a_store_that_reports_no_age_keeps_everything(identity: Identity):
    store = with_job({0: {"a": b"x"}}, store=MemoryStore(identity=identity))
    assert [found.kept for found in look(store)] == ["the store does not show how old it is"]


def test_a_job_whose_commit_has_begun_is_kept_with_all_its_attempts():
    store, second = abandoned(), new_job_attempt("/table", "job_1", 1)
    write_job(store, second, {})
    bring_to(store, Phase.RECORDED)
    first_found, second_found = look(store)
    assert (first_found.kept, first_found.decided) == ("its commit has begun", JOB)
    assert second_found.kept == "the commit of another attempt of the job has begun"
    assert second_found.decided == JOB
    assert first_found.files is None  # nobody looked


@pytest.mark.parametrize("phase", list(Phase))
def test_only_a_job_whose_commit_was_not_recorded_can_go(phase: Phase):
    store = abandoned()
    bring_to(store, phase)
    (found,) = look(store)
    assert (found.kept is None) is (phase in (Phase.OPEN, Phase.DECLARED, Phase.ABORTED))


@pytest.mark.parametrize("phase", list(Phase))
def test_what_was_taken_away_and_not_deleted_can_go_if_its_job_had_ended(phase: Phase):
    store = abandoned()
    bring_to(store, phase)
    gone = JOB.gone("nonce")
    store.move_directory(JOB.directory, gone.directory)
    store.remove_empty_directory(JOB.job_directory)
    (found,) = look(store)
    assert (found.status.job.directory, found.attempt) == (gone.directory, None)
    assert (found.kept is None) is (phase in (Phase.COMMITTED, Phase.ABORTED))


def doctor(store: MemoryStore) -> None:
    put_file(store, "/table/_temporary/doctor-1/probe", b"x")


def classic(store: MemoryStore) -> None:
    put_file(store, "/table/_temporary/0/task_1/part", b"x")
    store.delete_directory("/table/_temporary/0")
    put_file(store, "/table/_temporary/attempts/part", b"x")


@pytest.mark.parametrize(("leave", "kept"), [(doctor, None), (classic, "it is not from this protocol;")])
def test_a_directory_without_an_attempt_goes_only_if_it_is_known(leave: Callable[..., None], kept):
    store = MemoryStore(clock=Clock(WRITTEN))
    leave(store)
    (found,) = look(store)
    assert found.attempt is None
    assert found.kept is kept or (found.kept or "").startswith(kept)


def test_an_old_job_costs_nine_requests_however_many_tasks_it_has():
    per_attempt = Counter(list_files=1, get_status=1, list_status=4)
    for tasks in (1, 20):
        found = requests(abandoned(tasks), look)
        assert found == Counter(list_status=1 + 1, read_state=1) + per_attempt


def declared(began: int, owner: Owner = ALIVE) -> MemoryStore:
    """A job whose files are all as old as can be, and that a committer has declared."""
    store = abandoned()
    bring_to(store, Phase.DECLARED, record=record_of(owner=owner, created_milliseconds=began))
    return store


def test_a_job_whose_committer_is_alive_is_kept_however_old_its_files_are():
    store = declared(began=WRITTEN + 3 * HOUR)
    (found,) = look(store)
    assert found.kept == "process 1 on elsewhere is at work on its commit"
    assert (found.files, found.decided) == (len(store.files()), None)


@pytest.mark.parametrize(("began", "owner"), [(WRITTEN, ALIVE), (WRITTEN + 3 * HOUR, DEAD)])
def test_an_old_job_whose_committer_has_died_can_go(began: int, owner: Owner):
    assert [found.kept for found in look(declared(began, owner))] == [None]


def test_an_old_job_of_which_nobody_can_tell_whether_its_committer_is_alive_is_kept():
    store = declared(began=WRITTEN)
    path = JOB.content(state_of(store).nonce)
    assert [found.kept for found in look(closed(store, path))] == [f"{path}: no permission to read it"]
    store.write(path, b"not json")
    (found,) = look(store)
    assert (found.kept or "").startswith(f"{path}: ")


def test_only_an_old_job_that_is_declared_is_asked_who_is_at_work_on_it():
    young = requests(declared(began=WRITTEN + HOUR), lambda store: look(store, hours_later=1.0))
    old = requests(declared(began=WRITTEN), look)
    assert old - young == Counter(read_state=2, read=2)


def test_a_job_with_a_record_costs_one_look_beside_the_search():
    store = abandoned()
    bring_to(store, Phase.RECORDED)
    assert requests(store, look) == Counter(list_status=1 + 1, read_state=1)


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, ConnectionResetError])
def test_what_cannot_be_looked_at_is_an_error_and_nothing_is_changed(when: str, error: type[OSError]):
    calls = calls_of(abandoned(), look)
    for call in calls:
        store = abandoned()
        before = store.files()
        with pytest.raises(error):
            look(WrappedStore(store, **{when: fail_at(call.number, error)}))
        assert store.files() == before


@pytest.mark.parametrize("path", [OTHER_JOB.job_directory, OTHER_JOB.state, OTHER_JOB.tasks])
def test_what_may_not_be_read_is_kept_and_the_others_are_looked_at(path: str):
    store = abandoned()
    write_job(store, OTHER_JOB, {0: {"b": b"y"}})
    found = {remains.status.job.job_id: remains.kept for remains in look(closed(store, path))}
    assert found == {JOB.job_id: None, OTHER_JOB.job_id: f"{path}: no permission to read it"}


def test_what_was_taken_away_and_may_not_be_read_is_kept():
    store = abandoned()
    gone = JOB.gone("nonce")
    store.move_directory(JOB.directory, gone.directory)
    (remains,) = (one for one in look(closed(store, gone.directory)) if one.status.job.is_gone)
    assert remains.kept == f"{gone.state}: no permission to read it"


def test_a_job_that_ends_during_the_look_is_kept_since_its_age_is_not_known():
    store = abandoned()

    def end(call: StoreCall) -> None:
        if call.operation == "list_files":
            store.delete_directory(JOB.job_directory)

    (found,) = look(WrappedStore(store, before=end))
    assert found.kept == "the store does not show how old it is"
