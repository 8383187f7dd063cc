"""Commits of uploads on a strict S3 without a network: what answers, losses and other files lead to."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs
from msgspec.structs import replace as replace_fields

import ray_committer
from ray_committer import Outcome
from ray_committer.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    JobGoneError,
    PreflightError,
    RayCommitterError,
    StoreUnavailableError,
)
from ray_committer.job_files.success import read_success
from ray_committer.jobs.destination_status import destination_status
from ray_committer.options import CommitOptions
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.manifest import decode_manifest, encode_manifest
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.state import Phase
from ray_committer.stages.checks import uploads as check_uploads
from ray_committer.stores.s3.store import S3Store
from ray_committer.testing import SimulatedCrash, run_abort, run_commit, visible_files, write_job
from ray_committer.testing.harness import run_undo, set_up_attempt, write_attempt
from ray_committer.work.upload_file import closed_uploads
from tests.doubles import phase_of
from tests.opening import opening
from tests.servers.fake_s3 import SERVERS, FakeS3, Hook, Object, direct_store

pytestmark = pytest.mark.usefixtures("no_pauses")

TASKS = {0: {"p=1/a": b"a", "p=2/b": b"bb"}, 1: {"p=1/c": b"ccc"}}
ALL = {name: data for files in TASKS.values() for name, data in files.items()}
kinds = pytest.mark.parametrize("server", SERVERS)


@pytest.fixture
def job() -> JobAttempt:
    return new_job_attempt("/t/table", "job_1", 0)


@pytest.fixture
def fake(server: str, job: JobAttempt) -> FakeS3:
    """A server on which the job is written."""
    fake = FakeS3(**SERVERS[server])
    write_job(direct_store(fake), job, TASKS)
    return fake


def is_completion(method: str, query: str) -> bool:
    return method == "POST" and "uploadId=" in query


def at_completion(number: int, act: Callable[[str], None]) -> Hook:
    """Do something at a completion with this number, counted from 1."""
    seen: list[str] = []

    def hook(method: str, name: str, query: str) -> None:
        if is_completion(method, query):
            seen.append(name)
            if len(seen) == number:
                act(name)

    return hook


def lose(name: str) -> None:
    raise StoreUnavailableError(name, "the answer was lost")


def crash(name: str) -> None:
    raise SimulatedCrash(name)


def key(name: str) -> str:
    return f"t/table/{name}"


def committed_twin(job: JobAttempt) -> FakeS3:
    """A server on which the job is committed, with the same bytes and etags."""
    twin = FakeS3()
    write_job(direct_store(twin), job, TASKS)
    run_commit(direct_store(twin), job)
    return twin


def drop_upload(fake: FakeS3, name: str) -> None:
    for upload in [one for one, held in fake.uploads.items() if held.name == key(name)]:
        del fake.uploads[upload]


@kinds
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_lost_answer_never_fails_a_job(fake: FakeS3, job: JobAttempt, number: int, server: str):
    report = run_commit(direct_store(fake, after=at_completion(number, lose)), job)
    assert (report.outcome, report.moved + sum(report.proved.values())) == (Outcome.COMMITTED, 3)
    assert report.proved == ({} if server == "amazon" else {Proof.ETAG: 1})
    assert visible_files(direct_store(fake), job.destination) == ALL
    assert fake.uploads == {}


@kinds
def test_a_job_that_is_over_is_not_there_any_more(fake: FakeS3, job: JobAttempt):
    """Also on a server that lists the directories in which its files were."""
    url, late = "s3://bucket/t/table", new_job_attempt(job.destination, "job_2", 0)
    with opening(direct_store(fake)):
        for outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED):
            assert ray_committer.commit_job(url, job.job_id, executor="inline").outcome is outcome
        assert ray_committer.commit_job(url, executor="inline").outcome is Outcome.ALREADY_COMMITTED
        assert ray_committer.list_jobs(url) == ray_committer.vacuum_jobs(url) == []
        write_job(direct_store(fake), late, {0: {"d": b"d"}})
        assert [one.job_id for one in ray_committer.list_jobs(url)] == ["job_2"]
        assert ray_committer.abort_job(url)
        with pytest.raises(JobGoneError):
            ray_committer.abort_job(url, late.job_id)
        assert destination_status(url).jobs == ()


@kinds
def test_a_commit_that_died_in_the_middle_completes_each_upload_once(fake: FakeS3, job: JobAttempt):
    with pytest.raises(SimulatedCrash):
        run_commit(direct_store(fake, after=at_completion(2, crash)), job)
    store = direct_store(fake)
    before = {one.path: one for one in store.list_files("/t/table/p=1")}
    report = run_commit(store, job)
    assert report.outcome is Outcome.COMMITTED
    assert visible_files(store, job.destination) == ALL
    assert len([etag for etag in fake.ended.values() if etag]) == 3
    for path, status in before.items():
        assert store.get_status(path) == structs.replace(status, stamp=store.get_status(path).stamp)


@kinds
@pytest.mark.parametrize("is_deleted", [False, True], ids=["replaced", "deleted"])
def test_a_manifest_that_a_late_attempt_has_replaced_is_read_from_the_copy_of_its_task(
    fake: FakeS3, job: JobAttempt, is_deleted: bool
):
    with pytest.raises(SimulatedCrash):
        run_commit(direct_store(fake, after=at_completion(1, crash)), job)
    name = next(name for name in fake.buckets["bucket"] if name.endswith("-manifest.json"))
    if is_deleted:
        del fake.buckets["bucket"][name]
    else:
        direct_store(fake).write(f"/{name}", b"of a later attempt")
    assert run_commit(direct_store(fake), job).outcome is Outcome.COMMITTED
    assert visible_files(direct_store(fake), job.destination) == ALL


@kinds
def test_a_foreign_object_that_comes_after_the_record_is_never_replaced(fake: FakeS3, job: JobAttempt):
    def write(name: str) -> None:
        fake.buckets["bucket"][key("p=1/c")] = Object(b"foreign", "foreign")

    store = direct_store(fake)
    with pytest.raises(CommitConflictError, match="p=1/c: is there already") as caught:
        run_commit(direct_store(fake, before=at_completion(1, write)), job)
    assert caught.value.exit_code == 4
    assert phase_of(store, job) is Phase.RECORDED
    assert visible_files(store, job.destination)["p=1/c"] == b"foreign"
    del fake.buckets["bucket"][key("p=1/c")]
    assert run_commit(store, job).outcome is Outcome.COMMITTED
    assert visible_files(store, job.destination) == ALL


@kinds
def test_a_foreign_object_with_the_same_bytes_and_etag_is_not_taken_for_ours(
    fake: FakeS3, job: JobAttempt
):
    """It was uploaded as ours was; our upload is still pending, so it cannot be ours."""
    twin = committed_twin(job)

    def write(name: str) -> None:
        fake.buckets["bucket"][key("p=1/c")] = twin.buckets["bucket"][key("p=1/c")]

    with pytest.raises(CommitConflictError, match="p=1/c: is there already"):
        run_commit(direct_store(fake, before=at_completion(1, write)), job)
    assert run_undo(direct_store(fake), job)
    assert visible_files(direct_store(fake), job.destination) == {"p=1/c": b"ccc"}
    assert fake.uploads == {}


@kinds
def test_an_upload_that_is_aborted_after_the_record_is_lost_by_name(fake: FakeS3, job: JobAttempt):
    store = direct_store(fake)
    with pytest.raises(
        CommitStateUnknownError, match=r"p=1/c: its upload .* is gone and no file"
    ) as caught:
        run_commit(
            direct_store(fake, before=at_completion(1, lambda _: drop_upload(fake, "p=1/c"))), job
        )
    assert "attempt_job_1_m_000001_0" in str(caught.value)
    assert caught.value.exit_code == 3
    assert run_undo(store, job)
    assert visible_files(store, job.destination) == {}
    assert fake.uploads == {}


@kinds
@pytest.mark.parametrize("is_old_there", [True, False])
def test_an_upload_that_is_aborted_after_the_seal_is_named_with_a_way_that_is_open(
    fake: FakeS3, job: JobAttempt, is_old_there: bool
):
    """An undo is refused then, and no commit can make the file."""
    store, options = direct_store(fake), CommitOptions(mode=ConflictMode.OVERWRITE)
    store.write(f"{job.destination}/p=1/c", b"old")

    def abort(name: str) -> None:
        if name.endswith(key("p=1/c")):
            drop_upload(fake, "p=1/c")
            if not is_old_there:
                del fake.buckets["bucket"][key("p=1/c")]

    for hooks in ({"before": at_completion(3, abort)}, {}):
        with pytest.raises(CommitStateUnknownError, match=r"p=1/c: its upload .* is gone") as caught:
            run_commit(direct_store(fake, **hooks), job, options)
        assert phase_of(store, job) is Phase.SEALED
        assert "because the job is sealed, delete its directory" in str(caught.value)
    store.delete_directory(job.directory)  # as it advises
    again = new_job_attempt(job.destination, "job_2", 0)
    write_job(store, again, {0: {"p=1/c": b"again"}})
    assert run_commit(store, again, options).outcome is Outcome.COMMITTED
    assert visible_files(store, job.destination) == {"p=1/c": b"again"}


@kinds
@pytest.mark.parametrize("number", [1, 2, 3])
def test_where_etags_prove_nothing_the_stamp_does(job: JobAttempt, server: str, number: int):
    fake = FakeS3(hides_md5=True, **SERVERS[server])
    write_job(direct_store(fake), job, TASKS)
    with pytest.raises(SimulatedCrash):
        run_commit(direct_store(fake, after=at_completion(number, crash)), job)
    report = run_commit(direct_store(fake), job)
    assert report.outcome is Outcome.COMMITTED
    assert report.proved == ({} if server == "amazon" else {Proof.STAMP: number})
    assert visible_files(direct_store(fake), job.destination) == ALL


@kinds
@pytest.mark.parametrize("kept", [0, 1_000_000], ids=["listed again", "kept"])
@pytest.mark.parametrize("is_missing", [False, True], ids=["whole", "one missing"])
def test_uploads_of_others_are_told_from_those_of_the_job_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch, fake: FakeS3, job: JobAttempt, kept: int, is_missing: bool
):
    monkeypatch.setattr(check_uploads, "KEPT", kept)
    fake.page = 2
    store = direct_store(fake)
    store.begin_upload(f"{job.destination}/p=1/foreign", None)
    if is_missing:
        drop_upload(fake, "p=1/c")
        with pytest.raises(RayCommitterError, match=r"its upload .* is gone: completed or aborted"):
            run_commit(store, job)
        return
    fake.requests.clear()
    run_commit(store, job)
    pages = [query for method, _, query in fake.requests if method == "GET" and "uploads=" in query]
    assert len(pages) >= (2 if kept else 4)


@kinds
def test_a_server_that_lists_uploads_by_exact_names_alone_is_asked_for_each(
    fake: FakeS3, job: JobAttempt
):
    fake.lists_prefixes = False
    fake.requests.clear()
    assert run_commit(direct_store(fake), job).moved == 3
    assert sum(method == "GET" and "uploadId" in query for method, _, query in fake.requests) == 3


@kinds
def test_an_undo_keeps_what_another_wrote_in_the_place_of_a_completed_file(
    fake: FakeS3, job: JobAttempt
):
    with pytest.raises(SimulatedCrash):
        run_commit(direct_store(fake, after=at_completion(3, crash)), job)
    fake.buckets["bucket"][key("p=1/c")] = Object(b"theirs", "e")
    store = direct_store(fake)
    assert run_undo(store, job)
    assert visible_files(store, job.destination) == {"p=1/c": b"theirs"}
    assert fake.uploads == {}


@kinds
@pytest.mark.parametrize("hides_md5", [False, True], ids=["etag", "stamp"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_undo_takes_back_each_file_that_was_completed(
    job: JobAttempt, server: str, number: int, hides_md5: bool
):
    """Whatever the server answers to the abort of an upload that was completed."""
    fake = FakeS3(hides_md5=hides_md5, **SERVERS[server])
    write_job(direct_store(fake), job, TASKS)
    with pytest.raises(SimulatedCrash):
        run_commit(direct_store(fake, after=at_completion(number, crash)), job)
    assert len(visible_files(direct_store(fake), job.destination)) == number
    assert run_undo(direct_store(fake), job)
    assert visible_files(direct_store(fake), job.destination) == {}
    assert (fake.uploads, fake.buckets["bucket"]) == ({}, {})


@kinds
@pytest.mark.parametrize("kind", ["GET", "DELETE", "HEAD", "PUT"])
def test_an_undo_takes_back_a_file_that_a_paused_committer_completes_beside_it(
    fake: FakeS3, job: JobAttempt, kind: str
):
    """Before each kind of request of the undo, from the first one to an upload on. A file that comes
    after the look at its place is found by the look of the clean-up."""
    with pytest.raises(SimulatedCrash):
        run_commit(direct_store(fake, before=at_completion(1, crash)), job)
    held = next(one for one in fake.uploads.values() if one.name == key("p=1/c"))
    number = next(one for one, upload in fake.uploads.items() if upload is held)
    etag = held.parts[1].etag
    done: list[Answer] = []

    def complete(method: str, _: str, query: str) -> None:
        if method == kind and not done and phase_of(direct_store(fake), job) is Phase.UNDOING:
            action = CompleteUpload(f"/{held.name}", number, (etag,))
            done.append(direct_store(fake).publish(action))

    assert run_undo(direct_store(fake, before=complete), job)
    assert done
    assert visible_files(direct_store(fake), job.destination) == {}
    assert (fake.uploads, fake.buckets["bucket"]) == ({}, {})


def test_an_undo_finds_what_a_store_shows_only_after_the_look_at_its_place(job: JobAttempt):
    """The upload is gone already, and its file is not there yet: no reference excludes that."""
    fake = FakeS3()
    write_job(direct_store(fake), job, TASKS)
    with pytest.raises(SimulatedCrash):
        run_commit(direct_store(fake, after=at_completion(3, crash)), job)
    late = {name: fake.buckets["bucket"].pop(key(name)) for name in ALL}

    def appear(method: str, name: str, _: str) -> None:
        is_change = method == "PUT" and name.endswith("/state/current")
        if is_change and phase_of(direct_store(fake), job) is Phase.UNDOING:
            fake.buckets["bucket"].update({key(one): found for one, found in late.items()})
            late.clear()

    assert run_undo(direct_store(fake, before=appear), job)
    assert not late
    assert visible_files(direct_store(fake), job.destination) == {}


@kinds
def test_an_undo_takes_back_files_of_hadoops_client_which_bear_the_jobs_id_and_no_stamp(
    server: str,
):
    job_id = "0b0c7a4e-7b52-4f2e-9f0a-1c2d3e4f5a6b"
    job, fake = new_job_attempt("/t/table", job_id, 0), FakeS3(**SERVERS[server])
    write_job(direct_store(fake), job, {0: {f"p=1/part-0-{job_id}.csv": b"a", "p=1/other": b"b"}})
    for one in fake.uploads.values():
        one.headers.clear()
    with pytest.raises(SimulatedCrash):
        run_commit(direct_store(fake, after=at_completion(2, crash)), job)
    assert run_undo(direct_store(fake), job)
    assert visible_files(direct_store(fake), job.destination) == {"p=1/other": b"b"}


@kinds
def test_an_abort_deletes_what_bears_the_stamp_of_the_job(fake: FakeS3, job: JobAttempt):
    """Whoever has completed the upload; a file of the same name that another program wrote stays."""
    store = direct_store(fake)
    for number, held in [*fake.uploads.items()]:
        if held.name != key("p=1/a"):
            store.publish(CompleteUpload(f"/{held.name}", number, (held.parts[1].etag,)))
    fake.buckets["bucket"][key("p=1/c")] = Object(b"theirs", "e")
    assert run_abort(store, job)
    assert visible_files(store, job.destination) == {"p=1/c": b"theirs"}
    assert fake.uploads == {}


def change_manifests(store: S3Store, job: JobAttempt, change: Callable[..., object]) -> None:
    for status in store.list_files(job.manifests):
        manifest = decode_manifest(store.read(status.path), status.path)
        changed = [change(entry) for entry in manifest.files]
        store.write(status.path, encode_manifest(replace_fields(manifest, files=changed)))


BAD = {
    "small parts": (
        lambda one: replace_fields(one, p=("a", "b")),
        PreflightError,
        "all parts except the last need",
    ),
    "a rename": (
        lambda one: replace_fields(
            one, s=one.d.replace("/p=", "/_temporary/j/00/tasks/t/p="), u=None, p=None
        ),
        PreflightError,
        "is a file to be renamed, and S3 has no rename",
    ),
    "another bucket": (
        lambda one: replace_fields(one, d=one.d.replace("bucket", "other")),
        PreflightError,
        "is on another store",
    ),
    "outside": (
        lambda one: replace_fields(one, d=one.d.replace("/t/table", "/t/elsewhere")),
        PreflightError,
        "is outside the destination",
    ),
    "the marker": (
        lambda one: replace_fields(one, d="s3://bucket/t/table/_SUCCESS"),
        PreflightError,
        "a name that the commit itself needs",
    ),
    "another upload id": (
        lambda one: replace_fields(one, u="made up"),
        RayCommitterError,
        "its upload made up is gone",
    ),
    "too many parts": (
        lambda one: replace_fields(one, p=("a",) * 10_001),
        RayCommitterError,
        "at most 10000",
    ),
}


@pytest.mark.parametrize("server", ["amazon"])
@pytest.mark.parametrize(("change", "error", "text"), BAD.values(), ids=BAD)
def test_bad_entries_are_refused_before_anything_is_completed(
    fake: FakeS3, job: JobAttempt, change, error: type[Exception], text: str
):
    store = direct_store(fake)
    change_manifests(store, job, change)
    fake.requests.clear()
    with pytest.raises(error, match=text) as caught:
        run_commit(store, job)
    assert caught.value.exit_code == 1
    assert visible_files(store, job.destination) == {}
    assert not any(is_completion(method, query) for method, _, query in fake.requests)
    assert len(fake.uploads) == 3


def at_listing(fake: FakeS3, number: int, act: Callable[[], None]) -> Hook:
    """Do something before a listing of the job's files, with this number, counted from 1."""
    seen: list[str] = []

    def hook(method: str, name: str, query: str) -> None:
        if method == "GET" and query.endswith("_temporary%2Fjob_1%2F"):
            seen.append(query)
            if len(seen) == number:
                act()

    return hook


@kinds
def test_a_clean_up_that_comes_late_deletes_nothing_of_the_next_job_with_the_id(
    fake: FakeS3, job: JobAttempt
):
    """Also where the server deletes many objects without a look at their etags."""
    fake.ignores = frozenset({"delete"})

    def finish_and_begin_again() -> None:
        store = direct_store(fake, conditional_deletes=False)
        run_commit(store, job)
        write_job(store, job, {0: {"p=3/d": b"d"}})

    at_last = at_listing(fake, 2, finish_and_begin_again)
    run_commit(direct_store(fake, before=at_last, conditional_deletes=False), job)
    assert phase_of(direct_store(fake), job) is Phase.OPEN
    assert run_commit(direct_store(fake), job).files == 1
    assert visible_files(direct_store(fake), job.destination) == {**ALL, "p=3/d": b"d"}


@kinds
def test_a_success_that_comes_late_does_not_replace_that_of_a_later_job(fake: FakeS3, job: JobAttempt):
    """A process sleeps just before it marks its job, until another one has ended that job."""
    later = new_job_attempt(job.destination, "job_2", 0)
    held: list[str] = []

    def finish_and_commit_another(method: str, name: str, query: str) -> None:
        if method == "PUT" and name.endswith("/_SUCCESS") and not held:
            held.append(name)
            run_commit(direct_store(fake), job)
            write_job(direct_store(fake), later, {0: {"p=3/d": b"d"}})
            run_commit(direct_store(fake), later)

    run_commit(direct_store(fake, before=finish_and_commit_another), job)
    success = read_success(direct_store(fake), job.destination)
    assert success is not None
    assert success.job_id == later.job_id


@kinds
def test_a_success_of_a_job_that_ended_beside_this_one_is_replaced(fake: FakeS3, job: JobAttempt):
    beside = new_job_attempt(job.destination, "job_2", 0)
    write_job(direct_store(fake), beside, {0: {"p=3/d": b"d"}})
    commit_beside = at_completion(1, lambda _: run_commit(direct_store(fake), beside))
    run_commit(direct_store(fake, before=commit_beside), job)
    success = read_success(direct_store(fake), job.destination)
    assert success is not None
    assert success.job_id == job.job_id


@kinds
def test_a_success_of_another_program_can_have_any_content(fake: FakeS3, job: JobAttempt):
    direct_store(fake).write(job.success, b"\x1f\x8b")
    assert run_commit(direct_store(fake), job).outcome is Outcome.COMMITTED
    assert read_success(direct_store(fake), job.destination) is not None


@kinds
def test_a_state_that_changes_after_the_listing_of_a_clean_up_is_kept(fake: FakeS3, job: JobAttempt):
    def finish_and_begin_again(method: str, name: str, query: str) -> None:
        if query == "delete=" and phase_of(direct_store(fake), job) is Phase.COMMITTED:
            run_commit(direct_store(fake), job)
            write_job(direct_store(fake), job, {0: {"p=3/d": b"d"}})

    run_commit(direct_store(fake, before=finish_and_begin_again), job)
    assert phase_of(direct_store(fake), job) is Phase.OPEN
    assert run_commit(direct_store(fake), job).files == 1


@kinds
def test_a_manifest_that_is_saved_during_the_load_is_loaded_too(fake: FakeS3, job: JobAttempt):
    store = direct_store(fake)
    late = set_up_attempt(store, job, 7, 0)
    known = decode_manifest(store.read(job.manifest("task_job_1_m_000000")), "")

    def save() -> None:
        write_attempt(store, job, late, {"p=1/late": b"x"})
        files = closed_uploads(store, job.task_attempt(late))
        manifest = replace_fields(
            known, task_id="task_7", task_attempt_id=late, task_attempt_dir=None, files=files
        )
        store.write(job.manifest("task_7"), encode_manifest(manifest))

    run_commit(direct_store(fake, before=at_listing(fake, 1, save)), job)
    assert visible_files(store, job.destination) == {**ALL, "p=1/late": b"x"}


@kinds
def test_an_abort_passes_over_what_it_cannot_read(fake: FakeS3, job: JobAttempt):
    store = direct_store(fake)
    for name in ("manifests/task_x-manifest.json", "tasks/attempt_x/uploads/0.upload"):
        store.write(f"{job.directory}/{name}", b"{")
    store.write(f"{job.tasks}/attempt_x/uploads/1.upload", b'{"d": "s3://other/a", "z": 0, "u": "id"}')
    assert run_abort(store, job)
    assert fake.uploads == {}
    assert not fake.buckets["bucket"]


@kinds
def test_an_undo_keeps_a_file_of_the_same_bytes_if_our_upload_was_aborted(fake: FakeS3, job: JobAttempt):
    twin = committed_twin(job)
    with pytest.raises(SimulatedCrash):
        run_commit(direct_store(fake, before=at_completion(1, crash)), job)
    drop_upload(fake, "p=1/c")
    fake.buckets["bucket"][key("p=1/c")] = twin.buckets["bucket"][key("p=1/c")]
    assert run_undo(direct_store(fake), job)
    assert visible_files(direct_store(fake), job.destination) == {"p=1/c": b"ccc"}
    assert fake.uploads == {}
