"""Which job attempt is meant, how far it got, and about how many files it has."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.errors import (
    AmbiguousJobError,
    CommitStateUnknownError,
    JobGoneError,
    JobNotFoundError,
    PathError,
)
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.listing import (
    find_documented_attempt,
    jobs_at,
    list_attempts,
    list_temporary,
)
from ray_committer.job_files.manifests import estimate_files
from ray_committer.job_files.read_job import read_job
from ray_committer.job_files.success import is_noted, read_success
from ray_committer.jobs.find_attempt import find_job_attempt
from ray_committer.protocol.paths import (
    DOCUMENTED_PREFIX,
    JobAttempt,
    ancestors,
    join,
    new_job_attempt,
    parent,
)
from ray_committer.protocol.state import Phase
from ray_committer.protocol.success import SuccessData
from ray_committer.stages.save_success_file import save_success_file, write_success_file
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import FileStatus, StoredState
from ray_committer.testing import Identity, MemoryStore, StoreCall, WrappedStore, run_commit, write_job
from ray_committer.testing.harness import put_file
from tests.stages.support import (
    JOB,
    OTHER_JOB,
    at,
    bring_to,
    closed,
    context,
    record_of,
    requests,
    seen_in,
    with_job,
)


def task(number: int, files: int) -> dict[str, bytes]:
    return {f"part-{number:04d}-{file:04d}": b"x" for file in range(files)}


@pytest.mark.parametrize("files", [[1], [7], [100] * 20, [0, 50, 3], [200, 1, 1, 1], range(1, 40)])
def test_the_estimate_is_near_and_costs_two_requests(files: list[int]):
    store, calls = MemoryStore(), list[StoreCall]()
    write_job(store, JOB, {number: task(number, count) for number, count in enumerate(files)})
    found = estimate_files(WrappedStore(store, before=calls.append), JOB)
    assert 0.9 * sum(files) <= found <= 1.1 * sum(files) + 2 * len(files)
    assert [call.operation for call in calls] == ["list_status", "read"]


@pytest.mark.parametrize("tasks", [{}, {0: {}}, {0: {}, 1: {}}])
def test_a_job_without_files_has_none(tasks: dict[int, dict[str, bytes]]):
    store = with_job(tasks)
    assert estimate_files(store, JOB) == 0


def test_a_job_that_is_not_there_has_no_files():
    store = MemoryStore()
    assert estimate_files(store, JOB) == 0
    store.write("/table", b"a file")
    assert estimate_files(store, JOB) == 0


def test_only_manifests_count():
    store = with_job({0: task(0, 10)})
    store.write(f"{JOB.manifests}/task_1_m_000009-manifest.json.tmp", b"x" * 100_000)
    assert estimate_files(store, JOB) == 10


def test_an_empty_manifest_is_for_others_to_refuse():
    store = with_job()
    store.write(JOB.manifest("task_1_m_000000"), b"")
    assert estimate_files(store, JOB) == 0


def test_a_manifest_that_vanishes_meanwhile_is_no_error():
    store = with_job({0: task(0, 10)})

    def vanish(call: StoreCall) -> None:
        if call.operation == "read":
            store.delete_directory(JOB.directory)

    assert estimate_files(WrappedStore(store, before=vanish), JOB) == 0


def test_a_marker_of_another_job_proves_nothing(store, write_job, dest: Path):
    run_commit(store, write_job({0: {"a": "x"}}))
    with pytest.raises(JobGoneError, match="holds nothing of job job_2") as caught:
        ray_committer.commit_job(str(dest), "job_2")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("is_marked", [True, False])
def test_no_other_job_answers_for_one_that_is_recorded_and_taken_away(
    store, write_job, dest: Path, tree, is_marked: bool
):
    first = write_job({0: {"a": "x"}})
    job = write_job({0: {"b": "y"}}, job_id="job_2")
    ray_committer.record_job(str(dest), "job_2")
    run_commit(store, first, CommitOptions(mark_success=is_marked))
    assert Path(job.success).exists() is is_marked
    gone = Path(job.gone("0123").directory)
    os.rename(job.directory, gone)
    Path(job.job_directory).rmdir()
    with pytest.raises(
        CommitStateUnknownError, match=f"job_2.*move it back to {job.directory}"
    ) as caught:
        ray_committer.commit_job(str(dest))
    assert caught.value.exit_code == 3
    Path(job.job_directory).mkdir()
    os.rename(gone, job.directory)
    assert ray_committer.commit_job(str(dest)).moved == 1
    assert tree() == {"a": "x", "b": "y"}


def test_two_jobs_or_two_attempts_must_be_told_apart(write_job, dest: Path, store, tree):
    write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"b": "x"}}, job_id="job_2")
    with pytest.raises(AmbiguousJobError, match=r"job_1, job_2.*--job-id") as caught:
        ray_committer.commit_job(str(dest))
    assert caught.value.exit_code == 2
    setup_job(store, new_job_attempt(str(dest), "job_2", 1))
    with pytest.raises(AmbiguousJobError, match="--attempt"):
        ray_committer.commit_job(str(dest), "job_2")
    assert tree() == {}
    options = CommitOptions(job_attempt=0)
    ray_committer.abort_job(str(dest), "job_2", options=CommitOptions(job_attempt=1))
    assert ray_committer.commit_job(str(dest), "job_2", options=options).moved == 1


def test_attempt_directories_are_numbers_however_they_are_padded(write_job, dest: Path):
    job = write_job({0: {}})
    os.rename(job.directory, Path(job.job_directory) / "007")
    assert ray_committer.list_jobs(str(dest))[0].job_attempt == 7


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.RECORDED])
def test_an_older_attempt_is_aborted_beside_a_newer_one(write_job, dest: Path, store, phase: Phase):
    older = write_job({0: {"a": "x"}})
    newer = new_job_attempt(str(dest), "job_1", 1)
    setup_job(store, newer)
    bring_to(store, phase, job=newer)
    options = CommitOptions(job_attempt=0)
    assert ray_committer.plan_abort(str(dest), "job_1", options=options).files == 1
    assert ray_committer.abort_job(str(dest), "job_1", options=options)
    assert not Path(older.directory).exists()
    assert seen_in(store, newer).phase is phase


def test_a_job_that_ends_while_jobs_are_listed_is_passed_over(store, write_job, dest: Path):
    write_job({0: {"a": "x"}}, job_id="job_1")
    other = write_job({0: {"b": "y"}}, job_id="job_2")

    def end(call: StoreCall) -> None:
        if call.paths == (other.job_directory,):
            shutil.rmtree(other.job_directory, ignore_errors=True)

    found = jobs_at(WrappedStore(store, before=end), str(dest))
    assert [one.job.job_id for one in found] == ["job_1"]


@pytest.mark.parametrize("job_id", ["", ".", "..", "a/b", "/etc"])
def test_a_job_id_that_is_no_name_is_refused(dest: Path, job_id: str):
    (dest / "00").mkdir(parents=True)
    (dest / "_temporary").mkdir()
    with pytest.raises(PathError, match="job id"):
        ray_committer.abort_job(str(dest), job_id, options=CommitOptions(job_attempt=0))
    assert (dest / "00").is_dir()


def left(*names: str) -> MemoryStore:
    """A job attempt without a state: what Hadoop's own committer sets up, or a clean-up leaves."""
    store = MemoryStore()
    for name in names:
        store.mkdirs(f"{JOB.directory}/{name}")
    return store


def set_up(*jobs: JobAttempt) -> MemoryStore:
    store = MemoryStore()
    for one in jobs:
        setup_job(store, one)
    return store


def a_file(path: str) -> MemoryStore:
    store = MemoryStore()
    put_file(store, path, b"")
    return store


NOWHERE = JobStatus(JOB, exists=False)


@pytest.mark.parametrize(
    ("new", "state"),
    [
        (MemoryStore, NOWHERE),
        (lambda: a_file("/table"), NOWHERE),
        (lambda: a_file(JOB.directory), NOWHERE),
        (lambda: left("tasks"), JobStatus(JOB)),
        (lambda: left("manifests"), JobStatus(JOB, has_manifests=True)),
        (lambda: left("frozen", "tasks"), JobStatus(JOB, has_manifests=True)),
    ],
)
def test_without_a_state_one_listing_shows_how_far_an_attempt_is(
    new: Callable[[], MemoryStore], state: JobStatus
):
    assert read_job(new(), JOB) == state
    assert state.is_remnant is not state.has_manifests
    cost = requests(new(), lambda one: read_job(one, JOB))
    assert cost == Counter(read_state=1, list_status=1)


@pytest.mark.parametrize("phase", list(Phase))
def test_the_state_of_an_attempt_says_how_far_it_is_in_one_request(phase: Phase):
    store = set_up(JOB)
    bring_to(store, phase)
    found = read_job(store, JOB)
    assert found == JobStatus(JOB, seen=read_state(store, JOB), has_manifests=True)
    assert (found.phase, found.is_remnant) == (phase, False)
    assert found.is_decided is (phase not in (Phase.OPEN, Phase.DECLARED))
    assert requests(store, lambda one: read_job(one, JOB)) == Counter(read_state=1)


def test_an_attempt_that_cannot_be_listed_is_not_taken_for_none():
    store = left("manifests", "tasks")
    denied = WrappedStore(store, before=at("list_status", PermissionError("denied")))
    for look in (
        lambda: read_job(denied, JOB),
        lambda: list_temporary(denied, "/table"),
        lambda: estimate_files(denied, JOB),
    ):
        with pytest.raises(PermissionError):
            look()


def test_a_job_that_is_named_is_found_beside_one_that_may_not_be_read():
    store = set_up(JOB)
    store.mkdirs(OTHER_JOB.manifests)
    beside = closed(store, OTHER_JOB.job_directory)
    assert find_job_attempt(beside, "/table", JOB.job_id, None) == JOB
    with pytest.raises(PermissionError, match=OTHER_JOB.job_directory):
        find_job_attempt(beside, "/table", OTHER_JOB.job_id, None)


def test_which_of_two_jobs_is_meant_is_not_guessed_where_one_may_not_be_read():
    store = set_up(JOB)
    store.mkdirs(OTHER_JOB.manifests)
    with pytest.raises(AmbiguousJobError, match=r"job_1, job_2\); name one with --job-id"):
        find_job_attempt(closed(store, OTHER_JOB.job_directory), "/table", None, None)
    store.delete_directory(JOB.job_directory)
    with pytest.raises(PermissionError, match=OTHER_JOB.job_directory):
        find_job_attempt(closed(store, OTHER_JOB.job_directory), "/table", None, None)


def test_attempts_that_may_not_be_read_are_not_taken_for_none():
    store = set_up(JOB)
    with pytest.raises(PermissionError, match=JOB.job_directory):
        list_attempts(closed(store, JOB.job_directory), JOB)
    documented = join(JOB.temporary, DOCUMENTED_PREFIX + JOB.job_id)
    store.mkdirs(join(documented, "00"))
    with pytest.raises(PermissionError, match=documented):
        find_documented_attempt(closed(store, documented), JOB)


def test_a_success_file_that_may_not_be_read_tells_of_no_job():
    store = set_up(JOB)
    store.write(JOB.success, b"another user's")
    assert not is_noted(closed(store, JOB.success), JOB)


@pytest.mark.parametrize("jobs", [0, 1, 5])
def test_jobs_are_found_by_one_listing_and_one_per_job(jobs: int):
    wanted = [new_job_attempt("/table", f"job_{number}", number) for number in range(jobs)]
    store = set_up(*wanted)
    found = jobs_at(store, "/table")
    assert [one.job for one in found] == wanted
    cost = requests(store, lambda one: jobs_at(one, "/table"))
    assert cost == Counter(list_status=1 + jobs)


def test_an_attempt_that_is_named_in_full_costs_no_request():
    def find(store) -> None:
        assert find_job_attempt(store, "/table", "job_1", 0) == JOB

    assert requests(MemoryStore(), find) == Counter()


@pytest.mark.parametrize(("job_id", "number"), [(None, None), ("job_1", None), (None, 0)])
def test_the_only_attempt_of_the_only_job_needs_no_name(job_id: str | None, number: int | None):
    assert find_job_attempt(set_up(JOB), "/table", job_id, number) == JOB


@pytest.mark.parametrize(
    ("new", "job_id", "text"),
    [
        (MemoryStore, None, "/table: does not exist"),
        (lambda: a_file("/table"), None, "/table: is a file"),
        (lambda: a_file("/table/a"), None, "holds no job to commit"),
        (lambda: a_file("/table/a"), "job_9", "holds nothing of job job_9 to commit"),
        (lambda: set_up(JOB, OTHER_JOB), "job_9", "The jobs that are there: job_1, job_2"),
    ],
)
def test_a_job_that_is_not_there_is_an_error_that_names_the_others(new, job_id: str | None, text: str):
    error = JobGoneError if job_id is not None else JobNotFoundError
    with pytest.raises(error, match=text):
        find_job_attempt(new(), "/table", job_id, None)


def test_the_directory_name_of_hadoops_documentation_is_known():
    documented = JobAttempt("/table", "job_1", 0, "/table/_temporary/manifest_job_1/0")
    assert find_documented_attempt(set_up(documented), JOB) == documented
    assert find_documented_attempt(set_up(JOB), JOB) is None


def test_only_a_marker_that_names_its_job_is_read():
    store = MemoryStore()
    assert read_success(store, "/table") is None
    put_file(store, JOB.success, b"")
    assert read_success(store, "/table") is None
    setup_job(store, JOB)
    found = context(store)
    save_success_file(found, write_success_file(found, record_of(), []))
    success = read_success(store, "/table")
    assert isinstance(success, SuccessData)
    assert success.job_id == "job_1"


def test_the_marker_of_one_attempt_tells_nothing_of_another():
    """The other may have been aborted; only one that tells no attempt, as Hadoop's, may be of each."""
    store = with_job({0: {"a": b"x"}})
    run_commit(store, JOB)
    second = new_job_attempt("/table", JOB.job_id, 1)
    assert is_noted(store, JOB)
    assert not is_noted(store, second)
    with pytest.raises(JobGoneError):
        run_commit(store, second)
    content = json.loads(store.read(JOB.success))
    del content["diagnostics"]["attempt"]
    store.write(JOB.success, json.dumps(content).encode())
    assert is_noted(store, second)


class ShowsWhatIsGone(MemoryStore):
    """A flat store on a server that keeps objects as files: it lists directories that are empty."""

    def __init__(self) -> None:
        super().__init__(identity=Identity.GENERATION, real_directories=False)
        self.ever: set[str] = set()

    def write(self, path: str, data: bytes) -> None:
        super().write(path, data)
        self.ever.update(ancestors(path, "/"))

    def advance(self, path: str, seen: StoredState | None, text: str) -> StoredState:
        self.ever.update(ancestors(path, "/"))
        return super().advance(path, seen, text)

    def list_status(self, path: str) -> list[FileStatus]:
        gone = {one for one in self.ever if parent(one) == path}
        try:
            found = super().list_status(path)
        except FileNotFoundError:
            if not gone:
                raise
            found = []
        missing = sorted(gone - {one.path for one in found})
        return [*found, *(FileStatus(one, is_directory=True) for one in missing)]


def test_a_job_is_not_there_if_only_its_directories_are_listed():
    store, job = ShowsWhatIsGone(), new_job_attempt("/table", "job_1", 0)
    for number in range(2):
        write_job(store, job, {0: {f"a{number}": b"1"}})
        assert [one.job.job_id for one in jobs_at(store, "/table")] == ["job_1"]
        run_commit(store, job)
        assert "/table/_temporary/job_1" in [one.path for one in store.list_status("/table/_temporary")]
        assert not read_job(store, job).exists
        assert jobs_at(store, "/table") == []
