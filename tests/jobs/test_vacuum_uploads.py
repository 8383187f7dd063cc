"""Vacuum aborts uploads that belong to no job, and never one that a job can still complete."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

import ray_committer
from ray_committer import VacuumedUpload
from ray_committer.cli.main import main
from ray_committer.errors import SettingsError, StoreUnavailableError
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.magic_paths import MagicJob
from ray_committer.protocol.manifest import FileEntry, TaskManifest, encode_manifest
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.uri import Location, format_uri
from ray_committer.stores.s3.store import S3Store
from ray_committer.testing import SimulatedCrash, write_job
from tests.opening import opening
from tests.pendingsets import encode_pendingset, pendingset_path
from tests.servers.fake_s3 import FakeS3, direct_store

URL, TABLE = "s3://bucket/w/table", "/w/table"
DAY = 86_400.0
MAGIC = MagicJob("bucket", TABLE, "uuid")


@pytest.fixture
def fake() -> Iterator[FakeS3]:
    fake = FakeS3(buckets={"bucket": {}})
    with opening(direct_store(fake)):
        yield fake


@pytest.fixture
def store(fake: FakeS3) -> S3Store:
    return direct_store(fake)


def begin(fake: FakeS3, path: str, *, days: float = 8, parts: int = 1) -> str:
    """An upload that a process began so many days ago, and that it has not noted."""
    store = direct_store(fake)
    upload = store.begin_upload(path, None)
    for number in range(parts):
        store.put_part(path, upload, number + 1, b"1234567")
    make_old(fake, upload, days)
    return upload


def make_old(fake: FakeS3, upload: str, days: float = 8) -> None:
    held = fake.uploads[upload]
    held.began -= days * DAY
    for part in held.parts.values():
        part.came -= days * DAY


def make_all_old(fake: FakeS3, days: float = 8) -> None:
    for upload in fake.uploads:
        make_old(fake, upload, days)
    for one in fake.buckets["bucket"].values():
        one.modified -= days * DAY


def vacuum(**options: Any) -> list[VacuumedUpload]:
    return ray_committer.vacuum_uploads(URL, **options)


def reasons() -> set[str | None]:
    return {one.reason for one in vacuum()}


def test_an_orphan_is_shown_with_its_bytes_age_and_user_and_aborted(fake: FakeS3):
    upload = begin(fake, f"{TABLE}/p=1/a", parts=3)
    (planned,) = vacuum(dry_run=True)
    assert [*fake.uploads] == [upload]
    (done,) = vacuum()
    assert (done.path, done.upload_id, done.bytes) == (f"{TABLE}/p=1/a", upload, 21)
    assert (done.removed, done.reason) == (planned.removed, planned.reason) == (True, None)
    assert done.age_seconds == pytest.approx(8 * DAY, abs=60)
    assert done.began_by == "arn:aws:iam::1:user/spark"
    assert fake.uploads == {}
    assert vacuum() == []


def test_a_probe_of_conditions_that_died_is_an_orphan(fake: FakeS3, store: S3Store):
    died: list[str] = []

    def die(method: str, _: str, query: str) -> None:
        if died or (method == "PUT" and "partNumber" in query):
            died.append(method)
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        write_job(direct_store(fake, before=die), new_job_attempt(TABLE, "job_1", 0), {})
    (upload,) = fake.uploads
    assert "/state/current.probe-" in fake.uploads[upload].name
    make_all_old(fake)
    assert [one.removed for one in vacuum()] == [True]
    assert fake.uploads == {}


def test_what_is_young_or_grows_or_is_elsewhere_is_not_an_orphan(fake: FakeS3, store: S3Store):
    begin(fake, f"{TABLE}/young", days=6)
    growing = begin(fake, f"{TABLE}/growing")
    store.put_part(f"{TABLE}/growing", growing, 2, b"1")
    begin(fake, "/w/table2/a")
    begin(fake, "/w/a")
    assert vacuum() == []
    assert len(fake.uploads) == 4
    assert [one.path for one in vacuum(older_than_seconds=5 * DAY)] == [f"{TABLE}/young"]
    with pytest.raises(SettingsError, match="at least 3600"):
        vacuum(older_than_seconds=60)


def noted_by_a_task(store: S3Store) -> None:
    write_job(store, new_job_attempt(TABLE, "job_1", 0), {0: {"a": b"1"}})
    for one in store.list_files(f"{TABLE}/_temporary/job_1/00/manifests"):
        store.delete_file(one.path)


def named_by_a_manifest(store: S3Store) -> None:
    write_job(store, new_job_attempt(TABLE, "job_1", 0), {0: {"a": b"1"}})
    store.delete_directory(f"{TABLE}/_temporary/job_1/00/tasks")


def named_by_a_job_above(store: S3Store) -> None:
    write_job(store, new_job_attempt("/w", "job_1", 0), {0: {"table/a": b"1"}})


def uploaded(store: S3Store) -> FileEntry:
    path = f"{TABLE}/a"
    upload = store.begin_upload(path, None)
    part = store.put_part(path, upload, 1, b"1")
    return FileEntry(d=format_uri(Location("s3", "bucket", path)), z=1, u=upload, p=(part,))


def pending(store: S3Store) -> bytes:
    return encode_pendingset(TaskManifest(files=[uploaded(store)]), MAGIC)


def named_by_a_pendingset(store: S3Store) -> None:
    store.write(pendingset_path(MAGIC, "task_1"), pending(store))


def named_by_a_pendingset_of_the_new_layout(store: S3Store) -> None:
    store.write(f"{MAGIC.directories[1]}/00/task_1.pendingset", pending(store))


def noted_by_a_task_of_s3a(store: S3Store, data: bytes | None = None) -> None:
    data = data or pending(store)
    single = data[data.index(b"[") + 1 : data.rindex(b"]")]
    store.write(f"{MAGIC.directories[0]}/tasks/attempt_1/__base/a.pending", single)
    store.write(f"{MAGIC.directories[0]}/tasks/attempt_1/__base/a", b"")


NAMED = (
    noted_by_a_task,
    named_by_a_manifest,
    named_by_a_job_above,
    named_by_a_pendingset,
    named_by_a_pendingset_of_the_new_layout,
    noted_by_a_task_of_s3a,
)


@pytest.mark.parametrize("write", NAMED, ids=lambda one: one.__name__)
def test_what_a_job_names_is_left_alone_at_any_age(
    fake: FakeS3, store: S3Store, write: Callable[[S3Store], None]
):
    write(store)
    (own,) = fake.uploads
    begin(fake, f"{TABLE}/orphan", days=0)
    make_all_old(fake, days=1000)
    assert [one.path for one in vacuum()] == [f"{TABLE}/orphan"]
    assert [*fake.uploads] == [own]


def damaged_note(store: S3Store) -> None:
    store.write(f"{TABLE}/_temporary/j/00/tasks/t/uploads/0.upload", b"{")


def damaged_manifest(store: S3Store) -> None:
    store.write(f"{TABLE}/_temporary/j/00/manifests/t-manifest.json", b"{")


def damaged_pendingset(store: S3Store) -> None:
    store.write(pendingset_path(MAGIC, "task_1"), b"{")


def unknown_place(store: S3Store) -> None:
    store.write(f"{TABLE}/__magic/app-attempt-0001/t.pendingset", b"{}")


def another_table(store: S3Store) -> None:
    store.write(f"{TABLE}/p=1/_SUCCESS", b"")


UNCERTAIN: dict[Callable[[S3Store], None], str] = {
    damaged_note: "0.upload: is not the note of an upload",
    damaged_manifest: "t-manifest.json: ",
    damaged_pendingset: "task_1.pendingset: is truncated or not JSON",
    unknown_place: "t.pendingset: names uploads, but it is not known of which job",
    another_table: f"{TABLE}/p=1 may be another table, because it holds _SUCCESS: run vacuum there",
}


@pytest.mark.parametrize("write", UNCERTAIN, ids=lambda one: one.__name__)
def test_if_it_is_not_certain_everything_is_kept_with_the_reason(
    fake: FakeS3, store: S3Store, write: Callable[[S3Store], None]
):
    write(store)
    begin(fake, f"{TABLE}/p=1/a", days=0)
    make_all_old(fake)
    (kept,) = vacuum()
    assert (kept.removed, UNCERTAIN[write] in str(kept.reason)) == (False, True), kept.reason
    assert len(fake.uploads) == 1


def test_a_table_whose_name_begins_like_our_directory_is_another_table(fake: FakeS3, store: S3Store):
    store.write(f"{TABLE}/_temporary2/_SUCCESS", b"")
    begin(fake, f"{TABLE}/_temporary2/a")
    assert "may be another table" in str(vacuum()[0].reason)
    assert len(fake.uploads) == 1


def test_a_job_of_s3a_that_changes_may_have_uploads_that_it_has_not_noted(fake: FakeS3, store: S3Store):
    begin(fake, f"{TABLE}/a", days=0)
    named_by_a_pendingset(store)
    make_all_old(fake)
    store.write(f"{MAGIC.directories[0]}/tasks/attempt_1/__base/b", b"")
    assert {str(one.reason)[:44] for one in vacuum()} == {"a job of Hadoop's S3A committer has changed "}
    assert len(fake.uploads) == 2


def test_a_note_that_goes_while_it_is_read_has_become_a_manifest(fake: FakeS3, store: S3Store):
    """A task commits between the listing of its notes and the reading of them."""
    write_job(store, new_job_attempt(TABLE, "job_1", 0), {0: {"a": b"1"}})
    note = f"{TABLE}/_temporary/job_1/00/tasks/attempt_job_1_m_000000_0/uploads/0.upload"
    store.write(note, b"{}")
    make_all_old(fake)

    def commit(method: str, name: str, _: str) -> None:
        if method == "GET" and name.endswith((".upload", "/committed")):
            fake.buckets["bucket"].pop(name.removeprefix("/bucket/"), None)

    with opening(direct_store(fake, before=commit)):
        assert vacuum() == []
    assert len(fake.uploads) == 1


def test_a_pending_file_that_goes_while_it_is_read_keeps_all(fake: FakeS3, store: S3Store):
    noted_by_a_task_of_s3a(store)
    make_all_old(fake)

    def commit(method: str, name: str, _: str) -> None:
        if method == "GET" and name.endswith(".pending"):
            del fake.buckets["bucket"][name.removeprefix("/bucket/")]

    with opening(direct_store(fake, before=commit)):
        assert [one.removed for one in vacuum()] == [False]


@pytest.mark.parametrize("page", [1, 2, 3])
def test_a_task_of_s3a_that_commits_between_two_pages_of_the_listing_keeps_all(page: int):
    """Its pendingset sorts before its `.pending` files, so a listing of several pages can lack both."""
    fake = FakeS3(buckets={"bucket": {}}, page=page)
    store, tasks = direct_store(fake), f"{MAGIC.directories[0]}/tasks"
    data = pending(store)
    noted_by_a_task_of_s3a(store, data)
    store.write(f"{MAGIC.directories[0]}/a", b"")
    store.write(f"{tasks}/another/__base/b", b"")
    make_all_old(fake)
    listed: list[str] = []

    def commit(_: str, __: str, query: str) -> None:
        if "continuation-token" in query and "__magic" in query and not listed:
            listed.append(query)
            store.write(pendingset_path(MAGIC, "task_1"), data)
            store.delete_directory(f"{tasks}/attempt_1")

    with opening(direct_store(fake, before=commit)):
        assert not any(one.removed for one in vacuum())
    assert listed


@pytest.mark.parametrize(
    ("method", "argument", "reason"),
    [
        ("GET", "max-parts", "it was completed or aborted in the meantime"),
        (
            "DELETE",
            "uploadId",
            "a file came to its place in the meantime, so it may have been completed",
        ),
    ],
)
def test_an_upload_that_was_completed_in_the_meantime_is_reported(
    fake: FakeS3, method: str, argument: str, reason: str
):
    upload = begin(fake, f"{TABLE}/a")

    def complete(made: str, _: str, query: str) -> None:
        if made == method and argument in query and upload in fake.uploads:
            held = fake.uploads[upload]
            action = CompleteUpload(f"/{held.name}", upload, (held.parts[1].etag,))
            assert direct_store(fake).publish(action) is Answer.DONE

    with opening(direct_store(fake, before=complete)):
        assert reasons() == {reason}


def test_a_vacuum_that_died_or_lost_an_answer_is_run_again(fake: FakeS3):
    for name in "abc":
        begin(fake, f"{TABLE}/{name}")
    made = [0]

    def lose(method: str, name: str, query: str) -> None:
        if method == "DELETE" and "uploadId" in query:
            made[0] += 1
            if made[0] == 2:
                raise StoreUnavailableError(name, "the answer was lost")

    with opening(direct_store(fake, after=lose)):
        assert len(vacuum()) == 3
    assert fake.uploads == {}
    assert vacuum() == []


def test_the_job_of_a_removed_job_is_not_an_orphan_and_a_left_job_is_kept(fake: FakeS3, store: S3Store):
    write_job(store, new_job_attempt(TABLE, "job_1", 0), {0: {"a": b"1"}})
    named_by_a_pendingset(store)
    store.write(
        f"{TABLE}/_temporary/uuid/00/manifests/t-manifest.json", encode_manifest(TaskManifest(files=[]))
    )
    make_all_old(fake)
    assert vacuum(dry_run=True) == []
    jobs = {one.job_id: one for one in ray_committer.vacuum_jobs(URL)}
    assert jobs["job_1"].removed
    assert "could still commit it" in str(jobs["uuid"].reason)
    assert [one.name for one in fake.uploads.values()] == ["w/table/a"]
    assert vacuum() == []


@pytest.mark.parametrize("mark", ["manifests", "tasks/attempt_1"])
def test_the_mark_of_a_directory_shows_how_old_a_dead_job_is(fake: FakeS3, store: S3Store, mark: str):
    """A set-up died before the state, or a task began while its job was being aborted."""
    store.write(f"{TABLE}/a", b"1")
    store.mkdirs(f"{TABLE}/_temporary/job_1/00/{mark}")
    assert [one.reason for one in ray_committer.vacuum_jobs(URL)] == ["it has changed recently"]
    make_all_old(fake)
    assert [one.removed for one in ray_committer.vacuum_jobs(URL)] == [True]
    assert [*fake.buckets["bucket"]] == [f"{TABLE[1:]}/a"]


def run(*words: str) -> str:
    result = CliRunner().invoke(main, ["vacuum", URL, *words])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_command_shows_the_first_ones_and_all_as_json(fake: FakeS3):
    for number in range(25):
        begin(fake, f"{TABLE}/{number:02d}")
    shown = run("--dry-run")
    assert f"{URL}: 0 of 0 jobs would be removed\n25 of 25 uploads of no job would be aborted" in shown
    assert f"{TABLE}/19: would be aborted" in shown
    assert f"{TABLE}/20: " not in shown
    assert "and 5 more; --output json shows all" in shown
    found = json.loads(run("--output", "json"))["uploads"]
    assert [one["path"] for one in found] == [f"{TABLE}/{number:02d}" for number in range(25)]
    assert fake.uploads == {}
