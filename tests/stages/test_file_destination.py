"""A destination that is a file: an overwrite replaces it, and an abort puts it back."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path

import pytest

from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitConflictError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stages.file_destination import hidden_name
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, WrappedStore, run_abort, run_commit, write_job
from ray_committer.testing.harness import put_file, run_undo, visible_files
from tests.stages.support import JOB, KINDS, NOW, OTHER_JOB, at, bring_to, do_at, each_crash

OVERWRITE = CommitOptions(mode=ConflictMode.OVERWRITE)
PATH, HIDDEN = JOB.destination, hidden_name(JOB)


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest) -> MemoryStore:
    return with_file(request.param)


def with_file(kind: str) -> MemoryStore:
    store = KINDS[kind]()
    store.mkdirs("/")
    put_file(store, PATH, b"old")
    return store


def set_up(store) -> list[str]:
    warnings: list[str] = []
    setup_job(store, JOB, replaces=(PATH,), on_warning=warnings.append, now_milliseconds=NOW)
    return warnings


def test_an_overwrite_replaces_it(store: MemoryStore):
    write_job(store, JOB, {0: {"a": b"new"}}, mode=ConflictMode.OVERWRITE)
    assert store.read(HIDDEN) == b"old"
    run_commit(store, JOB, OVERWRITE)
    assert visible_files(store, PATH) == {"a": b"new"}
    assert store.get_status(HIDDEN) is None


def test_its_set_up_says_where_it_is(store: MemoryStore):
    (warning,) = set_up(store)
    assert warning == (
        f"{PATH}: was a file, which is kept as /.table.replaced-by-job_1 until this job is committed or "
        f"aborted"
    )


def test_an_abort_puts_it_back(store: MemoryStore):
    write_job(store, JOB, {0: {"a": b"new"}}, mode=ConflictMode.OVERWRITE)
    assert run_abort(store, JOB)
    assert store.files() == {PATH: b"old"}


def test_an_undo_puts_it_back(store: MemoryStore):
    write_job(store, JOB, {0: {"a": b"new"}}, mode=ConflictMode.OVERWRITE)
    bring_to(store, Phase.RECORDED)
    assert run_undo(store, JOB)
    assert store.files() == {PATH: b"old"}


@pytest.mark.parametrize("replaces", [(), (f"{PATH}/_",)], ids=["append", "some partitions"])
def test_a_job_that_does_not_replace_the_destination_is_refused(store: MemoryStore, replaces):
    with pytest.raises(CommitConflictError, match="/table: is a file where the job needs a directory"):
        setup_job(store, JOB, replaces=replaces)
    assert store.files() == {PATH: b"old"}


def test_a_link_to_nothing_is_refused(tmp_path: Path):
    """It may lead to a disk that is not mounted."""
    (tmp_path / "table").symlink_to(tmp_path / "disk" / "table")
    job = new_job_attempt(f"{tmp_path}/table", "job_1", 0)
    with pytest.raises(CommitConflictError, match="/table: is a link where the job needs a directory"):
        setup_job(LocalStore(StoreSpec("file")), job, replaces=(job.destination,))
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def test_a_set_up_that_fails_puts_it_back():
    store = with_file("directories")
    denied = PermissionError(errno.EACCES, "denied", PATH)
    with pytest.raises(PermissionError):
        set_up(WrappedStore(store, before=at("mkdirs", denied)))
    assert store.files() == {PATH: b"old"}


def test_a_set_up_that_is_interrupted_puts_it_back():
    store = with_file("directories")
    with pytest.raises(KeyboardInterrupt):
        set_up(WrappedStore(store, before=at("mkdirs", KeyboardInterrupt())))
    assert store.files() == {PATH: b"old"}


def test_an_abort_puts_it_back_after_a_set_up_that_stopped_anywhere():
    for store in each_crash(lambda: with_file("directories"), set_up):
        for _ in range(2):  # the second removes what the set-up has left beside the job
            run_abort(store, JOB)
        assert store.files() == {PATH: b"old"}


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("kind", [*KINDS, "local"])
def test_of_two_set_ups_that_see_it_the_later_leaves_what_the_other_job_does(
    kind: str, ends: bool, tmp_path: Path
):
    """On file systems its rename takes the directory that is there by then."""
    store = LocalStore(StoreSpec("file")) if kind == "local" else KINDS[kind]()
    path = f"{tmp_path}/table" if kind == "local" else PATH
    first, second = (new_job_attempt(path, job_id, 0) for job_id in ("first", "second"))
    put_file(store, path, b"old")

    def overtake() -> None:
        write_job(store, first, {0: {"a": b"new"}}, mode=ConflictMode.OVERWRITE)
        if ends:
            run_commit(store, first, OVERWRITE)

    late = WrappedStore(store, before=do_at("rename", overtake))
    warnings: list[str] = []
    with suppress(FileExistsError):  # where there are no directories, another file is there by then
        setup_job(late, second, replaces=(path,), on_warning=warnings.append)
    assert warnings == []
    assert store.get_status(hidden_name(second)) is None
    run_commit(store, first, OVERWRITE)
    assert visible_files(store, path) == {"a": b"new"}


def test_what_is_at_the_destination_meanwhile_stays_and_so_does_the_file(store: MemoryStore):
    set_up(store)
    write_job(store, OTHER_JOB, {0: {"a": b"of another job"}})
    run_commit(store, OTHER_JOB, CommitOptions())
    run_abort(store, JOB)
    assert visible_files(store, PATH) == {"a": b"of another job"}
    assert store.read(HIDDEN) == b"old"


@pytest.mark.parametrize("kind", ["directories", "generations"])
def test_an_abort_that_stops_anywhere_loses_nothing(kind: str):
    def new() -> MemoryStore:
        store = with_file(kind)
        set_up(store)
        return store

    for store in each_crash(new, lambda one: run_abort(one, JOB)):
        assert b"old" in store.files().values()
        run_abort(store, JOB)
        assert store.files() == {PATH: b"old"}


@pytest.mark.parametrize("kind", ["directories", "generations"])
def test_a_commit_that_stops_anywhere_is_finished_without_it(kind: str):
    def new() -> MemoryStore:
        store = with_file(kind)
        write_job(store, JOB, {0: {"a": b"new"}}, mode=ConflictMode.OVERWRITE)
        return store

    def run(store) -> None:
        run_commit(store, JOB, OVERWRITE)

    for store in each_crash(new, run):
        run(store)
        assert visible_files(store, PATH) == {"a": b"new"}
        assert store.get_status(HIDDEN) is None
