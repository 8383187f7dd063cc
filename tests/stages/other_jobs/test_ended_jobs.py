"""What is said and done of a job that is over, of which processes that slept have left something."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ray_committer import Outcome
from ray_committer.errors import CommitAbortedError, JobGoneError
from ray_committer.job_files.job_state import adopt_state
from ray_committer.job_files.read_job import read_job, read_job_and_manifests, state_of_job
from ray_committer.protocol.manifest import STAMP, TaskManifest, encode_manifest
from ray_committer.protocol.paths import join
from ray_committer.protocol.state import Phase
from ray_committer.stages.commit_job import commit_job
from ray_committer.testing import MemoryStore, WrappedStore, run_abort, run_commit, write_job
from ray_committer.testing.harness import run_undo
from tests.stages.support import (
    JOB,
    OTHER_JOB,
    MakesParentsOfWrites,
    context,
    do_at,
    each_crash,
    phase_of,
    requests,
    with_job,
)

MANIFEST = "task_1-manifest.json"
KINDS: dict[str, Callable[[], MemoryStore]] = {
    "makes parents": MakesParentsOfWrites,
    "flat": lambda: MemoryStore(real_directories=False),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def manifest(stamp: str | None) -> bytes:
    extra = {} if stamp is None else {STAMP: stamp}
    return encode_manifest(TaskManifest(job_id=JOB.job_id, files=[], extra_data=extra))


def late_task(store: MemoryStore) -> None:
    store.write(join(JOB.tasks, "attempt_1/part-0"), b"rows")
    store.write(join(JOB.manifests, MANIFEST), manifest("stamp"))


def late_committer(store: MemoryStore) -> None:
    """It writes a pack of the manifests, which it has read before, and declares the job."""
    store.write(join(JOB.packs, "nonce-0"), b"a pack")
    store.write(JOB.content("nonce"), b"a declaration")


LATE = [
    pytest.param(kind, late, id=f"{name}-{late.__name__}")
    for name, kind in KINDS.items()
    for late in (late_task, late_committer)
    if (name, late) != ("makes parents", late_committer)  # there they are renamed, if they are there
]


def others_of(store: MemoryStore) -> dict[str, bytes]:
    return {path: data for path, data in store.files().items() if not path.startswith(JOB.directory)}


@pytest.mark.parametrize(("kind", "late"), LATE)
def test_what_was_left_of_an_aborted_job_is_not_committed_and_the_command_that_is_named_deletes_it(
    kind: Callable[[], MemoryStore], late: Callable[[MemoryStore], None]
):
    store = with_job({0: {"b": b"y"}}, store=kind(), job=OTHER_JOB)
    write_job(store, JOB, {0: {"a": b"x"}})
    run_abort(store, JOB)
    late(store)
    others, found = others_of(store), context(store)
    for _ in range(2):
        with pytest.raises(JobGoneError, match="holds nothing of job job_1"):
            commit_job(found, read_job_and_manifests(store, JOB))
    assert read_job(store, JOB).seen is None  # nobody was made to believe in a job
    (notice,) = set(found.journal.notices)
    assert notice.endswith("delete it with: ray-committer abort memory://test/table --job-id job_1")
    assert run_abort(store, JOB) is False
    assert store.files() == others


@pytest.mark.parametrize(("kind", "late"), LATE)
def test_what_was_left_of_a_committed_job_is_deleted_and_its_files_are_not(
    kind: Callable[[], MemoryStore], late: Callable[[MemoryStore], None]
):
    store = with_job({0: {"a": b"x"}}, store=kind())
    run_commit(store, JOB)
    committed = store.files()
    late(store)
    assert run_commit(store, JOB).outcome is Outcome.ALREADY_COMMITTED
    assert run_abort(store, JOB) is False
    assert store.files() == committed


@pytest.mark.parametrize("end", [run_abort, run_undo])
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize(("kind", "late"), LATE)
def test_an_abort_of_what_was_left_of_a_committed_job_does_not_make_it_one_that_was_aborted(
    kind: Callable[[], MemoryStore],
    late: Callable[[MemoryStore], None],
    is_last: bool,
    end: Callable[..., bool],
):
    """The abort is killed; `_SUCCESS` is this job's, or another's."""

    def new() -> MemoryStore:
        store = with_job({0: {"a": b"x"}}, store=kind())
        run_commit(store, JOB)
        if not is_last:
            run_commit(with_job({0: {"b": b"y"}}, store=store, job=OTHER_JOB), OTHER_JOB)
        late(store)
        return store

    decided = 0
    for store in each_crash(new, lambda one: run_abort(one, JOB)):
        decided += phase_of(store) is Phase.ABORTED
        assert state_of_job(store, JOB) is None
        assert end(store.copy(), JOB) is False
        if is_last:
            assert run_commit(store, JOB).outcome is Outcome.ALREADY_COMMITTED
        else:
            with pytest.raises(JobGoneError):
                run_commit(store, JOB)
        assert end(store, JOB) is False
        assert others_of(store).keys() >= others_of(new()).keys()
        assert store.list_files(JOB.directory) == []
    assert (decided > 0) is (late is late_task)


@kinds
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_killed_abort_says_nothing_with_manifests_that_just_go_or_are_not_there_yet(
    kind: Callable[[], MemoryStore], is_empty: bool
):
    """Another process ends the abort, or a late task has made only the directory for its manifest."""
    store = with_job({0: {"a": b"x"}}, store=kind())
    run_commit(store, JOB)
    store.mkdirs(JOB.manifests)
    if not is_empty:
        store.write(join(JOB.manifests, MANIFEST), manifest("stamp"))
    adopt_state(store, JOB, Phase.ABORTED)
    goes = do_at("read", lambda: store.delete_directory(JOB.manifests), MANIFEST)
    assert state_of_job(WrappedStore(store, before=goes), JOB) is None
    assert run_commit(store, JOB).outcome is Outcome.ALREADY_COMMITTED


@kinds
def test_a_killed_abort_of_a_job_that_hadoops_committer_set_up_says_that_it_is_aborted(
    kind: Callable[[], MemoryStore],
):
    store = kind()
    store.write(join(JOB.manifests, MANIFEST), manifest(None))
    adopt_state(store, JOB, Phase.ABORTED)
    with pytest.raises(CommitAbortedError):
        run_commit(store, JOB)
    assert run_abort(store, JOB) is True


@kinds
@pytest.mark.parametrize("stamps", [[None], [None, "stamp"], ["stamp", None]])
def test_a_job_that_hadoops_own_committer_set_up_is_not_taken_for_something_left(
    kind: Callable[[], MemoryStore], stamps: list[str | None]
):
    store = kind()
    for number, stamp in enumerate(stamps):
        store.write(join(JOB.manifests, f"task_{number}-manifest.json"), manifest(stamp))
    assert not read_job_and_manifests(store, JOB).is_remnant
    store.mkdirs(OTHER_JOB.manifests)  # none of its tasks has ended
    assert not read_job_and_manifests(store, OTHER_JOB).is_remnant


def test_of_many_manifests_one_tells_that_hadoops_own_committer_set_the_job_up():
    store = MemoryStore()
    store.mkdirs(JOB.manifests)
    for number in range(5):
        store.write(join(JOB.manifests, f"task_{number}-manifest.json"), manifest(None))
    assert requests(store, lambda one: read_job_and_manifests(one, JOB))["read"] == 1
