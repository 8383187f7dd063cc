"""A power cut in the middle of a durable commit, and after it: what was not forced to disk is gone."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ray_committer.commit_report import Outcome
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import is_inside, join, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.stages.find_job import read_attempt_state
from ray_committer.testing import (
    Identity,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    crash_at,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import put_file
from ray_committer.testing.memory_store import _File

JOB = new_job_attempt("/disk/table", "job_1", 0)
TASKS = {0: {"p=1/a": b"a", "p=2/q=1/b": b"bb"}, 1: {"p=1/c": b"ccc", "top": b"", "p=3/same": b"new!"}}
NEW = {name: data for files in TASKS.values() for name, data in files.items()}
OLD = {"p=1/old": b"old", "p=9/older": b"older"}
OVERWRITTEN = {**OLD, "p=3/same": b"was longer"}
CASES = {
    "append": (OLD, CommitOptions(durable=True), {**OLD, **NEW}),
    "overwrite": (OVERWRITTEN, CommitOptions(durable=True, mode=ConflictMode.OVERWRITE), NEW),
}
SEEDS = 8
cases = pytest.mark.parametrize(("old", "options", "visible"), CASES.values(), ids=CASES)


class Disk(MemoryStore):
    """A file system whose disk surely holds what was synced: the names in a directory, a file's content.

    Of what was not, each directory and each file is as it was when synced or as it is now, as chance has
    it. A deleted file may come back, and a renamed one be at both ends, but never at neither.
    """

    def __init__(self) -> None:
        super().__init__(identity=Identity.FILE_ID)
        self.capabilities = replace(self.capabilities, needs_sync=True)
        self._names: dict[str, dict[str, _File | None]] = {}
        self._contents: dict[int, bytes] = {}

    def sync(self, path: str) -> None:
        if path in self._files:
            self._contents[self._files[path].number] = self._files[path].data
            return
        self._names[path] = self._names_now(path)

    def copy(self) -> Disk:
        return self._with(dict(self._files), set(self._directories))

    def after_power_cut(self, random: Random | None = None) -> Disk:
        """What is there when the power is back; without `random` nothing but what was synced."""
        files: dict[str, _File] = {}
        directories, level = {"/"}, ["/"]
        while level:
            directory = level.pop()
            is_new = random is not None and random.random() < 0.5
            names = self._names.get(directory, {})
            if is_new:
                names = self._names_now(directory) | self._renamed(names)
            for path, file in names.items():
                if file is None:
                    directories.add(path)
                    level.append(path)
                else:
                    files[path] = replace(file, data=self._content(file, random))
        return self._with(files, directories)

    def _names_now(self, directory: str) -> dict[str, _File | None]:
        if directory not in self._directories:
            return {}
        return {one.path: self._files.get(one.path) for one in self.list_status(directory)}

    def _renamed(self, names: dict[str, _File | None]) -> dict[str, _File | None]:
        """Those of the synced names whose file has another name now."""
        alive = {file.number for file in self._files.values()}
        return {path: file for path, file in names.items() if file is not None and file.number in alive}

    def _content(self, file: _File, random: Random | None) -> bytes:
        is_new = random is not None and random.random() < 0.5
        return file.data if is_new else self._contents.get(file.number, b"")

    def _with(self, files: dict[str, _File], directories: set[str]) -> Disk:
        other = Disk()
        other._writes, other._files, other._directories = self._writes, files, directories
        other._names, other._contents = dict(self._names), dict(self._contents)
        return other


def prepared(old: dict[str, bytes], options: CommitOptions, tasks=TASKS) -> Disk:
    """A disk with old files and a job, whose writers have synced what is in task attempt directories."""
    disk = Disk()
    disk.mkdirs(JOB.destination)
    for name, data in old.items():
        put_file(disk, join(JOB.destination, name), data)
    sync_all(disk)
    write_job(disk, JOB, tasks, mode=options.mode)
    sync_all(disk, JOB.tasks)
    return disk


def sync_all(disk: Disk, below: str = "/") -> None:
    for path in [*disk.files(), *disk._directories]:
        if path == below or is_inside(path, below):
            disk.sync(path)


def check_finished(disk: Disk, visible: dict[str, bytes]) -> None:
    assert visible_files(disk, JOB.destination) == visible
    assert disk.get_status(JOB.success) is not None
    assert disk.get_status(JOB.job_directory) is None


@cases
def test_what_is_not_synced_is_lost_so_the_double_is_worth_something(old, options, visible):
    disk = prepared(old, options)
    run_commit(disk, JOB, replace(options, durable=False))
    assert visible_files(disk.after_power_cut(), JOB.destination) != visible


@cases
def test_after_a_durable_commit_a_power_cut_takes_nothing_back(old, options, visible):
    disk = prepared(old, options)
    run_commit(disk, JOB, options)
    for random in (None, *map(Random, range(SEEDS))):
        left = disk.after_power_cut(random)
        assert visible_files(left, JOB.destination) == visible
        assert left.read(JOB.success) == disk.read(JOB.success)


def test_files_at_the_top_of_the_destination_are_kept_too():
    disk = prepared({}, CommitOptions(), {0: {"top": b"t"}})
    run_commit(disk, JOB, CommitOptions(durable=True, mark_success=False))  # the mark would sync them
    assert visible_files(disk.after_power_cut(), JOB.destination) == {"top": b"t"}


@cases
def test_after_a_power_cut_at_any_request_the_same_command_finishes(old, options, visible):
    before, undecided = prepared(old, options), 0
    for cut in range(1, 200):
        disk = before.copy()
        try:
            run_commit(WrappedStore(disk, after=crash_at(cut)), JOB, options)
        except SimulatedCrash:
            undecided += check_power_cut(disk, old, options, visible)
        else:
            break
    assert 0 < undecided < cut - 20


def check_power_cut(disk: Disk, old, options: CommitOptions, visible) -> bool:
    """Cut the power in several ways and finish; True if the commit was undecided in one of them."""
    undecided = False
    for random in (None, *map(Random, range(SEEDS))):
        left = disk.after_power_cut(random)
        if read_attempt_state(left, JOB).is_decided:
            assert run_commit(left, JOB, options).outcome is Outcome.COMMITTED
            check_finished(left, visible)
        elif left.get_status(JOB.success) is not None:
            assert visible_files(left, JOB.destination) == visible
        else:
            undecided = True
            assert visible_files(left, JOB.destination) == old
    return undecided


@cases
def test_a_power_cut_after_the_first_rename_finds_a_record(old, options, visible):
    calls: list[StoreCall] = []
    disk = prepared(old, options)

    def cut_at_first_file(call: StoreCall) -> None:
        calls.append(call)
        if call.operation in ("rename", "replace") and call.paths[0].startswith(JOB.tasks):
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(disk, after=cut_at_first_file), JOB, options)
    left = disk.after_power_cut()
    assert run_commit(left, JOB, options).outcome is Outcome.COMMITTED
    check_finished(left, visible)


@pytest.mark.parametrize(
    ("operation", "path"), [("mkdirs", "/disk/table/p=1"), ("write", f"{JOB.directory}/_SUCCESS.tmp")]
)
def test_a_recorded_job_stays_durable_whoever_finishes_it(operation: str, path: str):
    disk = prepared(OLD, CommitOptions())

    def crash(call: StoreCall) -> None:
        if call.operation == operation and call.paths[-1] == path:
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(disk, before=crash), JOB, CommitOptions(durable=True))
    run_commit(disk, JOB, CommitOptions())  # the command line, which was not told
    left = disk.after_power_cut()
    assert visible_files(left, JOB.destination) == {**OLD, **NEW}
    assert left.get_status(JOB.success) is not None


def test_a_durable_commit_syncs_each_directory_once_and_no_file(store, write_job):
    job = write_job({task: {f"p={n}/f-{task}-{n}": "x" for n in range(5)} for task in range(4)})
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), job, CommitOptions(durable=True))
    synced = [call.paths[0] for call in calls if call.operation == "sync"]
    below = sorted(path for path in synced if path.startswith(join(job.destination, "p=")))
    assert below == [join(job.destination, f"p={n}") for n in range(5)]
    order = [call.operation for call in calls if call.operation in ("sync", "rename")]
    assert order[-2:] == ["sync", "sync"]  # _SUCCESS and its directory, last


def test_without_durable_nothing_is_synced(store, write_job):
    job = write_job({0: {"p=1/a": "x"}})
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), job)
    assert not [call for call in calls if call.operation == "sync"]


def test_a_store_whose_answer_means_that_it_is_safe_is_not_asked(tmp_path):
    memory = MemoryStore()
    memory.mkdirs("/disk")
    write_job(memory, JOB, TASKS)
    calls: list[StoreCall] = []
    run_commit(WrappedStore(memory, before=calls.append), JOB, CommitOptions(durable=True))
    assert not [call for call in calls if call.operation == "sync"]
