"""Machines that remember the listings of a network file system commit beside each other."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ray_committer.errors import CommitConflictError, CommitRecordExistsError, IncompleteJobError
from ray_committer.job_files.read_job import last_sign
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import MANIFEST_SUFFIX, JobAttempt, join, new_job_attempt, parent
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import (
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import (
    commit_attempt,
    put_file,
    set_up_attempt,
    source_of,
    write_attempt,
)
from tests.doubles import phase_of
from tests.network_client import NetworkClient
from tests.stages.support import at, staged_name

APPEND = CommitOptions(conflict_wait_seconds=0.0)
OVERWRITE = replace(APPEND, mode=ConflictMode.OVERWRITE, unfinished="refuse")
EMPTY = replace(APPEND, mode=ConflictMode.ERROR)
TASKS = {0: {"p=1/a": b"a", "p=1/b": b"b"}}


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def job(table: str, name: str) -> JobAttempt:
    return new_job_attempt(table, name, 0)


def look(client: NetworkClient, *directories: str) -> None:
    """List directories, as anything on that machine may have done a moment ago."""
    for directory in directories:
        with suppress(FileNotFoundError):
            client.list_status(directory)


def commit_half(client: NetworkClient, append: JobAttempt) -> None:
    """Commit, and die once one file is moved."""
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(client, after=at("rename", SimulatedCrash())), append, APPEND)


@pytest.mark.parametrize(
    "seen", ["nothing", "another attempt", "its state", "its state, at another place"]
)
def test_an_overwrite_sees_an_append_that_another_machine_has_recorded(table: str, seen: str):
    here, there = NetworkClient(), NetworkClient()
    append, overwrite = new_job_attempt(table, "append", 1), job(table, "overwrite")
    write_job(here, overwrite, {0: {"p=1/new": b"new"}}, mode=ConflictMode.OVERWRITE)
    if seen == "another attempt":
        write_job(there, job(table, "append"), {0: {"p=1/a": b"a"}})
    elif seen != "nothing":
        write_job(there, append, TASKS)
    look(here, overwrite.temporary)
    if seen != "nothing":
        look(here, append.job_directory, append.directory, append.state)
    if seen in ("nothing", "another attempt"):
        write_job(there, append, TASKS)
    commit_half(there, append)
    if seen == "its state, at another place":  # where a process that slept has put it by mistake
        there.move_directory(append.directory, append.gone("a" * 16).directory)
    with pytest.raises(CommitConflictError, match="append"):
        run_commit(here, overwrite, OVERWRITE)


def test_an_overwrite_supersedes_an_append_that_died_on_another_machine(table: str):
    here, there = NetworkClient(), NetworkClient()
    append, overwrite = job(table, "append"), job(table, "overwrite")
    write_job(here, overwrite, {0: {"p=1/new": b"new"}}, mode=ConflictMode.OVERWRITE)
    look(here, overwrite.temporary, table, join(table, "p=1"))
    write_job(there, append, TASKS)
    commit_half(there, append)
    run_commit(here, overwrite, replace(OVERWRITE, unfinished=None))
    assert visible_files(NetworkClient(), table) == {"p=1/new": b"new"}


def test_a_sign_of_life_is_looked_for_on_the_server(table: str):
    here, append = NetworkClient(), job(table, "append")
    write_job(here, append, TASKS)
    last_sign(here, append)
    assert append.state in here.revalidated


def test_an_overwrite_sees_a_job_that_was_set_up_in_a_directory_above(tmp_path: Path, table: str):
    here, there = NetworkClient(), NetworkClient()
    append = job(str(tmp_path), "append")
    overwrite = job(table, "overwrite")
    write_job(here, overwrite, {0: {"p=1/new": b"new"}}, mode=ConflictMode.OVERWRITE)
    look(here, str(tmp_path), append.temporary)
    write_job(there, append, {0: {"table/p=1/a": b"a", "table/p=1/b": b"b"}})
    commit_half(there, append)
    with pytest.raises(CommitConflictError, match="append"):
        run_commit(here, overwrite, OVERWRITE)


def test_an_append_sees_an_overwrite_that_was_set_up_in_a_directory_that_it_writes_to(table: str):
    here, there = NetworkClient(), NetworkClient()
    append, overwrite = job(table, "append"), job(join(table, "p=1"), "overwrite")
    put_file(there, join(table, "p=1/old"), b"old")
    write_job(here, append, {0: {"p=1/a": b"a"}})
    look(here, table, join(table, "p=1"))
    write_job(there, overwrite, {0: {"new": b"new", "new2": b"2"}}, mode=ConflictMode.OVERWRITE)
    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(there, after=at("rename", SimulatedCrash())), overwrite, OVERWRITE)
    with pytest.raises(CommitConflictError, match="overwrite"):
        run_commit(here, append, APPEND)


def test_an_overwrite_removes_what_another_machine_has_written_before(table: str):
    here, there = NetworkClient(), NetworkClient()
    put_file(there, join(table, "p=1/old"), b"old")
    overwrite = job(table, "overwrite")
    write_job(here, overwrite, {0: {"p=1/new": b"new"}}, mode=ConflictMode.OVERWRITE)
    look(here, table, join(table, "p=1"), join(table, "p=2"))
    append = job(table, "append")
    write_job(there, append, {0: {"p=1/a": b"a", "p=2/b": b"b"}})
    run_commit(there, append, APPEND)
    run_commit(here, overwrite, OVERWRITE)
    assert visible_files(NetworkClient(), table) == {"p=1/new": b"new"}


def test_files_that_another_machine_has_moved_are_not_missing(table: str):
    there = NetworkClient()

    class Here(NetworkClient):
        """Whose renames a worker on another machine makes."""

        def rename(self, source: str, dest: str, version: str | None = None) -> None:
            there.rename(source, dest, version)

    here, append = Here(), job(table, "append")
    put_file(here, join(table, "p=1/old"), b"old")
    write_job(here, append, {0: {"p=1/a": b"a"}})
    run_commit(here, append, replace(APPEND, validate=True))
    assert visible_files(NetworkClient(), table) == {"p=1/old": b"old", "p=1/a": b"a"}


def test_an_old_file_that_another_machine_has_replaced_meanwhile_is_kept(table: str):
    here, there, overwrite = NetworkClient(), NetworkClient(), job(table, "overwrite")
    put_file(there, join(table, "p=1/old"), b"old")
    write_job(here, overwrite, {0: {"p=2/new": b"new"}}, mode=ConflictMode.OVERWRITE)

    def replace_old(call: StoreCall) -> None:
        if call.operation == "rename":
            there.write(join(table, "other"), b"newer")
            there.replace(join(table, "other"), join(table, "p=1/old"))

    run_commit(WrappedStore(here, before=replace_old), overwrite, OVERWRITE)
    assert visible_files(NetworkClient(), table) == {"p=1/old": b"newer", "p=2/new": b"new"}


def test_a_manifest_that_another_machine_has_saved_before_the_freeze_is_loaded(table: str):
    here, there, append = NetworkClient(), NetworkClient(), job(table, "append")
    write_job(there, append, {0: {"a": b"a"}})
    late = set_up_attempt(there, append, 0, 1)
    write_attempt(there, append, late, {"b": b"b"})

    def save(call: StoreCall) -> None:
        if call == StoreCall("move_directory", (append.manifests, append.frozen)):
            look(here, append.manifests)  # as a machine would whose workers elsewhere made the copies
            commit_attempt(there, append, 0, late)

    run_commit(WrappedStore(here, before=save), append, APPEND)
    assert visible_files(NetworkClient(), table) == {"b": b"b"}


def test_staged_files_that_another_machine_has_written_before_the_freeze_are_seen(table: str):
    """This machine has listed their directory, to find attempts without a manifest."""
    here, there, append = NetworkClient(), NetworkClient(), job(table, "append")
    write_job(there, append, {0: {staged_name("p=1/a"): b"a"}, 1: {staged_name("p=1/a", 1): b"a"}})
    late = set_up_attempt(there, append, 0, 1)
    files = {staged_name("p=1/b", 0, 1): b"b"}

    def save(call: StoreCall) -> None:
        if call == StoreCall("move_directory", (append.manifests, append.frozen)):
            write_attempt(there, append, late, files)
            commit_attempt(there, append, 0, late, files=files)

    run_commit(WrappedStore(here, before=save), append, APPEND)
    assert visible_files(NetworkClient(), table) == {**files, staged_name("p=1/a", 1): b"a"}


def test_staged_files_that_came_after_a_task_on_this_machine_has_listed_its_own_are_seen(table: str):
    here, there, append = NetworkClient(), NetworkClient(), job(table, "append")
    files = {task: {staged_name("p=1/a", task): b"a"} for task in range(2)}
    write_job(here, append, {0: files[0]})
    (own,) = files[0]
    look(here, parent(source_of(append, f"attempt_{append.job_id}_m_000000_0", own)))
    other = set_up_attempt(there, append, 1, 0)
    write_attempt(there, append, other, files[1])
    commit_attempt(there, append, 1, other, files=files[1])
    run_commit(here, append, replace(APPEND, expected_tasks=2))
    assert visible_files(NetworkClient(), table) == {**files[0], **files[1]}


def test_staged_files_of_a_task_on_another_machine_that_saved_no_manifest_are_seen(table: str):
    here, there, append = NetworkClient(), NetworkClient(), job(table, "append")
    write_job(there, append, {0: {staged_name("p=1/a"): b"a"}})
    look(here, append.tasks, join(append.tasks, "in"))
    look(here, parent(source_of(append, f"attempt_{append.job_id}_m_000000_0", staged_name("p=1/a"))))
    dead = set_up_attempt(there, append, 1, 0)
    write_attempt(there, append, dead, {staged_name("p=1/b", 1): b"b"})
    with pytest.raises(IncompleteJobError, match="1 task attempts have files"):
        run_commit(here, append, APPEND)


class Late(NetworkClient):
    """A machine that remembers where manifests go, also after they were frozen."""

    def _where(self, path: str) -> str:
        frozen = path.replace("/manifests/", "/frozen/")
        return frozen if Path(frozen).parent.exists() else path

    def write(self, path: str, data: bytes) -> None:
        super().write(self._where(path), data)

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        super().replace(self._where(source), self._where(dest), version, old=old)


@pytest.mark.parametrize("task", [0, 1], ids=["of a task that is counted", "of another task"])
def test_a_manifest_that_a_task_saves_among_the_frozen_ones_changes_nothing(table: str, task: int):
    here, there, append = NetworkClient(), Late(), job(table, "append")
    options = replace(APPEND, expected_tasks=1)
    write_job(here, append, {0: {"a": b"a"}})
    late = set_up_attempt(there, append, task, 1)
    write_attempt(there, append, late, {"late": b"late"})

    def record(call: StoreCall) -> None:
        if call.operation == "write" and phase_of(here, append) is Phase.OPEN:
            with pytest.raises(SimulatedCrash):
                run_commit(WrappedStore(here, before=at("rename", SimulatedCrash())), append, options)

    with pytest.raises(CommitRecordExistsError):
        commit_attempt(WrappedStore(there, before=record), append, task, late)
    frozen = [one.name for one in there.list_status(append.frozen)]
    assert sum(name.endswith(MANIFEST_SUFFIX) for name in frozen) == 1 + task
    run_commit(here, append, options)
    assert visible_files(NetworkClient(), table) == {"a": b"a"}


@pytest.mark.parametrize(
    ("options", "warns"),
    [(APPEND, False), (OVERWRITE, True), (EMPTY, True)],
    ids=["append", "replace", "empty"],
)
def test_a_job_that_nobody_may_write_beside_is_warned_of_the_file_system(
    table: str, options: CommitOptions, warns: bool
):
    client, own = NetworkClient(), job(table, "own")
    write_job(client, own, {0: {"a": b"a"}}, mode=options.mode)
    notices = [one for one in run_commit(client, own, options).notices if "nfs4" in one]
    assert len(notices) == warns
    assert all(one.startswith(f"{table}: is on a network file system (nfs4)") for one in notices)


def test_elsewhere_nothing_is_asked_for(tmp_path: Path):
    """No name is made in order to look, and no manifest is copied."""
    calls: list[str] = []
    store = WrappedStore(LocalStore(StoreSpec("file")), before=lambda call: calls.append(call.operation))
    own = job(str(tmp_path), "own")
    write_job(store, own, {0: {"a": b"a"}})
    calls.clear()
    report = run_commit(store, own, OVERWRITE)
    assert "revalidate" not in calls
    assert calls.count("write") == 4  # a pack, the declaration, the record and _SUCCESS
    assert report.notices == []


def test_no_name_that_was_made_to_look_is_left(table: str):
    client, own = NetworkClient(), job(table, "own")
    put_file(client, join(table, "p=1/old"), b"old")
    write_job(client, own, {0: {"p=2/a": b"a"}}, mode=ConflictMode.OVERWRITE)
    run_commit(client, own, OVERWRITE)
    assert {path.name for path in Path(table).rglob("*")} == {"_SUCCESS", "p=2", "a"}
    assert len(client.revalidated) > 10
