"""Jobs of Hadoop's S3A committer that are committed here, on a strict S3 without a network.

`tests/integration/s3a/test_adopted_jobs.py` does the same with the real S3A client.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress

import msgspec
import pytest

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import (
    AmbiguousJobError,
    CommitAbortedError,
    CommitConflictError,
    IncompleteJobError,
    JobGoneError,
    ManifestError,
)
from ray_committer.job_files.job_state import read_state
from ray_committer.job_files.listing import find_s3a
from ray_committer.job_files.read_job import read_job
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.magic_paths import MagicJob
from ray_committer.protocol.manifest import FileEntry, TaskManifest
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.pendingsets import decode_pendingset
from ray_committer.protocol.success import SUCCESS_NAME, SuccessData
from ray_committer.protocol.uri import Location, format_uri
from ray_committer.testing import MemoryStore, SimulatedCrash, visible_files
from tests.opening import opening
from tests.pendingsets import encode_pendingset, pendingset_path
from tests.servers.fake_s3 import FakeS3, Hook, Object, direct_store

pytestmark = pytest.mark.usefixtures("no_pauses")

UUID = "0b0c7a4e-7b52-4f2e-9f0a-1c2d3e4f5a6b"
TABLE = "/t/table öne"
URL = "s3a://bucket/t/table%20öne"
MAGIC = MagicJob("bucket", TABLE, UUID)
OLD, NEW = MAGIC.directories
JOB = new_job_attempt(TABLE, UUID, 0)
TASKS: dict[int, dict[str, bytes]] = {
    0: {"p=1/a": b"a", "p=é b/100%": b"bb"},
    1: {"p=1/c+d&e": b"ccc"},
    2: {},
}
FILES = {name: data for files in TASKS.values() for name, data in files.items()}


def upload(fake: FakeS3, path: str, data: bytes) -> FileEntry:
    store = direct_store(fake)
    number = store.begin_upload(path, None)
    etag = store.put_part(path, number, 1, data)
    return FileEntry(d=format_uri(Location("s3", "bucket", path)), z=len(data), u=number, p=(etag,))


def write_task(fake: FakeS3, task: int, directory: str = OLD) -> None:
    files = [upload(fake, f"{TABLE}/{name}", data) for name, data in TASKS[task].items()]
    task_id = f"task_1_0001_m_{task:06d}"
    manifest = TaskManifest(
        task_id=task_id, task_attempt_id=f"attempt_1_0001_m_{task:06d}_0", files=files
    )
    data = encode_pendingset(manifest, MAGIC)
    direct_store(fake).write(f"{directory}/{task_id}.pendingset", data)


def write_pending(fake: FakeS3, entry: FileEntry, directory: str = OLD) -> None:
    """What a task leaves for a file that it has closed, before it commits."""
    pending = encode_pendingset(TaskManifest(files=[entry]), MAGIC)
    single = pending[pending.index(b"[") + 1 : pending.rindex(b"]")]
    direct_store(fake).write(f"{directory}/tasks/attempt_1/__base/late.pending", single)
    direct_store(fake).write(f"{directory}/tasks/attempt_1/__base/late", b"")


@pytest.fixture
def fake() -> FakeS3:
    """A server on which a job of S3A's committer waits for its commit."""
    fake = FakeS3(forgets=True)
    direct_store(fake).mkdirs(OLD)
    for task in TASKS:
        write_task(fake, task)
    return fake


def opened(fake: FakeS3, **hooks: Hook) -> AbstractContextManager[None]:
    """Let the public functions find this server at `URL`."""
    return opening(direct_store(fake, **hooks))


def commit(fake: FakeS3, tasks: int = len(TASKS), **options: int) -> Outcome:
    with opened(fake):
        chosen = CommitOptions(expected_tasks=tasks, **options)
        return ray_committer.commit_job(URL, UUID, executor="threads", options=chosen).outcome


def visible(fake: FakeS3) -> dict[str, bytes]:
    found = visible_files(direct_store(fake), TABLE)
    return {name: data for name, data in found.items() if not name.startswith("__magic")}


def check_committed(fake: FakeS3) -> None:
    assert visible(fake) == FILES
    assert [one.name for one in fake.uploads.values() if ".probe-" not in one.name] == []
    left = [name for name in fake.buckets["bucket"] if "__magic" in name or "_temporary" in name]
    assert left == []


def dying_after(number: int) -> Hook:
    """All requests after so many fail."""
    made = [0]

    def die(*_: str) -> None:
        made[0] += 1
        if made[0] > number:
            raise SimulatedCrash(number)

    return die


def commit_and_die(fake: FakeS3, number: int, moment: str, **options: bool) -> None:
    """Die before or after the request with this number; all others after it fail, too."""
    chosen = CommitOptions(expected_tasks=len(TASKS), **options)
    with suppress(SimulatedCrash), opened(fake, **{moment: dying_after(number)}):
        ray_committer.commit_job(URL, UUID, executor="inline", options=chosen)


@pytest.mark.parametrize("directory", [OLD, f"{OLD}/00", f"{NEW}/00", f"{NEW}/01"])
def test_a_job_that_s3a_left_is_committed_in_each_layout(directory: str):
    fake = FakeS3()
    for task in TASKS:
        write_task(fake, task, directory)
    assert commit(fake) is Outcome.COMMITTED
    check_committed(fake)
    assert commit(fake) is Outcome.ALREADY_COMMITTED


def test_nothing_is_found_of_another_job_or_on_another_store(fake: FakeS3):
    store = direct_store(fake)
    assert find_s3a(store, TABLE, "other", None) is None
    assert find_s3a(store, "/t/other", UUID, None) is None
    assert find_s3a(MemoryStore(), TABLE, UUID, None) is None


def test_a_missing_task_is_found_before_anything_is_visible(fake: FakeS3):
    with pytest.raises(IncompleteJobError, match="4 tasks succeeded but"):
        commit(fake, tasks=4)
    assert visible(fake) == {}
    assert commit(fake) is Outcome.COMMITTED
    check_committed(fake)


def test_a_task_that_committed_after_a_first_try_is_adopted_by_the_second():
    fake = FakeS3()
    write_task(fake, 0)
    write_task(fake, 1)
    with pytest.raises(IncompleteJobError):
        commit(fake)
    write_task(fake, 2)
    assert commit(fake) is Outcome.COMMITTED
    check_committed(fake)


def test_of_two_attempts_one_must_be_named():
    fake = FakeS3()
    for task in TASKS:
        write_task(fake, task, f"{NEW}/00")
        write_task(fake, task, f"{NEW}/01")
    with pytest.raises(AmbiguousJobError, match=r"has the attempts \[0, 1\]"):
        commit(fake)
    assert commit(fake, job_attempt=1) is Outcome.COMMITTED
    assert visible(fake) == FILES


def test_a_pendingset_that_lies_is_refused_by_name(fake: FakeS3):
    path = pendingset_path(MAGIC, "task_1_0001_m_000000")
    store = direct_store(fake)
    store.write(path, store.read(path).replace(b'"bucket":"bucket"', b'"bucket":"other"'))
    with pytest.raises(ManifestError, match=r"commits\[0\].bucket: is 'other'") as caught:
        commit(fake)
    assert str(caught.value).startswith(f"s3://bucket{TABLE}/__magic/")
    assert len(fake.uploads) == len(FILES)


def test_an_upload_that_expired_is_found_before_anything_is_visible(fake: FakeS3):
    gone = next(upload for upload, one in fake.uploads.items() if one.name.endswith("c+d&e"))
    del fake.uploads[gone]
    with pytest.raises(ManifestError, match=r"upload .* is gone"):
        commit(fake)
    assert visible(fake) == {}
    assert len(fake.uploads) == len(FILES) - 1


def test_what_s3a_has_completed_before_its_driver_died_counts_as_done(fake: FakeS3):
    (entry,) = decode_pendingset_of(fake, 1).files
    path = f"{TABLE}/p=1/c+d&e"
    action = CompleteUpload(path, entry.u or "", entry.p or ())
    assert direct_store(fake).publish(action) is Answer.DONE
    assert commit(fake) is Outcome.COMMITTED
    check_committed(fake)


def test_another_object_in_the_place_of_an_upload_that_is_gone_is_no_proof(fake: FakeS3):
    gone = next(upload for upload, one in fake.uploads.items() if one.name.endswith("c+d&e"))
    del fake.uploads[gone]
    fake.buckets["bucket"][f"{TABLE[1:]}/p=1/c+d&e"] = Object(b"ccc", "0" * 32 + "-1")
    with pytest.raises(ManifestError, match=r"upload .* is gone"):
        commit(fake)
    assert len(fake.uploads) == len(FILES) - 1


def decode_pendingset_of(fake: FakeS3, task: int) -> TaskManifest:
    path = pendingset_path(MAGIC, f"task_1_0001_m_{task:06d}")
    return decode_pendingset(direct_store(fake).read(path), path, MAGIC)


def test_a_foreign_object_is_not_replaced(fake: FakeS3):
    fake.buckets["bucket"][f"{TABLE[1:]}/p=1/a"] = Object(b"foreign", "0" * 32)
    with pytest.raises(CommitConflictError, match="p=1/a"):
        commit(fake)
    assert visible(fake)["p=1/a"] == b"foreign"


def test_uploads_of_tasks_that_did_not_commit_are_aborted_with_the_rest(fake: FakeS3):
    entry = upload(fake, f"{TABLE}/late", b"late")
    write_pending(fake, entry)
    other = upload(fake, f"{TABLE}/of another job", b"x")
    assert commit(fake) is Outcome.COMMITTED
    assert list(fake.uploads) == [other.u]


def test_a_job_that_s3a_itself_committed_is_not_committed_again(fake: FakeS3):
    assert commit(fake.copy()) is Outcome.COMMITTED
    success = SuccessData(name=SUCCESS_NAME, timestamp=0, job_id=UUID)
    direct_store(fake).write(f"{TABLE}/_SUCCESS", msgspec.json.encode(success))
    assert commit(fake) is Outcome.ALREADY_COMMITTED
    assert visible(fake) == {}


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.wide)])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_commit_that_dies_at_any_request_is_finished_by_the_same_command(
    fake: FakeS3, moment: str, stride: int
):
    whole = fake.copy()
    whole.requests.clear()
    assert commit(whole) is Outcome.COMMITTED
    total = len(whole.requests)
    assert total > 20
    for number in range(0, total + stride, stride):
        each = fake.copy()
        commit_and_die(each, number, moment)
        assert commit(each) in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED)
        check_committed(each)


def test_a_clean_up_that_dies_leaves_no_pendingsets_of_a_job_that_is_gone(fake: FakeS3):
    """Without ``_SUCCESS``, only the job's state says that it is committed."""
    whole = fake.copy()
    assert commit(whole, mark_success=False) is Outcome.COMMITTED
    for number in range(len(whole.requests) - 16, len(whole.requests)):
        each = fake.copy()
        commit_and_die(each, number, "before", mark_success=False)
        with suppress(JobGoneError):
            assert commit(each, mark_success=False) is Outcome.COMMITTED
        check_committed(each)


def test_of_a_job_whose_abort_has_died_nothing_is_committed_and_the_same_command_ends_it(fake: FakeS3):
    whole = fake.copy()
    whole.requests.clear()
    with opened(whole):
        assert ray_committer.abort_job(URL, UUID) is True
    total, refused = len(whole.requests), 0
    for number in range(total):
        each = fake.copy()
        with suppress(SimulatedCrash), opened(each, before=dying_after(number)):
            ray_committer.abort_job(URL, UUID)
        if read_state(direct_store(each), JOB) is None:  # not begun, or over
            continue
        with pytest.raises((CommitAbortedError, JobGoneError)) as caught:
            commit(each)
        refused += caught.type is CommitAbortedError
        with opened(each):
            is_aborted = ray_committer.abort_job(URL, UUID)
        assert is_aborted or caught.type is JobGoneError
        assert (visible(each), each.uploads) == ({}, {})
        assert [name for name in each.buckets["bucket"] if "__magic" in name] == []
        assert not read_job(direct_store(each), JOB).exists
    assert 0 < refused < total
