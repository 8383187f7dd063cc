"""Replacing old data: listed before, removed after, never anything else."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import structs

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import (
    CommitCancelledError,
    CommitConflictError,
    CommitStateUnknownError,
    IncompleteJobError,
    PreflightError,
    RayCommitterError,
)
from ray_committer.events import Event, Notice
from ray_committer.job_files.commit_record import load_commit_record
from ray_committer.job_files.job_state import adopt_state
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.protocol.state import new_nonce
from ray_committer.stages.old_data import old_files_aside as module
from ray_committer.stages.old_data.list_replaced_files import list_replaced_files
from ray_committer.stages.old_data.old_files_aside import (
    delete_old_files,
    end_removal,
    make_places_aside,
)
from ray_committer.stages.remove_replaced_files import (
    remove_emptied_directories,
    remove_replaced_files,
)
from ray_committer.testing import Identity, MemoryStore, StoreCall, WrappedStore, fail_at, run_commit
from ray_committer.testing.harness import put_file
from tests.stages.support import JOB, at, context, record_of, requests

OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)


@pytest.fixture
def old(dest: Path) -> dict[str, str]:
    files = {"p=1/old": "1", "p=2/old": "2", "top": "3"}
    for name, text in files.items():
        (dest / name).parent.mkdir(parents=True, exist_ok=True)
        (dest / name).write_text(text)
    return files


def test_overwrite_replaces_all_files_and_removes_directories_that_are_empty_then(
    store, old, write_job, dest, tree
):
    for name in ("_spark_metadata", "_delta_log/deep/er", "p=3/q=1"):
        (dest / name).mkdir(parents=True)
    report = run_commit(store, write_job({0: {"p=1/new": "n"}}), OVERWRITE)
    assert report.replaced == 3
    assert tree() == {"p=1/new": "n"}
    assert {path.name for path in dest.iterdir()} == {"_SUCCESS", "p=1"}
    assert report.notices == []


def test_an_old_file_of_the_same_name_gives_way_to_the_new_one(store, old, write_job, tree):
    report = run_commit(store, write_job({0: {"p=1/old": "new", "top": "new top"}}), OVERWRITE)
    assert tree() == {"p=1/old": "new", "top": "new top"}
    assert (report.replaced, report.notices) == (1, [])  # its name is not to be removed as well


def test_an_old_file_that_was_rewritten_since_is_kept_with_a_notice(
    store, old, write_job, dest: Path, tree
):
    write_job({0: {"p=1/new": "n"}})
    ray_committer.record_job(str(dest), options=OVERWRITE)
    (dest / "p=2" / "old").write_text("rewritten")
    os.utime(dest / "p=2" / "old", (1, 1))
    report = ray_committer.commit_job(str(dest))
    assert tree() == {"p=1/new": "n", "p=2/old": "rewritten"}
    assert any("p=2/old" in notice for notice in report.notices)


def test_a_dangling_link_hides_no_old_data(store, old, write_job, dest: Path, tree):
    (dest / "p=1" / "link").symlink_to(dest / "nowhere")
    run_commit(store, write_job({0: {"p=1/new": "n"}}), OVERWRITE)
    assert tree() == {"p=1/new": "n"}
    assert not (dest / "p=1" / "link").is_symlink()


def test_old_data_is_kept_until_the_new_data_is_validated(store, old, write_job, tree):
    job = write_job({0: {"p=1/new": "whole"}})
    ray_committer.record_job(job.destination, options=OVERWRITE)
    next(Path(job.directory).rglob("new")).write_text("half")
    with pytest.raises(RayCommitterError, match="4 bytes, its manifest says 5"):
        run_commit(store, job, OVERWRITE)
    assert set(old) <= set(tree())


def test_a_job_that_was_set_up_to_replace_is_not_committed_as_an_append(old, dest: Path, tree):
    ray_committer.setup_job(str(dest), "job_1", options=OVERWRITE)
    with ray_committer.task_attempt(str(dest), "job_1", 0) as attempt:
        Path(attempt.path("new")).write_text("n")
    with pytest.raises(IncompleteJobError, match="to replace data"):
        ray_committer.commit_job(str(dest))
    assert tree() == old
    ray_committer.commit_job(str(dest), options=OVERWRITE)
    assert tree() == {"new": "n"}


def test_a_destination_is_not_replaced_beside_a_job_that_could_bring_its_rows_back(
    store, old, write_job, dest: Path, tree
):
    write_job({0: {"a": "of job 1"}}, job_id="job_1")
    second = write_job({0: {"b": "of job 2"}}, job_id="job_2")
    ray_committer.record_job(str(dest), "job_1", options=OVERWRITE)
    with pytest.raises(CommitConflictError, match=r"ray-committer commit .* --job-id job_1"):
        run_commit(store, second, OVERWRITE)
    with pytest.raises(CommitConflictError, match="must not replace data there before"):
        ray_committer.setup_job(str(dest), "job_3", options=OVERWRITE)
    ray_committer.commit_job(str(dest), "job_1")
    run_commit(store, second, OVERWRITE)
    assert tree() == {"b": "of job 2"}


ASIDE = JOB.aside(record_of().nonce)
OLD = ["/table/p=1/a", "/table/p=1/b", "/table/p=2/q=1/c", "/table/d"]


def with_files(paths: list[str] = OLD, identity: Identity = Identity.MODIFICATION_TIME) -> MemoryStore:
    store = MemoryStore(identity=identity)
    store.mkdirs("/table")
    store.mkdirs(f"{ASIDE}/old/0")
    for path in paths:
        put_file(store, path, path.encode())
    return store


def listed(store, roots: tuple[str, ...] = ("/table",)) -> tuple[ReplacedFile, ...]:
    return list_replaced_files(context(store), roots).files


def record_all(store: MemoryStore) -> CommitRecord:
    return record_of(replaced=list(listed(store)))


def remove(store, record: CommitRecord, emit: Callable[[Event], None] = lambda _: None) -> int:
    removal = remove_replaced_files(context(store, emit=emit), record)
    end_removal(context(store, emit=emit), record)
    delete_old_files(context(store), record)
    assert removal.left == ()
    return removal.removed


RECORD = record_all(with_files())


@pytest.mark.parametrize("paths", [[], OLD[:1], OLD, [f"/table/p={n % 7}/f{n:02d}" for n in range(50)]])
def test_every_file_is_listed_once_and_removed_once(paths: list[str]):
    store = with_files(paths)
    record = record_all(store)
    assert [file.path for file in record.replaced] == sorted(paths)
    assert [remove(store, record), remove(store, record)] == [len(paths), 0]
    assert store.files() == {}


@pytest.mark.parametrize("identity", list(Identity))
def test_a_file_is_recognised_by_whatever_its_store_reports(identity: Identity):
    store = with_files(identity=identity)
    assert remove(store, record_all(store)) == len(OLD)


def test_a_listing_costs_one_request_per_directory():
    assert requests(with_files(), listed) == Counter(list_page=1, list_status=3)


def test_a_removal_costs_one_listing_per_directory_with_old_files_and_one_request_per_file():
    found = requests(with_files(), lambda one: remove(one, RECORD))
    aside = Counter(move_directory=1, list_status=1, delete_directory=1)
    assert found == Counter(list_status=3, set_aside=4) + aside


def test_who_has_just_listed_the_old_files_does_not_list_them_again():
    found = requests(
        with_files(), lambda one: remove_replaced_files(context(one), RECORD, are_listed=True)
    )
    assert found == Counter(set_aside=4)


def test_a_record_without_old_files_costs_nothing():
    assert requests(with_files(), lambda one: remove(one, record_of())) == Counter()


def test_what_the_record_does_not_name_stays_and_so_do_directories():
    store = with_files()
    store.write("/table/p=1/late", b"x")
    assert remove(store, RECORD) == len(OLD)
    assert list(store.files()) == ["/table/p=1/late"]
    assert store.list_status("/table/p=2/q=1") == []


# Directories that are empty when their files are gone


def with_directories(*paths: str) -> MemoryStore:
    store = with_files([])
    for path in paths:
        store.mkdirs(path)
    return store


def test_directories_go_from_the_deepest_up_if_they_are_empty():
    store = with_directories("/table/p=1/q=1/r=1", "/table/p=2/q=1")
    put_file(store, "/table/p=2/late", b"x")
    emptied = ["/table/p=1", "/table/p=1/q=1", "/table/p=1/q=1/r=1", "/table/p=2", "/table/p=2/q=1"]
    record = record_of(emptied=emptied)
    for _ in range(2):
        remove_emptied_directories(context(store), record)
        assert store.get_status("/table/p=1") is None
        assert [one.path for one in store.list_status("/table/p=2")] == ["/table/p=2/late"]


def test_what_took_the_place_of_a_directory_stays():
    store = with_directories()
    put_file(store, "/table/p=1", b"x")
    remove_emptied_directories(context(store), record_of(emptied=["/table/p=1", "/table/p=2"]))
    assert store.files() == {"/table/p=1": b"x"}


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EBUSY])
def test_a_directory_that_this_user_cannot_remove_is_named_and_the_commit_goes_on(code: int):
    store, events = with_directories("/table/p=1", "/table/p=2"), list[Event]()
    denied = OSError(code, os.strerror(code), "/table/p=1")
    watch = WrappedStore(store, before=at("remove_empty_directory", denied, "p=1"))
    found = context(watch, emit=events.append)
    remove_emptied_directories(found, record_of(emptied=["/table/p=1", "/table/p=2"]))
    assert store.get_status("/table/p=2") is None
    (notice,) = [event for event in events if isinstance(event, Notice)]
    what = f"this old directory is kept, because it could not be removed ({os.strerror(code)})"
    assert notice.text == f"memory://test/table/p=1: {what}"


def test_only_directories_into_which_the_job_writes_nothing_are_recorded(store, old, write_job, dest):
    for name in ("p=1/dead", "p=3"):
        (dest / name).mkdir(parents=True)
    job = write_job({0: {"p=1/new": "n"}})
    roots = (str(dest / "p=1"), str(dest / "p=2"), str(dest / "p=9"))
    ray_committer.record_job(str(dest), options=replace(OVERWRITE, replaced_roots=roots))
    record = load_commit_record(store, job, adopt_state(store, job).state)
    assert record.emptied == [str(dest / name) for name in ("p=1/dead", "p=2", "p=9")]
    ray_committer.commit_job(str(dest), options=replace(OVERWRITE, replaced_roots=roots))
    assert {path.name for path in dest.iterdir()} == {"_SUCCESS", "p=1", "p=3", "top"}


@pytest.mark.parametrize("data", [b"longer than it was before", b"/table/P=1/A"])
def test_a_file_that_was_written_again_is_kept_and_reported(data: bytes):
    store, events = with_files(), list[Event]()
    store.write("/table/p=1/a", data)
    assert remove(store, RECORD, events.append) == 3
    assert store.files() == {"/table/p=1/a": data}
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert notice.text.startswith("memory://test/table/p=1/a: was to be replaced but has changed since")


@pytest.mark.parametrize("identity", [Identity.ETAG, Identity.GENERATION])
def test_a_file_that_is_written_again_before_it_is_deleted_is_kept_where_versions_are(
    identity: Identity,
):
    """A deletion names the version that was listed, so what is newer stays."""
    store, events = with_files(identity=identity), list[Event]()
    record = record_all(store)

    def overtake(call: StoreCall) -> None:
        if call.operation == "delete_version" and call.paths == ("/table/p=1/a",):
            store.write("/table/p=1/a", b"newer")

    watch = WrappedStore(store, before=overtake)
    assert remove(watch, record, events.append) == 3
    assert store.files() == {"/table/p=1/a": b"newer"}
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert notice.text.startswith("memory://test/table/p=1/a: was to be replaced but has changed since")


@pytest.mark.parametrize("name", [".nfs000000000001", ".fuse_hidden0001", "lost+found/#1", ".zfs/s/a"])
def test_names_that_the_file_system_has_made_are_no_old_data(name: str):
    store = with_files()
    put_file(store, f"/table/p=1/{name}", b"x")
    assert [file.path for file in listed(store)] == sorted(OLD)


@pytest.mark.parametrize("is_overwrite", [True, False])
def test_an_old_file_whose_name_is_not_utf8_refuses_an_overwrite_and_hinders_no_append(
    store, write_job, dest: Path, tree, is_overwrite: bool
):
    job = write_job({0: {"p=1/a": "x"}})
    (dest / "p=1").mkdir()
    odd = os.fsencode(dest / "p=1") + b"/old-\xff"
    Path(os.fsdecode(odd)).write_text("old")
    if is_overwrite:
        with pytest.raises(PreflightError, match=r"p=1/old-\\udcff: the name .* is not UTF-8"):
            run_commit(store, job, OVERWRITE)
    else:
        run_commit(store, job)
    assert os.path.exists(odd)
    assert (dest / "p=1" / "a").exists() is not is_overwrite


def test_a_directory_in_the_place_of_an_old_file_is_kept():
    store = with_files()
    store.delete_file("/table/d")
    put_file(store, "/table/d/new", b"x")
    assert remove(store, RECORD) == 3
    assert list(store.files()) == ["/table/d/new"]


def test_there_is_a_place_for_each_file_and_a_directory_for_so_many(monkeypatch):
    monkeypatch.setattr(module, "FILES_ASIDE", 3)
    store, record = with_files(), structs.replace(RECORD, nonce=new_nonce())
    made = requests(store, lambda one: make_places_aside(context(one), record))
    assert made == Counter(mkdirs=2)
    make_places_aside(context(store), record)
    assert remove_replaced_files(context(store), record).removed == len(OLD)
    end_removal(context(store), record)
    away = f"{JOB.aside(record.nonce)}/away"
    assert [path.rpartition("-")[0] for path in store.files(away)] == [
        f"{away}/{name}" for name in ("0/0", "0/1", "0/2", "1/3")
    ]
    delete_old_files(context(store), record)
    assert store.files() == {}


def test_a_name_that_the_file_system_makes_aside_stops_nothing():
    """As NFS does for a checksum that a reader has open while it is removed."""
    store = with_files()
    record = record_all(store)
    put_file(store, f"{ASIDE}/old/0/.nfs0000000000000001", b"open")
    assert remove(store, record) == len(OLD)
    assert store.files() == {}


def test_a_file_that_a_power_cut_has_brought_back_beside_the_one_aside_is_put_aside_again():
    store = with_files(identity=Identity.SIZE_ONLY)
    record = record_all(store)
    number = [file.path for file in record.replaced].index(OLD[0])
    put_file(store, f"{ASIDE}/old/0/{number}-{new_nonce()}", OLD[0].encode())
    assert remove(store, record) == len(OLD)
    assert store.files() == {}


@pytest.mark.parametrize("identity", [Identity.ETAG, Identity.GENERATION])
def test_where_a_deletion_names_a_version_nothing_is_put_aside(identity: Identity):
    store = with_files(identity=identity)
    record = record_all(store)
    made = requests(store, lambda one: make_places_aside(context(one), record))
    assert made == Counter()
    assert requests(store, lambda one: remove(one, record)) == Counter(list_status=3, delete_version=4)


def test_who_wakes_after_the_places_are_gone_moves_nothing_that_has_come_since():
    store = with_files()

    def sleep(call: StoreCall) -> None:
        if call.operation == "set_aside" and call.paths[0] == OLD[0]:
            assert remove(store, RECORD)
            store.write(OLD[0], b"of a later job")

    assert remove(WrappedStore(store, before=sleep), RECORD) < len(OLD)
    assert store.files() == {OLD[0]: b"of a later job"}


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS])
def test_an_old_file_that_cannot_be_put_aside_is_never_deleted_and_the_others_go(code: int):
    store = with_files()
    error = OSError(code, os.strerror(code))
    removal = remove_replaced_files(
        context(WrappedStore(store, before=at("set_aside", error, "p=1/a"))), RECORD
    )
    assert (removal.removed, removal.left) == (len(OLD) - 1, ((OLD[0], os.strerror(code)),))
    assert [path for path in store.files() if not path.startswith(ASIDE)] == OLD[:1]


def test_where_the_place_aside_is_gone_every_old_file_is_left():
    store = with_files()
    store.delete_directory(ASIDE)
    removal = remove_replaced_files(context(store), RECORD)
    assert sorted(path for path, _ in removal.left) == sorted(OLD)
    assert sorted(store.files()) == sorted(OLD)


def test_a_directory_that_cannot_be_listed_leaves_its_files_and_the_others_go():
    store = with_files()
    watch = WrappedStore(store, before=at("list_status", PermissionError(13, "denied"), "p=1"))
    removal = remove_replaced_files(context(watch), RECORD)
    assert (removal.removed, removal.left) == (2, tuple((path, "denied") for path in OLD[:2]))


def test_what_another_program_writes_between_look_and_removal_is_moved_back():
    store, events = with_files(), list[Event]()

    def overtake(call: StoreCall) -> None:
        if call.operation == "set_aside" and call.paths[0] == OLD[0]:
            store.write(OLD[0], b"by another program")

    assert remove(WrappedStore(store, before=overtake), RECORD, events.append) == len(OLD)
    assert store.files() == {OLD[0]: b"by another program"}
    (notice,) = [event for event in events if isinstance(event, Notice)]
    assert notice.text.startswith("memory://test/table/p=1/a: was to be replaced but has changed since")


def test_what_cannot_be_moved_back_because_its_name_is_taken_again_stays_aside_and_is_named():
    store = with_files()

    def overtake(call: StoreCall) -> None:
        if call.operation == "set_aside" and call.paths[0] == OLD[0]:
            store.write(OLD[0], b"by another program")
        if call.operation == "move_directory":
            put_file(store, OLD[0], b"by a third one")

    watch = WrappedStore(store, before=overtake)
    with pytest.raises(CommitStateUnknownError, match=f"{OLD[0]}: its name is taken") as error:
        remove(watch, RECORD)
    place = str(error.value).partition("kept as ")[2].partition(";")[0]
    assert store.read(place) == b"by another program"
    assert store.read(OLD[0]) == b"by a third one"


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_listing_that_fails_is_an_error_and_not_a_directory_without_files(number: int, error):
    with pytest.raises(error):
        listed(WrappedStore(with_files(), before=fail_at(number, error)))


def test_only_the_success_that_the_job_writes_itself_is_not_replaced_as_old_data():
    store = with_files()
    for path in ("/table/_SUCCESS", "/table/p=1/_SUCCESS"):
        put_file(store, path, b"x")
    assert [file.path for file in listed(store)] == sorted([*OLD, "/table/p=1/_SUCCESS"])
    unmarked = context(store, CommitOptions(mark_success=False))
    found = list_replaced_files(unmarked, ("/table",)).files
    assert {file.path for file in found} == {*OLD, "/table/_SUCCESS", "/table/p=1/_SUCCESS"}


@pytest.mark.parametrize("name", ["_temporary/job_2/00/tasks/a", ".spark-staging-1/a"])
def test_what_belongs_to_the_protocol_is_not_listed_at_any_depth(name: str):
    store = with_files()
    put_file(store, f"/table/{name}", b"x")
    put_file(store, f"/table/p=1/{name}", b"x")
    assert [file.path for file in listed(store)] == sorted(OLD)


def test_a_cancelled_commit_removes_nothing():
    store = with_files()
    with pytest.raises(CommitCancelledError):
        remove_replaced_files(context(store, cancelled=True), RECORD)
    assert sorted(store.files()) == sorted(OLD)
