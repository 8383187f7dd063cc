"""Once the manifests are frozen no task adds or replaces one: it is counted, or told that it failed."""

from __future__ import annotations

from contextlib import suppress

import pytest

import ray_committer.stages.freeze_manifests as freeze_module
from ray_committer.errors import (
    IncompleteJobError,
    ManifestError,
    MissingManifestsError,
    RayCommitterError,
    StoreUnavailableError,
)
from ray_committer.executors.inline import InlineExecutor
from ray_committer.options import CommitOptions
from ray_committer.stages.context import JobContext
from ray_committer.stages.freeze_manifests import are_current, freeze_manifests
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import commit_attempt, put_file, set_up_attempt, write_attempt
from ray_committer.work.worker import Worker
from tests.stages.support import (
    JOB,
    KINDS,
    OfWorkers,
    at_call,
    context,
    do_at,
    each_crash,
    loaded,
    manifest_path,
    requests,
    stamp_of_job,
    with_job,
)
from tests.tiers import moments

pytestmark = pytest.mark.usefixtures("no_pauses")

FLAT = ("flat", "generations")
SECOND = f"attempt_{JOB.job_id}_m_000000_1"
NEW_TASK = f"attempt_{JOB.job_id}_m_000002_0"
EXPECTED = CommitOptions(conflict_wait_seconds=0.05)


FILES = {SECOND: {"a2": b"3"}, NEW_TASK: {"c": b"4"}}


def written(kind: str = "directories") -> MemoryStore:
    """A job of two tasks, with another attempt of the first and another task that have not begun to
    write."""
    store = with_job({0: {"a": b"1", "p=1/a": b"1"}, 1: {"b": b"2"}}, store=KINDS[kind]())
    for task, attempt in ((0, 1), (2, 0)):
        set_up_attempt(store, JOB, task, attempt)
    return store


def frozen_as_loaded(one: JobContext, found: LoadedManifests) -> bool:
    """Freeze the manifests; whether the frozen ones are those that were loaded."""
    freeze_manifests(one, found)
    return are_current(one, found)


def save(store: StoreOperations, attempt: str, of: str) -> bool:
    """Write a task attempt's files; whether its manifest was saved, as far as the task is told."""
    try:
        write_attempt(store, JOB, attempt, FILES.get(attempt, {}))
        commit_attempt(store, JOB, int(attempt.split("_")[-2]), attempt, stamp=of)
    except (RayCommitterError, FileNotFoundError):
        return False
    return True


# The rename


def test_the_manifests_are_renamed_and_what_was_loaded_is_what_is_frozen():
    store = written()
    found = loaded(context(store))
    before = store.files(JOB.manifests)
    assert frozen_as_loaded(context(store), found) is True
    assert store.get_status(JOB.manifests) is None
    assert list(store.files(JOB.frozen).values()) == list(before.values())
    again = loaded(context(store))
    assert again.listing.is_frozen
    assert not found.listing.is_frozen
    assert again.manifests == found.manifests


def test_it_costs_a_rename_and_a_listing_and_nothing_where_it_was_done():
    store = written()
    found = loaded(context(store))
    freeze = lambda found: lambda one: frozen_as_loaded(context(one), found)  # noqa: E731
    assert requests(store, freeze(found)) == {"move_directory": 1, "list_status": 1}
    assert requests(store, freeze(loaded(context(store)))) == {}


@pytest.mark.parametrize("kind", FLAT)
def test_where_directories_cannot_be_renamed_only_the_packs_are_what_counts(kind: str):
    store = written(kind)
    found = loaded(context(store))
    assert requests(store, lambda one: freeze_manifests(context(one), found)) == {}
    assert store.files(JOB.frozen) == {}
    assert found.files == 3


@pytest.mark.parametrize("attempt", [SECOND, NEW_TASK])
@pytest.mark.parametrize("kind", ["directories", "etags"])
def test_what_was_saved_after_loading_is_frozen_and_to_be_loaded(kind: str, attempt: str):
    store = written(kind)
    found = loaded(context(store))
    assert save(store, attempt, stamp_of_job(store)) is True
    assert frozen_as_loaded(context(store), found) is False
    assert frozen_as_loaded(context(store), loaded(context(store))) is True


def test_a_manifest_that_was_replaced_by_an_equal_one_is_loaded_again():
    store = written()
    found = loaded(context(store))
    assert save(store, f"attempt_{JOB.job_id}_m_000000_0", stamp_of_job(store)) is True
    assert frozen_as_loaded(context(store), found) is False


def test_two_committers_freeze_once():
    store = written()
    one, other = loaded(context(store)), loaded(context(store))
    assert frozen_as_loaded(context(store), one) is True
    assert frozen_as_loaded(context(store), other) is True
    assert frozen_as_loaded(context(store), one) is True


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rename_whose_answer_is_lost_is_made_once(when: str):
    store = written()
    found = loaded(context(store))

    def lose() -> None:
        raise StoreUnavailableError("/p", "lost")

    faulty = WrappedStore(store, **{when: do_at("move_directory", lose)})
    assert frozen_as_loaded(context(faulty), found) is True
    assert len(store.files(JOB.frozen)) == 2


def test_what_appears_beside_frozen_manifests_is_named_and_does_not_count():
    store = written()
    found = loaded(context(store))
    freeze_manifests(context(store), found)
    put_file(store, manifest_path(7), b"late")
    notices: list[str] = []
    late = context(store, emit=lambda event: notices.append(str(event)))
    assert frozen_as_loaded(late, found) is True
    assert f"{JOB.manifests}: appeared after the job's manifests were frozen" in notices[0]
    assert store.files(JOB.manifests) == {manifest_path(7): b"late"}


def test_manifests_that_another_jobs_cleanup_deleted_are_missed_by_name():
    store = written()
    found = loaded(context(store))
    store.delete_directory(JOB.temporary)
    with pytest.raises(MissingManifestsError, match=f"another job's clean-up .* {JOB.temporary}"):
        frozen_as_loaded(context(store), found)


@pytest.mark.parametrize("manifests", [2, 3])
@pytest.mark.parametrize("change", ["none", "saved", "gone"])
def test_a_long_listing_is_made_by_a_worker(
    manifests: int, change: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(freeze_module, "MANY_MANIFESTS", manifests)
    store = written()
    found = loaded(context(store))
    if change == "saved":
        assert save(store, SECOND, stamp_of_job(store)) is True

    def delete(call: StoreCall) -> None:
        if change == "gone" and call.operation == "list_status":
            store.delete_directory(JOB.temporary)

    of_worker, of_driver = WrappedStore(store, before=delete), WrappedStore(store, before=delete)
    executor = OfWorkers(lambda permits: Worker(of_worker, JOB, permits, in_driver=False))
    listed = requests(of_driver, lambda one: _frozen(one, found, executor, change))["list_status"]
    assert listed == (0 if manifests == 2 else 1)


class Mounted(MemoryStore):
    """A file system that several machines can mount, where each numbers the files in its own way."""

    def network_file_system(self, _path: str) -> str | None:
        return None


def test_a_long_listing_of_a_file_system_that_machines_mount_is_made_by_the_driver(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(freeze_module, "MANY_MANIFESTS", 1)
    store = Mounted()
    write_job(store, JOB, {0: {"a": b"1"}})
    found = loaded(context(store))
    executor = OfWorkers(lambda permits: Worker(MemoryStore(), JOB, permits, in_driver=False))
    assert frozen_as_loaded(context(store, executor=executor), found) is True


def _frozen(
    store: StoreOperations, found: LoadedManifests, executor: InlineExecutor, change: str
) -> None:
    one = context(store, executor=executor)
    if change == "gone":
        with pytest.raises(MissingManifestsError, match=f"another job's clean-up .* {JOB.temporary}"):
            frozen_as_loaded(one, found)
    else:
        assert frozen_as_loaded(one, found) is (change == "none")


# Copies


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_not_changed_is_current(kind: str):
    store = written(kind)
    found = loaded(context(store))
    freeze_manifests(context(store), found)
    cost = requests(store, lambda one: are_current(context(one), found))
    assert cost.total() == 1
    assert are_current(context(store), found) is True


@pytest.mark.parametrize("attempt", [SECOND, NEW_TASK])
@pytest.mark.parametrize("kind", FLAT)
def test_packs_are_not_current_once_a_task_has_saved(kind: str, attempt: str):
    store = written(kind)
    found = loaded(context(store))
    assert save(store, attempt, stamp_of_job(store)) is True
    assert are_current(context(store), found) is False
    assert are_current(context(store), loaded(context(store))) is True


# Whole commits beside tasks that are late

FIRST_TRY = {"a": b"1", "p=1/a": b"1", "b": b"2"}
WITH = {SECOND: {"a2": b"3", "b": b"2"}, NEW_TASK: {**FIRST_TRY, "c": b"4"}}


@pytest.mark.slow
@pytest.mark.moments
@pytest.mark.parametrize("attempt", [SECOND, NEW_TASK])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_task_that_saves_during_a_commit_is_counted_or_told_that_it_failed(
    kind: str, when: str, attempt: str
):
    base = written(kind)
    own = stamp_of_job(base)
    counted = set[bool]()
    for number in moments(
        range(1, requests(base.copy(), lambda one: run_commit(one, JOB, EXPECTED)).total() + 1)
    ):
        store, told = base.copy(), list[bool]()
        late = at_call(number, lambda store=store, told=told: told.append(save(store, attempt, own)))
        with suppress(
            ManifestError
        ):  # of a manifest that is replaced between its listing and its reading
            run_commit(WrappedStore(store, **{when: late}), JOB, EXPECTED)
        run_commit(store, JOB, EXPECTED)
        visible = visible_files(store, "/table")
        assert visible in (FIRST_TRY, WITH[attempt])
        assert told == [False] or visible == WITH[attempt]
        counted.add(visible == WITH[attempt])
    assert counted == {True, False}


def try_to_commit(store: StoreOperations) -> None:
    """A commit that does not know how many tasks there are refuses one that has written files alone."""
    with suppress(IncompleteJobError):
        run_commit(store, JOB, EXPECTED)


@pytest.mark.moments
@pytest.mark.parametrize("attempt", [SECOND, NEW_TASK])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_task_that_slept_during_a_whole_commit_is_counted_or_told_that_it_failed(
    kind: str, when: str, attempt: str
):
    base = written(kind)
    own = stamp_of_job(base)
    for number in moments(
        range(1, requests(base.copy(), lambda one: save(one, attempt, own)).total() + 1)
    ):
        store = base.copy()
        commit = at_call(number, lambda store=store: try_to_commit(store))
        told = save(WrappedStore(store, **{when: commit}), attempt, own)
        if told or visible_files(store, "/table"):
            run_commit(store, JOB, EXPECTED)
        visible = visible_files(store, "/table")
        assert visible in (FIRST_TRY, WITH[attempt])
        assert not told or visible == WITH[attempt]


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_that_saves_while_the_job_is_recorded_by_a_commit_that_stops_is_told_so(kind: str):
    base = written(kind)
    own = stamp_of_job(base)
    for left in each_crash(base.copy, lambda one: run_commit(one, JOB, EXPECTED)):
        told = save(left, SECOND, own)
        run_commit(left, JOB, EXPECTED)
        assert visible_files(left, "/table") == (WITH[SECOND] if told else FIRST_TRY)


@pytest.mark.parametrize("kind", FLAT)
def test_a_job_whose_tasks_save_all_the_time_is_refused_and_not_recorded(kind: str):
    store = written(kind)
    own = stamp_of_job(store)

    def busy(call: StoreCall) -> None:
        if call.operation == "read" and call.paths[0].startswith(JOB.manifests):
            save(store, NEW_TASK, own)

    with pytest.raises(IncompleteJobError, match="tasks are still committing"):
        run_commit(WrappedStore(store, after=busy), JOB, EXPECTED)
    assert visible_files(store, "/table") == {}
    run_commit(store, JOB, EXPECTED)
    assert visible_files(store, "/table") == WITH[NEW_TASK]
