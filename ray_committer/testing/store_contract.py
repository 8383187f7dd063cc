"""The requirements of every store, as one test class: subclass it, and define `store` and `root`.

Commits to a store that passes are safe; a store that fails would lose or double files. The stores of
this package are tested with it, and you can also test your own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from operator import attrgetter
from random import Random

import pytest

from ray_committer.errors import CommitConflictError, PreflightError, StoreUnavailableError
from ray_committer.options import CommitOptions
from ray_committer.promises.all import PROMISES
from ray_committer.promises.directories import MOVES_WHOLE_DIRECTORIES
from ray_committer.promises.promise import OwnDirectory, Promise, WeakPromiseError
from ray_committer.promises.renames import ONE_WINS
from ray_committer.promises.states import CHANGES_ONCE
from ray_committer.promises.uploads import ONE_COMPLETES
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.paths import join, new_job_attempt, parent
from ray_committer.stores.base import StoreOperations, missing_operations
from ray_committer.stores.uploads import pending_uploads
from ray_committer.testing.faults import SimulatedCrash, StoreCall, WrappedStore, crash_at
from ray_committer.testing.harness import put_file, run_commit, visible_files, write_job
from ray_committer.work.entries import longest_source

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
RACES = 7


class StoreContract:
    """The promises of `StoreOperations`, each as a test, and commits of whole jobs.

    `refused_names` are names that the store itself forbids; `faulty_renames` files are renamed under
    faults. The fixture `crash_stride` is the distance between the requests at which a commit dies.
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

    def test_the_store_has_all_operations_of_its_kind(self, store: StoreOperations) -> None:
        assert missing_operations(store) == []

    @pytest.mark.parametrize("promise", PROMISES, ids=attrgetter("name"))
    def test_the_store_keeps_its_promise(
        self, store: StoreOperations, root: str, promise: Promise
    ) -> None:
        unmet = promise.unmet(store)
        if unmet is not None:
            pytest.skip(unmet.otherwise)
        with suppress(WeakPromiseError):
            promise.check(OwnDirectory(store, root))

    @pytest.mark.parametrize(
        "promise",
        [ONE_WINS, ONE_COMPLETES, CHANGES_ONCE, MOVES_WHOLE_DIRECTORIES],
        ids=attrgetter("name"),
    )
    def test_the_store_keeps_its_promise_every_time(
        self, store: StoreOperations, root: str, promise: Promise
    ) -> None:
        if (unmet := promise.unmet(store)) is not None:
            pytest.skip(unmet.otherwise)
        for race in range(RACES):
            store.mkdirs(f"{root}/{race}")
            promise.check(OwnDirectory(store, f"{root}/{race}"))

    @pytest.mark.parametrize("name", NAMES)
    def test_any_name_is_kept(self, store: StoreOperations, root: str, name: str) -> None:
        if name in self.refused_names:
            pytest.skip("the store itself has no such names")
        before = OwnDirectory(store, root).file(f"from {name}/{name}", name.encode())
        if store.has(StoreOperations.publish):
            _complete(store, f"{root}/to {name}/{name}", name.encode())
            assert store.delete_file(before.path)
        else:
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
        longest = _name_of(longest_source(store) - len(attempt.encode()) - 1, limits.max_name_length)
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

    def test_a_file_in_the_place_of_a_directory_is_refused_and_kept(
        self, store: StoreOperations, root: str
    ) -> None:
        if not store.capabilities.has_directories:
            pytest.skip("a name can be a file and a directory")
        job = new_job_attempt(join(root, "table"), "job_1", 0)
        write_job(store, job, {0: {"p=1/a": b"1"}})
        put_file(store, f"{job.destination}/p=1", b"in the way")
        with pytest.raises(CommitConflictError, match="p=1: is a file where the job needs a directory"):
            run_commit(store, job)
        assert visible_files(store, job.destination) == {"p=1": b"in the way"}

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
            visible = visible_files(store, job.destination)
            assert visible == {"p=1/a": b"a", "p=2/b": b"bb", "p=1/c": b"ccc"}, crash
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
        if call.operation in ("rename", "publish") and self._random.random() < FAULT_RATE / 2:
            raise StoreUnavailableError(call.paths[0], what)


def _complete(store: StoreOperations, path: str, data: bytes) -> None:
    """Make a file by an upload."""
    upload = store.begin_upload(path, None)
    part = store.put_part(path, upload, 1, data)
    assert [upload.path for upload in pending_uploads(store, parent(path))] == [path]
    assert store.publish(CompleteUpload(path, upload, (part,))) is Answer.DONE


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
