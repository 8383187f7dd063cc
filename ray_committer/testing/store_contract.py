"""The requirements of every store, as one test class: subclass it, and define `store` and `root`.

Commits to a store that passes are safe; a store that fails would lose or double files. The stores of
this package are tested with it, and you can also test your own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random

import pytest

from ray_committer.errors import PreflightError, StoreUnavailableError
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import join, new_job_attempt
from ray_committer.stages.commit_result import Outcome
from ray_committer.stores.base import (
    FileStatus,
    StoredState,
    StoreOperations,
    Versions,
    delete_listed,
    delete_version,
    move_directory,
    set_aside,
)
from ray_committer.testing.faults import SimulatedCrash, StoreCall, WrappedStore, crash_at
from ray_committer.testing.harness import put_file, run_commit, visible_files, write_job

NAMES = (
    "plain",
    "with space",
    "100%",
    "a+b",
    "what?",
    "hash#tag",
    "this&that",
    "it's",
    'say "so"',
    "grüße",
    "数据",
    "smile 😀",
    "q=a%3A0 b",
    "%2F",
    "back\\slash",
    "[brackets]",
    "{braces}",
    "semi;colon,comma",
    "dots..",
    "tilde~",
)
"""File names that are easily damaged in a path, a URL or a signature."""

FAULTY_RENAMES = int(os.environ.get("RAY_COMMITTER_TEST_RENAMES", "120"))
FAULT_RATE = 0.13
STATES = 20


class StoreContract:
    """The promises of `StoreOperations`, each as a test.

    `refused_names` are names that the store itself forbids; `faulty_renames` is the number of files that
    are renamed under faults. The fixture `crash_stride` is the distance between the requests at which a
    commit dies.
    """

    refused_names: frozenset[str] = frozenset()
    faulty_renames = FAULTY_RENAMES

    @pytest.fixture
    def store(self) -> StoreOperations:
        """The store; define it in a subclass."""
        raise NotImplementedError("a subclass must define the fixture `store`")

    @pytest.fixture
    def root(self) -> str:
        """An empty directory on the store, absolute and decoded; define it in a subclass."""
        raise NotImplementedError("a subclass must define the fixture `root`, an empty directory")

    @pytest.fixture
    def crash_stride(self) -> int:
        """The distance between the requests at which a commit dies; 1 for every request."""
        return 1

    def test_what_is_written_is_read(self, store: StoreOperations, root: str) -> None:
        put_file(store, f"{root}/d/a", b"first and longer")
        store.write(f"{root}/d/a", b"second")
        store.write(f"{root}/d/empty", b"")
        assert store.read(f"{root}/d/a") == b"second"
        assert store.read(f"{root}/d/empty") == b""

    def test_what_is_not_there_cannot_be_read(self, store: StoreOperations, root: str) -> None:
        with pytest.raises(FileNotFoundError):
            store.read(f"{root}/missing")

    def test_a_status_tells_files_from_directories(self, store: StoreOperations, root: str) -> None:
        put_file(store, f"{root}/d/a", b"12345")
        file, directory = store.get_status(f"{root}/d/a"), store.get_status(f"{root}/d")
        assert file is not None
        assert (file.path, file.name, file.size) == (f"{root}/d/a", "a", 5)
        assert not file.is_directory
        assert directory is not None
        assert directory.is_directory
        assert store.get_status(f"{root}/missing") is None
        assert store.get_status(f"{root}/d/missing") is None

    def test_a_listing_shows_what_is_directly_there(self, store: StoreOperations, root: str) -> None:
        put_file(store, f"{root}/a", b"1")
        put_file(store, f"{root}/d/b", b"22")
        put_file(store, f"{root}/d/e/c", b"333")
        put_file(store, f"{root}/dd", b"4444")
        listed = {one.name: (one.is_directory, one.size) for one in store.list_status(root)}
        assert listed == {"a": (False, 1), "d": (True, listed["d"][1]), "dd": (False, 4)}
        assert {one.path for one in store.list_status(f"{root}/d")} == {f"{root}/d/b", f"{root}/d/e"}

    def test_a_listing_of_nothing_is_an_error(self, store: StoreOperations, root: str) -> None:
        with pytest.raises(FileNotFoundError):
            store.list_status(f"{root}/missing")

    def test_a_listing_agrees_with_the_status(self, store: StoreOperations, root: str) -> None:
        put_file(store, f"{root}/d/a", b"1")
        assert store.list_status(f"{root}/d") == [store.get_status(f"{root}/d/a")]
        assert store.list_files(root) == [store.get_status(f"{root}/d/a")]

    def test_all_files_below_are_listed(self, store: StoreOperations, root: str) -> None:
        for name in ("a", "d/b", "d/e/c", "dd/f"):
            put_file(store, f"{root}/{name}", name.encode())
        store.mkdirs(f"{root}/d/empty")
        found = {one.path: one.size for one in store.list_files(f"{root}/d")}
        assert found == {f"{root}/d/b": 3, f"{root}/d/e/c": 5}
        assert store.list_files(f"{root}/missing") == []

    def test_a_directory_that_was_made_is_there(self, store: StoreOperations, root: str) -> None:
        for _ in range(2):
            store.mkdirs(f"{root}/x/y/z")
        status = store.get_status(f"{root}/x/y/z")
        assert status is not None
        assert status.is_directory
        assert store.list_status(f"{root}/x/y/z") == []
        assert [one.is_directory for one in store.list_status(f"{root}/x")] == [True]

    def test_a_file_in_the_way_of_a_directory_is_named(self, store: StoreOperations, root: str) -> None:
        if not store.capabilities.has_directories:
            pytest.skip("a file may be where a directory is")
        put_file(store, f"{root}/a", b"1")
        for path in (f"{root}/a", f"{root}/a/b"):
            with pytest.raises(FileExistsError):
                store.mkdirs(path)
        assert store.read(f"{root}/a") == b"1"

    def test_a_rename_moves_a_file_and_keeps_what_tells_it(
        self, store: StoreOperations, root: str
    ) -> None:
        before = self.written(store, f"{root}/d/a", b"content")
        store.mkdirs(f"{root}/e")
        store.rename(f"{root}/d/a", f"{root}/e/b", before.version)
        after = store.get_status(f"{root}/e/b")
        assert store.get_status(f"{root}/d/a") is None
        assert after is not None
        assert store.read(f"{root}/e/b") == b"content"
        assert (after.size, after.etag, after.file_id) == (before.size, before.etag, before.file_id)
        if before.etag is None:
            assert after.modified_milliseconds == before.modified_milliseconds

    def test_a_rename_never_replaces(self, store: StoreOperations, root: str) -> None:
        before = self.written(store, f"{root}/a", b"new")
        put_file(store, f"{root}/b", b"old")
        with pytest.raises(FileExistsError):
            store.rename(f"{root}/a", f"{root}/b", before.version)
        assert (store.read(f"{root}/a"), store.read(f"{root}/b")) == (b"new", b"old")

    def test_a_rename_never_goes_into_a_directory(self, store: StoreOperations, root: str) -> None:
        if not store.capabilities.has_directories:
            pytest.skip("a file may be where a directory is")
        put_file(store, f"{root}/a", b"new")
        store.mkdirs(f"{root}/d")
        with pytest.raises((FileExistsError, IsADirectoryError)):
            store.rename(f"{root}/a", f"{root}/d")
        assert store.read(f"{root}/a") == b"new"
        assert store.list_status(f"{root}/d") == []

    def test_a_rename_of_nothing_is_an_error(self, store: StoreOperations, root: str) -> None:
        store.mkdirs(root)
        with pytest.raises(FileNotFoundError):
            store.rename(f"{root}/missing", f"{root}/b")
        assert store.get_status(f"{root}/b") is None

    def test_a_rename_never_makes_a_directory(self, store: StoreOperations, root: str) -> None:
        if not store.capabilities.has_directories:
            pytest.skip("a file needs no directory")
        put_file(store, f"{root}/a", b"1")
        with pytest.raises(FileNotFoundError):
            store.rename(f"{root}/a", f"{root}/missing/b")
        assert store.read(f"{root}/a") == b"1"
        assert store.get_status(f"{root}/missing") is None

    def test_another_version_stays_where_it_is(self, store: StoreOperations, root: str) -> None:
        if store.capabilities.versions is Versions.NONE:
            pytest.skip("the store has no versions")
        old = self.written(store, f"{root}/a", b"first")
        new = self.written(store, f"{root}/a", b"second")
        assert None not in (old.version, new.version)
        for move in (store.rename, store.replace):
            with pytest.raises(FileExistsError):
                move(f"{root}/a", f"{root}/b", old.version)
        assert store.read(f"{root}/a") == b"second"
        assert store.get_status(f"{root}/b") is None
        store.rename(f"{root}/a", f"{root}/b", new.version)
        assert store.read(f"{root}/b") == b"second"

    def test_replace_takes_the_place(self, store: StoreOperations, root: str) -> None:
        for old in (None, b"old"):
            put_file(store, f"{root}/a", b"new")
            if old is not None:
                store.write(f"{root}/b", old)
            store.replace(f"{root}/a", f"{root}/b")
            assert store.read(f"{root}/b") == b"new"
            assert store.get_status(f"{root}/a") is None

    def test_a_replacement_that_is_bound_to_a_version_replaces_no_other(
        self, store: StoreOperations, root: str
    ) -> None:
        if store.capabilities.versions is Versions.NONE:
            pytest.skip("the store has no versions")
        new = self.written(store, f"{root}/a", b"new")
        old = now = self.written(store, f"{root}/b", b"old")
        for data in (b"of another writer", b"old"):
            now = self.written(store, f"{root}/b", data)
            with pytest.raises(FileExistsError):
                store.replace(new.path, now.path, new.version, old=old.version)
            assert [store.get_status(new.path), store.get_status(now.path)] == [new, now]
        store.replace(new.path, now.path, new.version, old=now.version)
        assert store.read(now.path) == b"new"
        assert store.get_status(new.path) is None

    def test_a_replacement_of_a_version_that_is_gone_does_nothing(
        self, store: StoreOperations, root: str
    ) -> None:
        if store.capabilities.versions is Versions.NONE:
            pytest.skip("the store has no versions")
        new = self.written(store, f"{root}/a", b"new")
        old = self.written(store, f"{root}/b", b"old")
        store.delete_file(old.path)
        with pytest.raises((FileExistsError, FileNotFoundError)):
            store.replace(new.path, old.path, old=old.version)
        assert store.get_status(new.path) == new
        assert store.get_status(old.path) is None

    def test_deleting_says_whether_it_was_there(self, store: StoreOperations, root: str) -> None:
        put_file(store, f"{root}/a", b"1")
        put_file(store, f"{root}/d/e/b", b"1")
        put_file(store, f"{root}/dd", b"a name that begins like the directory's")
        assert [store.delete_file(f"{root}/a") for _ in range(2)] == [True, False]
        assert [store.delete_directory(f"{root}/d") for _ in range(2)] == [True, False]
        assert {one.name for one in store.list_status(root)} == {"dd"}

    def test_a_state_is_read_as_it_was_put(self, store: StoreOperations, root: str) -> None:
        assert store.read_state(f"{root}/state") is None
        path, seen = self.first_state(store, root)
        assert store.read_state(path) == seen
        after = store.advance(path, seen, "second.state")
        assert after.text == "second.state"
        assert store.read_state(path) == after

    def test_a_state_is_consumed_by_one_change(self, store: StoreOperations, root: str) -> None:
        path, first = self.first_state(store, root)
        second = store.advance(path, first, "second.state")
        with pytest.raises((FileNotFoundError, FileExistsError)):
            store.advance(path, first, "third.state")
        assert store.read_state(path) == second

    def test_of_many_changes_at_once_one_is_made(self, store: StoreOperations, root: str) -> None:
        path, seen = self.first_state(store, root)
        for turn in range(STATES):

            def change(number: int, seen: StoredState = seen, turn: int = turn) -> StoredState | None:
                with suppress(FileNotFoundError, FileExistsError):
                    return store.advance(path, seen, f"{turn}-{number}.state")
                return None

            with ThreadPoolExecutor(4) as pool:
                made = [after for after in pool.map(change, range(4)) if after is not None]
            assert len(made) == 1
            assert store.read_state(path) == made[0]
            seen = made[0]

    def test_a_first_state_is_put_where_none_is(self, store: StoreOperations, root: str) -> None:
        if store.capabilities.moves_directories:
            pytest.skip("a state comes into place with its directory")
        path, seen = self.first_state(store, root)
        with pytest.raises(FileExistsError):
            store.advance(path, None, "another.state")
        with pytest.raises(FileExistsError):
            delete_version(store, path, f"{store.advance(path, seen, 'second.state').version}0")
        now = store.read_state(path)
        assert now is not None
        assert delete_version(store, path, now.version)
        assert store.read_state(path) is None

    def test_a_deletion_that_is_bound_to_a_version_keeps_any_other(
        self, store: StoreOperations, root: str
    ) -> None:
        if store.capabilities.versions is Versions.NONE:
            pytest.skip("the store has no versions")
        old = self.written(store, f"{root}/a", b"first")
        new = self.written(store, f"{root}/a", b"second")
        with pytest.raises(FileExistsError):
            delete_version(store, old.path, old.version)
        assert store.read(new.path) == b"second"
        assert delete_version(store, new.path, new.version)
        assert store.get_status(new.path) is None
        with suppress(FileExistsError):
            assert not delete_version(store, new.path, new.version)

    def test_what_is_written_once_directories_were_listed_is_not_deleted_with_them(
        self, store: StoreOperations, root: str
    ) -> None:
        if store.capabilities.moves_directories:
            pytest.skip("a directory is taken away before it is deleted")
        for name in ("d/a", "d/e/b", "f/c", "dd/x"):
            put_file(store, f"{root}/{name}", b"old")

        def write_anew() -> bool:
            for name in ("d/a", "f/g"):
                put_file(store, f"{root}/{name}", b"new")
            return True

        both = (f"{root}/d", f"{root}/f")
        assert not delete_listed(store, both, lambda: False)
        assert len(store.list_files(root)) == 4
        assert delete_listed(store, both, write_anew)
        left = {one.path: store.read(one.path) for one in store.list_files(root)}
        assert left == {f"{root}/d/a": b"new", f"{root}/f/g": b"new", f"{root}/dd/x": b"old"}
        assert delete_listed(store, both, lambda: True)
        assert [store.get_status(path) for path in both] == [None, None]
        assert delete_listed(store, both, lambda: True)

    def test_a_directory_is_moved_whole(self, store: StoreOperations, root: str) -> None:
        if not store.capabilities.moves_directories:
            pytest.skip("the store has no directories that it could move")
        before = self.written(store, f"{root}/d/a/b", b"content")
        put_file(store, f"{root}/dd/c", b"a name that begins like the directory's")
        move_directory(store, f"{root}/d", f"{root}/e")
        after = store.get_status(f"{root}/e/a/b")
        assert after is not None
        assert (after.size, after.etag, after.file_id) == (before.size, before.etag, before.file_id)
        assert store.get_status(f"{root}/d") is None
        assert store.read(f"{root}/dd/c")
        with pytest.raises(FileNotFoundError):
            move_directory(store, f"{root}/d", f"{root}/f")

    def test_a_directory_is_never_moved_over_or_into_another(
        self, store: StoreOperations, root: str
    ) -> None:
        if not store.capabilities.moves_directories:
            pytest.skip("the store has no directories that it could move")
        put_file(store, f"{root}/d/a", b"new")
        put_file(store, f"{root}/e/b", b"old")
        with pytest.raises(FileExistsError):
            move_directory(store, f"{root}/d", f"{root}/e")
        assert [one.name for one in store.list_status(f"{root}/d")] == ["a"]
        assert [one.name for one in store.list_status(f"{root}/e")] == ["b"]

    def test_a_file_is_put_aside_in_one_step_and_never_where_no_directory_is(
        self, store: StoreOperations, root: str
    ) -> None:
        if not store.capabilities.sets_aside:
            pytest.skip("the store deletes files where they are")
        put_file(store, f"{root}/a", b"old")
        with pytest.raises(FileNotFoundError):
            set_aside(store, f"{root}/a", f"{root}/aside/0")
        assert store.read(f"{root}/a") == b"old"
        assert store.get_status(f"{root}/aside") is None
        store.mkdirs(f"{root}/aside")
        set_aside(store, f"{root}/a", f"{root}/aside/0")
        assert store.get_status(f"{root}/a") is None
        assert store.read(f"{root}/aside/0") == b"old"
        with pytest.raises(FileNotFoundError):
            set_aside(store, f"{root}/a", f"{root}/aside/1")

    def first_state(self, store: StoreOperations, root: str) -> tuple[str, StoredState]:
        """Create a state as set-up does; return its path and the state."""
        if not store.capabilities.moves_directories:
            return f"{root}/state", store.advance(f"{root}/state", None, "first.state")
        store.mkdirs(f"{root}/new")
        store.write(f"{root}/new/first.state", b"")
        move_directory(store, f"{root}/new", f"{root}/state")
        return f"{root}/state", StoredState("first.state")

    def test_only_an_empty_directory_is_removed(self, store: StoreOperations, root: str) -> None:
        put_file(store, f"{root}/d/a", b"1")
        assert not store.remove_empty_directory(f"{root}/d")
        assert store.read(f"{root}/d/a") == b"1"
        store.mkdirs(f"{root}/e")
        assert store.remove_empty_directory(f"{root}/e")
        assert not store.remove_empty_directory(f"{root}/e")
        assert store.get_status(f"{root}/e") is None

    def test_of_many_renames_to_one_name_one_wins(self, store: StoreOperations, root: str) -> None:
        sources = [f"{root}/source-{number}" for number in range(8)]
        for source in sources:
            put_file(store, source, source.encode())

        def rename(source: str) -> bool:
            with suppress(FileExistsError):
                store.rename(source, f"{root}/dest")
                return True
            return False

        with ThreadPoolExecutor(len(sources)) as pool:
            won = [source for source, did in zip(sources, pool.map(rename, sources), strict=True) if did]
        assert len(won) == 1
        assert store.read(f"{root}/dest") == won[0].encode()
        assert {one.path for one in store.list_status(root)} == {*sources, f"{root}/dest"} - set(won)

    @pytest.mark.parametrize("name", NAMES)
    def test_any_name_is_kept(self, store: StoreOperations, root: str, name: str) -> None:
        if name in self.refused_names:
            pytest.skip("the store itself has no such names")
        before = self.written(store, f"{root}/from {name}/{name}", name.encode())
        store.mkdirs(f"{root}/to {name}")
        store.rename(before.path, f"{root}/to {name}/{name}", before.version)
        (after,) = store.list_status(f"{root}/to {name}")
        assert (after.path, after.is_directory) == (f"{root}/to {name}/{name}", False)
        assert store.read(after.path) == name.encode()
        assert store.get_status(before.path) is None
        assert store.delete_directory(f"{root}/to {name}")

    def test_the_longest_path_can_be_renamed_and_a_longer_one_is_refused_first(
        self, store: StoreOperations, root: str
    ) -> None:
        limits = store.capabilities
        job = new_job_attempt(join(root, "t"), "j", 0)
        attempt = job.task_attempt("attempt_j_m_000000_0")
        longest = _name_of(limits.max_path_length - len(attempt) - 1, limits.max_name_length)
        write_job(store, job, {0: {longest: b"1"}})
        assert run_commit(store, job).outcome is Outcome.COMMITTED
        assert visible_files(store, job.destination) == {longest: b"1"}

    def test_a_destination_that_is_too_long_is_refused_before_anything_moves(
        self, store: StoreOperations, root: str
    ) -> None:
        job = new_job_attempt(join(root, "t"), "j", 0)
        write_job(store, job, {0: {"a": b"1"}})
        renamed = "b" * (store.capabilities.max_name_length + 1)
        manifest = store.list_files(job.manifests)[0]
        store.write(
            manifest.path, store.read(manifest.path).replace(b'/t/a"', f'/t/{renamed}"'.encode())
        )
        with pytest.raises(PreflightError, match="longer than the store allows"):
            run_commit(store, job)
        assert visible_files(store, job.destination) == {}

    def test_a_job_is_committed(self, store: StoreOperations, root: str) -> None:
        job = new_job_attempt(join(root, "table"), "job_1", 0)
        tasks = {task: {f"p={n}/f-{task}": b"%d" % task for n in range(3)} for task in range(3)}
        write_job(store, job, tasks)
        report = run_commit(store, job, CommitOptions(validate=True))
        assert (report.outcome, report.moved, report.validated) == (Outcome.COMMITTED, 9, 9)
        expected = {name: data for files in tasks.values() for name, data in files.items()}
        assert visible_files(store, job.destination) == expected
        assert store.get_status(job.temporary) is None

    def test_a_file_in_the_way_of_a_directory_is_removed_where_it_may_be(
        self, store: StoreOperations, root: str
    ) -> None:
        capabilities = store.capabilities
        is_safe = capabilities.sets_aside or capabilities.versions is not Versions.NONE
        if not (capabilities.has_directories and is_safe):
            pytest.skip("nothing is in a directory's way, or it is refused")
        job = new_job_attempt(join(root, "table"), "job_1", 0)
        write_job(store, job, {0: {"p=1/a": b"1"}})
        put_file(store, f"{job.destination}/p=1", b"in the way")
        with pytest.raises(FileNotFoundError):  # who comes late finds no place for it
            store.rename(f"{job.destination}/p=1", f"{root}/aside/0")
        run_commit(store, job, CommitOptions(delete_blocking_files=True))
        assert visible_files(store, job.destination) == {"p=1/a": b"1"}

    def test_a_commit_that_died_at_any_request_is_finished(
        self, store: StoreOperations, root: str, crash_stride: int
    ) -> None:
        tasks = {0: {"p=1/a": b"a", "p=2/b": b"bb"}, 1: {"p=1/c": b"ccc"}}
        calls: list[StoreCall] = []
        for crash in range(1, 100, crash_stride):
            job = new_job_attempt(join(root, f"table-{crash}"), "job_1", 0)
            write_job(store, job, tasks)
            try:
                run_commit(WrappedStore(store, before=calls.append, after=crash_at(crash)), job)
            except SimulatedCrash:
                report = run_commit(store, job)
            else:
                break
            assert report.outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
            found = visible_files(store, job.destination)
            assert found == {"p=1/a": b"a", "p=2/b": b"bb", "p=1/c": b"ccc"}, crash
            assert store.get_status(job.temporary) is None, crash
        assert len(calls) > 15

    def test_renames_survive_requests_and_answers_that_are_lost(
        self, store: StoreOperations, root: str
    ) -> None:
        files = {f"p={n % 7}/f-{n}": b"content %d" % n for n in range(self.faulty_renames)}
        job = new_job_attempt(join(root, "table"), "job_1", 0)
        write_job(store, job, {0: files})
        faults = _Faults(Random(7))  # noqa: S311 - repeatable, not secret
        report = run_commit(WrappedStore(store, before=faults.before, after=faults.after), job)
        print(f"{len(files)} files, {faults.lost} answers lost, {report.moved} moved, {report.proved}")
        assert report.outcome is Outcome.COMMITTED
        assert report.moved + sum(report.proved.values()) == len(files)
        assert visible_files(store, job.destination) == files
        assert faults.lost >= 0.02 * len(files)

    def written(self, store: StoreOperations, path: str, data: bytes) -> FileStatus:
        """Write a file and return its status."""
        put_file(store, path, data)
        status = store.get_status(path)
        assert status is not None
        return status


class _Faults:
    """A share of `FAULT_RATE` of the renames fails: half do not arrive, half lose their answer."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.lost = 0

    def before(self, call: StoreCall) -> None:
        self._fail(call, "the request was lost")

    def after(self, call: StoreCall) -> None:
        try:
            self._fail(call, "the answer was lost")
        except StoreUnavailableError:
            self.lost += 1
            raise

    def _fail(self, call: StoreCall, what: str) -> None:
        if call.operation == "rename" and self._random.random() < FAULT_RATE / 2:
            raise StoreUnavailableError(call.paths[0], what)


def _name_of(length: int, longest: int) -> str:
    """A relative path of `length` bytes, whose elements are at most `longest` bytes."""

    def elements(left: int) -> Iterator[str]:
        while left > 0:
            size = min(left, longest, 200)
            if left - size == 1:
                size -= 1
            yield "n" * size
            left -= size + 1

    return "/".join(elements(length))
