"""A power cut in the middle of a durable commit, and after it: what was not forced to disk is gone."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise
from random import Random

import pytest
from msgspec import structs

from ray_committer.job_files.read_job import read_job
from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.paths import ancestors, is_inside, join, new_job_attempt, parent
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import FileStatus
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
from ray_committer.testing.harness import put_file, run_undo
from ray_committer.testing.memory_store import StoredFile, moved
from tests.doubles import phase_of
from tests.stages.support import staged_name
from tests.tiers import EXAMPLES

pytestmark = pytest.mark.moments

JOB = new_job_attempt("/disk/table", "job_1", 0)
TASKS = {
    0: {"p=1/a": b"a", f"p=2/q=1/{staged_name('b')}": b"bb", f"p=4/{staged_name('d')}": b"d"},
    1: {"p=1/c": b"ccc", "top": b"", "p=3/same": b"new!", f"p=4/{staged_name('e', 1)}": b"ee"},
}
"""One new partition goes whole with the files of both tasks, and one below a new directory."""
NEW = {name: data for files in TASKS.values() for name, data in files.items()}
OLD = {"p=1/old": b"old", "p=9/older": b"older"}
OVERWRITTEN = {**OLD, "p=3/same": b"was longer"}
CASES = {
    "append": (OLD, CommitOptions(durable=True), {**OLD, **NEW}),
    "overwrite": (OVERWRITTEN, CommitOptions(durable=True, mode=ConflictMode.OVERWRITE), NEW),
}
SEEDS = EXAMPLES // 8
"""How often a power cut keeps other things that were not synced."""
_NUMBERS = count(1)
cases = pytest.mark.parametrize(("old", "options", "visible"), CASES.values(), ids=CASES)


Names = dict[str, StoredFile | int]
"""The files in a directory, and its directories by number."""


class Disk(MemoryStore):
    """A file system whose disk surely holds what was synced: the names in a directory, a file's content.

    Of what was not, each directory and each file is as it was when synced or as it is now, as chance has
    it. A deleted file may come back, and a renamed one be at both ends, but never at neither. A rename
    within one directory is one change of it, and a directory keeps its content whatever it is called: it
    is at one end of a rename, and at the new one if the names there were synced.
    """

    def __init__(self) -> None:
        super().__init__(identity=Identity.FILE_ID)
        self.capabilities = replace(self.capabilities, renames_are_local=True)
        self._numbers: dict[str, int] = {}
        self._names: dict[int, Names] = {}
        self._contents: dict[int, bytes] = {}

    def sync(self, path: str) -> None:
        if path in self._files:
            self._contents[self._files[path].number] = self._files[path].data
            return
        self._names[self._number(path)] = self._names_now(path)

    def _status(self, path: str) -> FileStatus:
        status, file = super()._status(path), self._files.get(path)
        return (
            structs.replace(status, modified_milliseconds=file.modified_milliseconds) if file else status
        )

    def _move_directory(self, source: str, dest: str) -> None:
        super()._move_directory(source, dest)
        self._numbers.pop(dest, None)
        self._numbers = {moved(path, source, dest): number for path, number in self._numbers.items()}

    def set_aside(self, path: str, place: str) -> None:
        """As a local file system: of two names of one file, the one aside is taken away first."""
        found, aside = self._files.get(path), self._files.get(place)
        if found and aside and found.number == aside.number:
            self.delete_file(place)
        super().set_aside(path, place)

    def delete_directory(self, path: str) -> bool:
        was_there = super().delete_directory(path)
        self._forget_deleted()
        return was_there

    def remove_empty_directory(self, path: str) -> bool:
        was_removed = super().remove_empty_directory(path)
        self._forget_deleted()
        return was_removed

    def copy(self) -> Disk:
        return self._with(dict(self._files), set(self._directories), self._numbers)

    def after_power_cut(self, random: Random | None = None) -> Disk:
        """What is there when the power is back; without `random` nothing but what was synced."""
        files: dict[str, StoredFile] = {}
        numbers = {"/": self._number("/")}
        level, left = ["/"], self._left(random)
        while level:
            directory = level.pop()
            for name, found in left.get(numbers[directory], {}).items():
                path = join(directory, name)
                if isinstance(found, int):
                    numbers[path] = found
                    level.append(path)
                else:
                    files[path] = replace(found, data=self._content(found, random))
        return self._with(files, set(numbers), numbers)

    def _left(self, random: Random | None) -> dict[int, Names]:
        """The names in each directory, by its number; each directory has one name."""
        left: dict[int, Names] = {}
        for number in sorted({*self._names, *self._numbers.values()}):
            names = self._names.get(number, {})
            is_new = random is not None and random.random() < 0.5
            left[number] = dict(self._renamed(number, names) | self._now(number) if is_new else names)
        ends: dict[int, list[int]] = {}
        for number, names in left.items():
            for found in names.values():
                if isinstance(found, int):
                    ends.setdefault(found, []).append(number)
        for found, numbers in ends.items():
            if len(numbers) > 1:
                kept = self._end_of(found, numbers, left, random)
                for number in numbers:
                    if number != kept:
                        left[number] = {n: one for n, one in left[number].items() if one != found}
        return left

    def _end_of(
        self, moved_one: int, numbers: list[int], left: dict[int, Names], random: Random | None
    ) -> int:
        """In which of several directories a directory is that was moved from one to another."""
        path = self._path(moved_one)
        above = [path or "/", *ancestors(path or "/", "/"), "/"][1:]
        here = self._number(above[0])
        pairs = pairwise(map(self._number, above))
        is_there = path is not None and here in numbers
        # What is in a new directory has a name only if that one has.
        is_there = is_there and all(below in left.get(number, {}).values() for below, number in pairs)
        is_synced = moved_one in self._names.get(here, {}).values()
        if is_there and (is_synced or (random is not None and random.random() < 0.5)):
            return here
        return next(number for number in numbers if number != here)

    def _number(self, path: str) -> int:
        return self._numbers.setdefault(path, next(_NUMBERS))

    def _forget_deleted(self) -> None:
        self._numbers = {path: one for path, one in self._numbers.items() if path in self._directories}

    def _path(self, number: int) -> str | None:
        return next((path for path, one in self._numbers.items() if one == number), None)

    def _now(self, number: int) -> Names:
        """The names in a directory now, whatever it is called; none if it was deleted."""
        path = self._path(number)
        return {} if path is None else self._names_now(path)

    def _names_now(self, directory: str) -> Names:
        if directory not in self._directories:
            return {}
        listed = self.list_status(directory)
        return {one.name: self._files.get(one.path) or self._number(one.path) for one in listed}

    def _renamed(self, number: int, names: Names) -> Names:
        """Those of the synced names whose file, or directory, is in another directory now."""
        own = self._path(number)
        files = {file.number: parent(path) for path, file in self._files.items()}
        directories = {one: parent(path) for path, one in self._numbers.items()}

        def is_elsewhere(found: StoredFile | int) -> bool:
            if isinstance(found, int):
                return directories.get(found, own) != own
            return files.get(found.number, own) != own

        return {name: found for name, found in names.items() if is_elsewhere(found)}

    def _content(self, file: StoredFile, random: Random | None) -> bytes:
        is_new = random is not None and random.random() < 0.5
        return file.data if is_new else self._contents.get(file.number, b"")

    def _with(
        self, files: dict[str, StoredFile], directories: set[str], numbers: dict[str, int]
    ) -> Disk:
        other = Disk()
        other._writes, other._files, other._directories = self._writes, files, directories
        other._numbers = dict(numbers)
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


@pytest.mark.slow
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
        if phase_of(left, JOB) is Phase.RECORDED:
            given_up = left.copy()
            run_undo(given_up, JOB)
            assert visible_files(given_up, JOB.destination) == old
        if read_job(left, JOB).is_decided:
            assert run_commit(left, JOB, options).outcome is Outcome.COMMITTED
            check_finished(left, visible)
        elif left.get_status(JOB.success) is not None:
            assert visible_files(left, JOB.destination) == visible
        else:
            undecided = True
            assert visible_files(left, JOB.destination) == old
    return undecided


@pytest.mark.parametrize(
    ("operation", "path"), [("rename", "/disk/table/p=1"), ("write", f"{JOB.state}/success-")]
)
def test_a_recorded_job_stays_durable_whoever_finishes_it(operation: str, path: str):
    disk = prepared(OLD, CommitOptions())

    def crash(call: StoreCall) -> None:
        if call.operation == operation and call.paths[-1].startswith(path):
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(disk, before=crash), JOB, CommitOptions(durable=True))
    run_commit(disk, JOB, CommitOptions())  # the command line, which was not told
    left = disk.after_power_cut()
    assert visible_files(left, JOB.destination) == {**OLD, **NEW}
    assert left.get_status(JOB.success) is not None


SEALED = (OLD, CASES["overwrite"][1], NEW)
"""A job without a namesake of an old file, so it can be undone while old files are put aside."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "options", "visible", "phase"),
    [*((*case, Phase.SEALED) for case in CASES.values()), (*SEALED, Phase.COMMITTED)],
    ids=[*CASES, "sealed"],
)
def test_after_a_power_cut_at_any_request_of_an_undo_the_same_command_finishes(
    old, options, visible, phase: Phase
):
    before = prepared(old, options)
    crash_when_all_is_moved(before, options, phase)
    for cut in range(1, 200):
        disk = before.copy()
        try:
            run_undo(WrappedStore(disk, after=crash_at(cut)), JOB)
        except SimulatedCrash:
            for random in (None, *map(Random, range(SEEDS))):
                check_undo(disk.after_power_cut(random), old, options, visible)
        else:
            break
    assert 20 < cut < 199


@cases
def test_after_a_durable_undo_a_power_cut_brings_no_file_back(old, options, visible):
    disk = prepared(old, options)
    crash_when_all_is_moved(disk, options)
    run_undo(disk, JOB)
    for random in (None, *map(Random, range(SEEDS))):
        left = disk.after_power_cut(random)
        assert visible_files(left, JOB.destination) == old


def crash_when_all_is_moved(disk: Disk, options: CommitOptions, phase: Phase = Phase.SEALED) -> None:
    """Commit, up to the change to `phase`, or that which ends the job; the new files are on the disk."""

    def crash(call: StoreCall) -> None:
        if call.operation == "advance" and call.paths[1].startswith((phase, Phase.COMMITTED)):
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(disk, before=crash), JOB, options)


def check_undo(left: Disk, old, options: CommitOptions, visible) -> None:
    """Run it again; where the disk does not know that it was begun, the commit can be finished, too."""
    if phase_of(left, JOB) in (Phase.RECORDED, Phase.SEALED):
        committed = left.copy()
        run_commit(committed, JOB, options)
        check_finished(committed, visible)
    run_undo(left, JOB)
    assert visible_files(left, JOB.destination) == old
    assert left.get_status(JOB.job_directory) is None
