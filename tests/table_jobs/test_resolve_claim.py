"""The claim of a job whose directory somebody deleted is ended, and no data is lost."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import (
    AmbiguousJobError,
    CommitConflictError,
    JobNotFoundError,
    RayCommitterError,
    TableClaimError,
    ValidationError,
)
from ray_committer.protocol import file_list
from ray_committer.protocol.file_list import ListedFile, inline_set
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.table_entry import TableCommit, WriteMode
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.table_jobs import remove_listed_files
from ray_committer.table_jobs.make_table import make_table
from ray_committer.table_jobs.table import init_table
from ray_committer.tables.append import append
from ray_committer.tables.log import read_entries
from ray_committer.testing import Identity, MemoryStore, StoreCall, WrappedStore, run_commit
from ray_committer.testing.harness import put_file
from tests.cli.commands import run
from tests.commits.tables import AT_ONCE, OLD, OVERWRITE, THIRD, data_in, data_of_log, in_flight, sizes
from tests.stages.support import (
    JOB,
    KINDS,
    NOW,
    ON_DIRECTORIES,
    ON_OBJECTS,
    at,
    do_at,
    each_crash,
)
from tests.table_jobs.tables_in_use import (
    NEW,
    OVERWRITE_ONE,
    OVERWRITE_PARTITIONS,
    Died,
    committed,
    die,
    kinds_of,
    resolve,
    scanned,
    stopped,
    stopped_after_commit,
    table_with_old_files,
    write,
)
from tests.tables.support import DEFINITION, TABLE, append_commit, claim_of, done_of
from tests.tiers import moments

pytestmark = pytest.mark.usefixtures("no_pauses")

Kind = Callable[[], MemoryStore]
MODES = {"append": AT_ONCE, "overwrite": OVERWRITE, "partitions": OVERWRITE_PARTITIONS}


@pytest.fixture(params=MODES)
def options(request: pytest.FixtureRequest) -> ray_committer.CommitOptions:
    return MODES[request.param]


# A job that is not committed


def test_a_claim_is_given_up_and_its_new_files_go(kind: Kind, options):
    store = stopped(kind(), options)
    found = resolve(store)
    assert (found.claim, found.version, found.is_committed, found.removed) == (3, 4, False, 2)
    assert kinds_of(store) == ["claim", "abort", "claim", "commit", "done"]
    assert data_of_log(store) == data_in(store) == sizes(OLD)
    assert in_flight(store) == []


def test_a_claim_of_a_job_that_moved_nothing_is_only_given_up(kind: Kind):
    store = stopped(kind(), before=do_at("advance", die, end="recorded"))
    assert (resolve(store).removed, kinds_of(store)) == (0, ["claim", "abort"])
    assert data_of_log(store) == data_in(store) == sizes(OLD)


def test_a_new_file_that_was_changed_stays(kind: Kind):
    store = stopped(kind())
    store.write("/table/day=1/new", b"xxx")
    found = resolve(store)
    assert (found.removed, found.kept) == (1, ("day=1/new: was changed",))
    assert store.read("/table/day=1/new") == b"xxx"


def test_a_file_that_another_job_has_committed_stays_even_if_it_is_the_same(kind: Kind):
    store = stopped(kind(), before=do_at("advance", die, end="sealed"))
    hook = do_at("rename", die, end="005.entry")
    with pytest.raises(Died):
        resolve(WrappedStore(store, before=hook))
    assert kinds_of(store) == ["claim", "abort"]
    committed(store, {"day=1/new": b"333"}, options=OVERWRITE)
    if kind().capabilities.versions.value == "listed":  # the same content has the same checksum
        assert scanned(store).orphans == ()
    resolve(store)
    assert data_of_log(store) == data_in(store) == {"day=1/new": 3}


def test_files_are_not_removed_beside_a_job_at_work(kind: Kind):
    store = stopped(kind())
    append(store, TABLE, claim_of("other", partitions=["day=1"]), 3)
    with pytest.raises(CommitConflictError, match=r"job other .*is given up \(version 5\)") as caught:
        resolve(store)
    assert "run the same command again" in caught.value.advice
    assert set(NEW) <= set(data_in(store))
    append_commit(store, "x", partitions=["day=9"])
    found = scanned(store)
    assert found.orphans == tuple(sorted(NEW))
    assert found.orphan_commands == ("ray-committer table resolve memory://test/table job_1",)


def test_files_that_were_there_before_stay_when_their_import_is_given_up(kind: Kind):
    store = kind()
    for name, data in OLD.items():
        put_file(store, f"/table/{name}", data)
    hook = do_at("rename", die, end="002.entry")
    with pytest.raises(Died):
        make_table(WrappedStore(store, before=hook), TABLE, DEFINITION, NOW)
    found = resolve(store, job_id="import-id")
    assert (found.removed, kinds_of(store, 0)) == (0, ["claim", "abort"])
    assert scanned(store).orphans == ()
    assert scanned(store).foreign == tuple(sorted(OLD))
    make_table(store, TABLE, DEFINITION, NOW)
    assert data_of_log(store) == data_in(store) == sizes(OLD)


# A job that is committed, without done


def test_old_files_of_a_committed_job_are_removed(kind: Kind):
    store = stopped_after_commit(kind())
    assert set(data_in(store)) == {*OLD, *NEW}
    found = resolve(store)
    assert (found.version, found.removed) == (4, 2)
    assert kinds_of(store) == ["claim", "commit", "done"]
    assert data_of_log(store) == data_in(store) == sizes(NEW)


def test_a_lost_new_file_is_named_and_no_old_one_goes_unless_that_is_accepted(kind: Kind):
    files = {"day=1/new": b"333", "day=2/old": b"namesake"}
    store = stopped_after_commit(kind(), files=files)
    before = store.files()
    with pytest.raises(
        ValidationError, match="committed in the log, but 1 of its 2 new files"
    ) as caught:
        resolve(store)
    assert "table resolve memory://test/table job_1 --accept-lost" in caught.value.advice
    assert store.files() == before
    found = resolve(store, accept_lost=True)
    assert found.removed == 1
    assert data_in(store) == {"day=1/new": 3, "day=2/old": 2}
    assert in_flight(store) == []
    assert scanned(store).changed == ("day=2/old: has 2 bytes, not 8",)


def test_a_new_file_is_never_removed_as_the_old_file_of_its_name(kind: Kind):
    store = table_with_old_files(kind())
    status = store.get_status("/table/day=1/old")
    assert status is not None
    same = [ListedFile("day=1/old", 1, status.modified_milliseconds, status.etag)]
    claim = claim_of("job_1", same, mode=WriteMode.OVERWRITE, replaces=["day=1"])
    append(store, TABLE, claim, 2)
    removed = inline_set(same)
    commit = TableCommit(job_id="job_1", job_attempt=0, claim=3, at_milliseconds=1, removed=removed)
    append(store, TABLE, commit, 3)
    assert (resolve(store).removed, data_in(store)) == (0, sizes(OLD))
    assert data_of_log(store) == data_in(store)


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_a_commit_that_keeps_its_old_files_moves_them(kind: Kind):
    store = stopped(kind(), OVERWRITE)
    old = [
        ListedFile(name, len(data), status.modified_milliseconds, status.etag)
        for name, data in OLD.items()
        if (status := store.get_status(f"/table/{name}"))
    ]
    commit = TableCommit(
        job_id="job_1", job_attempt=0, claim=3, at_milliseconds=1, removed=inline_set(old), kept=True
    )
    append(store, TABLE, commit, 3)
    for one in each_crash(store.copy, resolve):
        resolve(one)
        assert data_of_log(one) == data_in(one) == sizes(NEW)
        assert {name: one.read(TABLE.kept(3, name)) for name in OLD} == OLD
        assert kinds_of(one) == ["claim", "commit", "done"]


def test_an_overwrite_of_partitions_removes_only_what_is_in_them(kind: Kind):
    store = stopped_after_commit(kind(), OVERWRITE_PARTITIONS)
    assert resolve(store).removed == 1
    assert data_of_log(store) == data_in(store) == sizes({"day=2/old": b"22"}, NEW)


def test_old_files_where_a_job_writes_but_replaces_nothing_stay(kind: Kind):
    store = stopped_after_commit(kind(), OVERWRITE_ONE, {"day=1/new": b"333", "day=2/new": b"4444"})
    assert resolve(store).removed == 1
    assert set(data_in(store)) == {"day=1/new", "day=2/new", "day=2/old"}
    assert data_of_log(store) == data_in(store)


def test_files_that_no_entry_names_stay_and_are_named(kind: Kind):
    store = stopped_after_commit(kind(), OVERWRITE)
    put_file(store, "/table/day=2/strange", b"?")
    put_file(store, "/table/day=2/.hidden", b"?")
    assert resolve(store).kept == ("day=2/strange: no entry of the log names it",)
    assert set(data_in(store)) == {*NEW, "day=2/strange", "day=2/.hidden"}


def test_an_old_file_that_was_changed_stays_and_is_named(kind: Kind):
    store = stopped_after_commit(kind(), OVERWRITE)
    store.write("/table/day=2/old", b"changed")
    found = resolve(store)
    assert (found.removed, found.kept) == (1, ("day=2/old: has 7 bytes, not 2",))
    assert store.read("/table/day=2/old") == b"changed"
    assert in_flight(store) == []


def test_many_files_are_in_lists(kind: Kind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_list, "MOST_INLINE", 1)
    monkeypatch.setattr(remove_listed_files, "FILES_ASIDE", 1)
    store = stopped_after_commit(kind(), OVERWRITE)
    assert resolve(store).removed == 2
    assert data_of_log(store) == data_in(store) == sizes(NEW)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "day=1/new: is missing"),
        (b"longer", "day=1/new: has 6 bytes, not 3"),
        (b"xxx", "day=1/new: was changed"),
    ],
)
def test_a_new_file_that_is_not_in_its_place_keeps_old_files(kind: Kind, data: bytes | None, said: str):
    store = stopped_after_commit(kind())
    if data is None:
        store.delete_file("/table/day=1/new")
    else:
        store.write("/table/day=1/new", data)
    before = store.files()
    with pytest.raises(ValidationError, match=f"but 1 of its 2 new files .*: {said}") as caught:
        resolve(store)
    assert caught.value.exit_code == 5
    assert "table resolve memory://test/table job_1 --accept-lost" in caught.value.advice
    assert store.files() == before


def test_a_size_alone_is_no_proof():
    store = stopped_after_commit(MemoryStore(identity=Identity.SIZE_ONLY))
    with pytest.raises(ValidationError, match="only its size shows that it is the file"):
        resolve(store)
    store = stopped(MemoryStore(identity=Identity.SIZE_ONLY), OVERWRITE)
    found = resolve(store)
    assert found.removed == 0
    assert len(found.kept) == 2
    assert set(data_in(store)) == {*OLD, *NEW}


# Which claim


def test_as_long_as_the_job_is_there_its_state_decides(kind: Kind):
    store = table_with_old_files(kind())
    write(store, NEW, JOB, AT_ONCE)
    with pytest.raises(Died):
        run_commit(WrappedStore(store, before=do_at("advance", die, end="sealed")), JOB, AT_ONCE)
    before = store.files()
    with pytest.raises(TableClaimError, match=r"job job_1 is there \(recorded\)") as caught:
        resolve(store)
    assert caught.value.exit_code == 4
    for verb in ("commit", "abort"):
        assert f"ray-committer {verb} memory://test/table --job-id job_1" in caught.value.advice
    assert store.files() == before


def test_another_job_of_the_same_id_is_not_the_job_of_the_claim(kind: Kind):
    store = stopped(kind())
    write(store, {"day=7/new": b"7"}, JOB, AT_ONCE)
    assert resolve(store).version == 4
    assert run_commit(store, JOB, AT_ONCE).table_version == 9
    assert data_of_log(store) == data_in(store)


def test_the_last_decision_is_reported_again(kind: Kind):
    store = stopped_after_commit(kind())
    assert resolve(store).version == resolve(store).version == 4
    other = stopped(kind())
    assert resolve(other).version == resolve(other).version == 4
    assert data_of_log(other) == data_in(other) == sizes(OLD)


def test_what_a_job_has_left_is_removed_also_after_its_id_was_used_again(kind: Kind):
    store = stopped(kind())
    with pytest.raises(Died):
        resolve(WrappedStore(store, before=do_at("rename", die, end="005.entry")))
    committed(store, {"day=1/again": b"5"}, JOB)
    assert scanned(store).orphans == tuple(sorted(NEW))
    found = resolve(store)
    assert (found.is_committed, found.removed) == (True, 2)
    assert data_of_log(store) == data_in(store) == sizes(OLD, {"day=1/again": b"5"})


def test_a_job_that_is_committed_meanwhile_is_finished_and_not_given_up(kind: Kind):
    store = stopped(kind())
    commit = TableCommit(job_id="job_1", job_attempt=0, claim=3, at_milliseconds=1)
    late = do_at("rename", lambda: append(store, TABLE, commit, 3), end="004.entry")
    with pytest.raises(TableClaimError, match=r"004.entry: says that job job_1 is committed") as caught:
        resolve(WrappedStore(store, before=late))
    assert "run the same command again" in caught.value.advice
    assert (resolve(store).is_committed, kinds_of(store)) == (True, ["claim", "commit"])
    assert data_of_log(store) == data_in(store) == sizes(OLD, NEW)


def test_a_job_without_a_claim_is_not_found(kind: Kind):
    with pytest.raises(JobNotFoundError, match="has no claim of job job_9"):
        resolve(table_with_old_files(kind()), job_id="job_9")


def test_of_several_attempts_one_must_be_named(kind: Kind):
    store = table_with_old_files(kind())
    for number in (0, 1):
        append(store, TABLE, claim_of("job_1", job_attempt=number, nonce=f"n{number}"), 2)
    with pytest.raises(AmbiguousJobError, match=r"attempts \[0, 1\] of job job_1"):
        resolve(store)
    assert resolve(store, job_attempt=1).job_attempt == 1
    assert resolve(store).job_attempt == 0


# Several claims of one attempt


def with_several_claims(
    kind: Kind, *options: ray_committer.CommitOptions, phase: str = "recorded"
) -> MemoryStore:
    """A table whose job has died in several runs, each of which was to do other work."""
    store = table_with_old_files(kind())
    write(store, NEW, JOB, AT_ONCE)
    for one in options:
        with pytest.raises(Died):
            run_commit(WrappedStore(store, before=do_at("advance", die, end=phase)), JOB, one)
    return store


def test_all_claims_of_an_attempt_that_is_gone_are_given_up(kind: Kind):
    store = with_several_claims(kind, AT_ONCE, OVERWRITE_ONE)
    store.delete_directory("/table/_temporary")
    assert [one.state for one in scanned(store).claims] == [None, None]
    resolve(store)
    assert in_flight(store) == []
    assert data_of_log(store) == data_in(store) == sizes(OLD)
    assert committed(store, {"day=1/later": b"5"}, options=OVERWRITE) is not None


def test_a_claim_is_not_used_again_by_a_run_that_replaces_other_directories(kind: Kind):
    store = with_several_claims(kind)
    there = {"day=3/old": b"55555"}
    committed(store, there)
    for phase, one in (("recorded", OVERWRITE_PARTITIONS), ("sealed", OVERWRITE_ONE)):
        with pytest.raises(Died):
            run_commit(WrappedStore(store, before=do_at("advance", die, end=phase)), JOB, one)
    store.delete_directory("/table/_temporary")
    resolve(store)
    assert data_of_log(store) == data_in(store) == sizes(OLD, there)


def test_a_claim_that_ended_with_the_commit_of_another_is_not_resolved(kind: Kind):
    store = with_several_claims(kind, AT_ONCE, OVERWRITE_ONE)
    assert run_commit(store, JOB, AT_ONCE).table_version == 5
    later = {"day=1/later": b"55555"}
    committed(store, later)
    there = kinds_of(store)
    assert (resolve(store).version, resolve(store).removed) == (5, 0)
    assert kinds_of(store) == there
    assert data_of_log(store) == data_in(store) == sizes(OLD, NEW, later)


# Crashes, and several at once


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
def test_after_a_crash_at_any_request_a_committed_job_is_finished(kind: Kind):
    for store in each_crash(lambda: stopped_after_commit(kind()), resolve):
        assert set(NEW) <= set(data_in(store))
        resolve(store)
        assert kinds_of(store) == ["claim", "commit", "done"]
        assert data_of_log(store) == data_in(store) == sizes(NEW)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ON_DIRECTORIES, indirect=True)
def test_after_a_crash_at_any_request_a_job_is_given_up(kind: Kind, options):
    for store in each_crash(lambda: stopped(kind(), options), resolve):
        if "abort" not in kinds_of(store):
            assert data_in(store) == sizes(OLD, NEW)
        resolve(store)
        assert data_of_log(store) == data_in(store) == sizes(OLD)
        assert in_flight(store) == []


@pytest.mark.moments
@pytest.mark.slow
@pytest.mark.alternate
@pytest.mark.parametrize("kind", ON_OBJECTS, indirect=True)
@pytest.mark.parametrize("new", [stopped, stopped_after_commit])
def test_two_people_at_once_make_one_decision(kind: Kind, new):
    calls: list[StoreCall] = []
    resolve(WrappedStore(new(kind(), OVERWRITE), before=calls.append))
    for call in moments(calls):
        store = new(kind(), OVERWRITE)

        def hook(now: StoreCall, number: int = call.number, store: MemoryStore = store) -> None:
            if now.number == number:
                with suppress(RayCommitterError):
                    resolve(store)

        with suppress(RayCommitterError):
            resolve(WrappedStore(store, before=hook))
        resolve(store)
        assert kinds_of(store)[:2] == ["claim", "commit" if new is stopped_after_commit else "abort"]
        end = sizes(NEW) if new is stopped_after_commit else sizes(OLD)
        assert data_of_log(store) == data_in(store) == end
        assert in_flight(store) == []


@pytest.mark.moments
@pytest.mark.slow
@pytest.mark.alternate
@pytest.mark.parametrize(("new", "name"), [(stopped_after_commit, "day=1/old"), (stopped, "day=1/new")])
def test_a_run_that_wakes_up_late_removes_no_file_of_a_later_job(kind: Kind, new, name: str):
    if kind is KINDS["flat"]:  # it can neither name a version nor put a file aside
        return
    calls: list[StoreCall] = []
    resolve(WrappedStore(new(kind(), OVERWRITE), before=calls.append))
    data = b"333" if kind in KINDS.values() else b"of the later job"  # S3's etag is that of the content
    for call in moments(calls):
        store = new(kind(), OVERWRITE)

        def hook(now: StoreCall, number: int = call.number, store: MemoryStore = store) -> None:
            if now.number == number:
                resolve(store)
                committed(store, {name: data})

        with suppress(RayCommitterError):
            resolve(WrappedStore(store, before=hook))
        with suppress(RayCommitterError):
            resolve(store)
        assert store.read(f"/table/{name}") == data
        assert data_of_log(store) == data_in(store)


def test_a_file_that_changes_after_the_look_at_it_is_moved_back_and_named():
    store = stopped_after_commit(MemoryStore())
    change = do_at("set_aside", lambda: store.write("/table/day=1/old", b"changed"))
    found = resolve(WrappedStore(store, before=change))
    assert (found.removed, found.kept) == (2, ("day=1/old: has 7 bytes, not 1",))
    assert store.read("/table/day=1/old") == b"changed"
    assert in_flight(store) == []


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EACCES])
def test_an_old_file_that_cannot_be_put_aside_is_named_and_not_deleted_where_it_is(code: int):
    store = stopped_after_commit(MemoryStore())
    denied = at("set_aside", OSError(code, "no"), "day=1/old")
    found = resolve(WrappedStore(store, before=denied))
    assert (found.removed, found.kept) == (1, ("day=1/old: could not be removed (no)",))
    assert store.get_status("/table/day=1/old") is not None


@pytest.mark.slow
def test_after_a_crash_what_was_put_aside_by_mistake_is_moved_resolve():
    store = stopped_after_commit(MemoryStore())
    change = do_at("set_aside", lambda: store.write("/table/day=1/old", b"changed"))
    dies = WrappedStore(store, before=change, after=do_at("set_aside", die))
    with pytest.raises(Died):
        resolve(dies)
    assert store.get_status("/table/day=1/old") is None
    assert resolve(store).kept == ("day=1/old: has 7 bytes, not 1",)
    assert store.read("/table/day=1/old") == b"changed"


def test_no_run_can_make_the_place_of_old_files_again_after_the_claim_has_ended():
    store = stopped_after_commit(MemoryStore())
    place = f"{TABLE.aside(3)}/0"

    def third_run() -> None:
        with suppress(OSError):
            store.mkdirs(place)

    def others() -> None:
        resolve(WrappedStore(store, before=do_at("rename", third_run, end="005.entry")))
        committed(store, {"day=1/old": b"of a later job"})

    late = WrappedStore(store, before=do_at("set_aside", others), after=do_at("set_aside", die))
    with suppress(OSError, RayCommitterError, Died):
        resolve(late)
    assert store.read("/table/day=1/old") == b"of a later job"


def test_a_place_that_another_run_makes_again_is_closed():
    store = stopped_after_commit(MemoryStore())
    again = do_at("delete_directory", lambda: store.mkdirs(f"{TABLE.aside(3)}/0"), end="aside-3")
    assert resolve(WrappedStore(store, after=again)).removed == 2
    status = store.get_status(TABLE.aside(3))
    assert status is not None
    assert not status.is_directory


@pytest.mark.moments
@pytest.mark.slow
@pytest.mark.alternate
@pytest.mark.parametrize("kind", ON_DIRECTORIES, indirect=True)
def test_a_commit_whose_directory_is_deleted_and_whose_claim_is_resolved_stops(kind: Kind, options):
    calls: list[StoreCall] = []

    def new() -> MemoryStore:
        store = table_with_old_files(kind())
        write(store, NEW, JOB, options)
        return store

    run_commit(WrappedStore(new(), before=calls.append), JOB, options)
    for call in moments(calls):
        store = new()

        def hook(now: StoreCall, number: int = call.number, store: MemoryStore = store) -> None:
            if now.number == number:
                store.delete_directory("/table/_temporary")
                with suppress(RayCommitterError):
                    resolve(store)

        with suppress(RayCommitterError, OSError):
            run_commit(WrappedStore(store, before=hook), JOB, options)
        with suppress(JobNotFoundError, TableClaimError):  # it had made no claim, or wrote after that
            resolve(store)
        assert in_flight(store) == []
        assert data_of_log(store) == data_in(store)
        assert data_in(store) in (sizes(OLD), sizes(OLD, NEW), sizes(NEW), after_partitions())


def after_partitions() -> dict[str, int]:
    return sizes({"day=2/old": OLD["day=2/old"]}, NEW)


# On local files, and the command


def broken_table(dest: Path) -> None:
    """A table at `dest` whose job `job_b` has its file in place, and is gone."""
    dest.mkdir(exist_ok=True)
    init_table(str(dest))
    for name in ("a", "b"):
        job = ray_committer.setup_job(str(dest), f"job_{name}")
        with (
            ray_committer.task_attempt(str(dest), job, task=0) as attempt,
            attempt.open(f"day=1/{name}") as file,
        ):
            file.write(b"x")
        if name == "a":
            ray_committer.commit_job(str(dest), job)
    store = WrappedStore(LocalStore(StoreSpec("file")), before=do_at("advance", die, end="sealed"))
    with pytest.raises(Died):
        run_commit(store, new_job_attempt(str(dest), "job_b", 0), AT_ONCE)
    LocalStore(StoreSpec("file")).delete_directory(str(dest / "_temporary"))


def test_the_command_on_local_files(dest: Path):
    broken_table(dest)
    for removed in ("1 file removed", "0 files removed"):
        done = run("table", "resolve", str(dest), "job_b")
        assert (done.exit_code, done.stderr) == (0, "")
        assert f"job job_b is given up (version 6), {removed}" in done.stdout
    assert [path.name for path in (dest / "day=1").iterdir()] == ["a"]
    assert run("table", "resolve", str(dest), "job_x").exit_code == 3


def test_a_stopped_removal_is_ended_with_done_once(kind: Kind):
    store = stopped_after_commit(kind())
    resolve(store)
    assert append(store, TABLE, done_of(3), 4) == 5
    assert len(read_entries(store, TABLE)) == 5


@pytest.mark.parametrize("new", [stopped, stopped_after_commit])
def test_a_later_job_goes_on_after_a_claim_was_resolved(kind: Kind, new):
    store = new(kind(), OVERWRITE)
    write(store, {"day=1/later": b"5"}, THIRD, AT_ONCE)
    with pytest.raises(CommitConflictError) as caught:
        run_commit(store, THIRD, AT_ONCE)
    assert "ray-committer table resolve memory://test/table job_1" in caught.value.advice
    resolve(store)
    run_commit(store, THIRD, AT_ONCE)
    assert data_of_log(store) == data_in(store)
