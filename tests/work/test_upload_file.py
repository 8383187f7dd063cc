"""Files of task attempts as uploads: parts, notes, retries and what an abort finds."""

from __future__ import annotations

import gc
import json
from collections import Counter
from hashlib import md5

import pytest

from ray_committer.errors import ManifestError, TaskCommitError
from ray_committer.protocol.actions import CompleteUpload, predict_etag
from ray_committer.protocol.manifest import FileEntry, TaskManifest, copy_name, digest, encode_manifest
from ray_committer.stores import parts
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.parts import part_bytes
from ray_committer.work import upload_file
from ray_committer.work.upload_file import TaskUploads, closed_uploads, read_notes, save_copy
from tests.servers.fake_s3 import FakeS3, direct_store

PART = 5 << 20
DIRECTORY = "/t/_temporary/j/00/tasks/a"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_BYTES", PART)


@pytest.fixture
def fake() -> FakeS3:
    return FakeS3()


@pytest.fixture
def uploads(fake: FakeS3) -> TaskUploads:
    return TaskUploads(direct_store(fake), DIRECTORY, "stamp")


def notes(fake: FakeS3) -> list[dict[str, object]]:
    return [json.loads(one.data) for name, one in fake.buckets["bucket"].items() if "upload" in name]


@pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 3 * PART])
def test_a_file_is_cut_into_parts_whose_etags_are_in_its_entry(
    fake: FakeS3, uploads: TaskUploads, size: int
):
    data = bytes(range(251)) * (size // 251 + 1)
    with uploads.open("/t/a b") as file:
        for low in range(0, size, 1_234_567):
            file.write(data[:size][low : low + 1_234_567])
    (entry,) = uploads.entries()
    parts = [data[:size][low : low + PART] for low in range(0, max(size, 1), PART)]
    etags = tuple(md5(part).hexdigest() for part in parts)
    assert (entry.d, entry.z, entry.p) == ("s3://bucket/t/a%20b", size, etags)
    assert entry.e == predict_etag(etags)
    assert closed_uploads(direct_store(fake), DIRECTORY) == [entry]
    action = CompleteUpload("/t/a b", entry.u or "", entry.p)
    direct_store(fake).publish(action)
    found = fake.buckets["bucket"]["t/a b"]
    assert (found.data, found.etag) == (data[:size], entry.e)


def test_a_small_file_takes_three_requests(fake: FakeS3, uploads: TaskUploads):
    fake.requests.clear()
    with uploads.open("/t/a") as file:
        file.write(b"12345")
    assert Counter(method for method, _, _ in fake.requests) == {"POST": 1, "PUT": 2}


def test_an_upload_is_noted_before_its_first_part(fake: FakeS3):
    def look(method: str, name: str, query: str) -> None:
        if method == "PUT" and "partNumber=" in query:
            assert [one["u"] for one in notes(fake)] == [*fake.uploads]

    uploads = TaskUploads(direct_store(fake, before=look), DIRECTORY, "stamp")
    with uploads.open("/t/small") as file:
        file.write(b"1")
    del fake.uploads[next(iter(fake.uploads))]
    fake.buckets["bucket"].clear()
    with uploads.open("/t/large") as file:
        file.write(b"1" * (2 * PART + 1))
    assert sum("partNumber" in query for _, _, query in fake.requests) == 4


def noted_uploads(store: StoreOperations, *, skips_damaged: bool = False) -> list[FileEntry]:
    notes = read_notes(store, DIRECTORY, skips_damaged=skips_damaged)
    return [entry for _, found in notes for entry in found]


def test_what_is_not_closed_has_no_entry_but_is_found_by_an_abort(fake: FakeS3, uploads: TaskUploads):
    file = uploads.open("/t/a")
    file.write(b"1" * (PART + 1))
    with pytest.raises(TaskCommitError, match="/t/a: was opened but not closed"):
        uploads.entries()
    store = direct_store(fake)
    assert closed_uploads(store, DIRECTORY) == []
    assert [one.d for one in noted_uploads(store)] == ["s3://bucket/t/a"]
    uploads.abort()
    uploads.abort()
    assert fake.uploads == {}


@pytest.mark.parametrize("size", [1, PART + 1])
def test_a_file_that_was_aborted_and_is_forgotten_uploads_nothing(fake: FakeS3, size: int):
    """The garbage collector closes files, and the close of a file uploads the rest of it."""
    uploads = TaskUploads(direct_store(fake), DIRECTORY, "stamp")
    uploads.open("/t/a").write(b"1" * size)
    uploads.abort()
    before = dict(fake.buckets.get("bucket", {}))
    del uploads
    gc.collect()
    assert fake.uploads == {}
    assert fake.buckets.get("bucket", {}) == before


def test_a_file_is_opened_once(uploads: TaskUploads):
    uploads.open("/t/a").close()
    with pytest.raises(FileExistsError, match="was opened before"):
        uploads.open("/t/a")


def test_a_failed_part_is_an_error_of_a_later_write_or_of_the_close(fake: FakeS3):
    def fail(method: str, name: str, query: str) -> None:
        if "partNumber=2" in query:
            raise PermissionError("denied")

    uploads = TaskUploads(direct_store(fake, before=fail), DIRECTORY, "stamp")
    file = uploads.open("/t/a")
    file.write(b"1" * (2 * PART))
    with pytest.raises(PermissionError):
        file.close()
    assert file.closed
    with pytest.raises(TaskCommitError):
        uploads.entries()


def test_etags_that_are_no_md5_predict_nothing_and_are_noted(fake: FakeS3, uploads: TaskUploads):
    fake.hides_md5 = True
    with uploads.open("/t/a") as file:
        file.write(b"1")
    (entry,) = uploads.entries()
    assert entry.e is None
    assert closed_uploads(direct_store(fake), DIRECTORY) == [entry]


def test_parts_grow_so_that_ten_thousand_are_enough(
    monkeypatch: pytest.MonkeyPatch, uploads: TaskUploads
):
    sizes = [part_bytes(parts) for parts in range(10_000)]
    assert max(sizes) == 64 << 20
    assert sum(sizes) > 300_000_000_000
    monkeypatch.setattr(upload_file, "MAX_PARTS", 1)
    file = uploads.open("/t/a")
    file.write(b"1" * (PART + 1))
    with pytest.raises(OSError, match="needs more than 1 parts: write smaller files"):
        file.close()


def test_the_notes_give_way_to_one_copy_of_the_manifest(fake: FakeS3, uploads: TaskUploads):
    for number in range(3):
        uploads.open(f"/t/{number}").close()
    store = direct_store(fake)
    entries = uploads.entries()
    saved = encode_manifest(TaskManifest(files=entries))
    save_copy(store, DIRECTORY, saved)
    assert closed_uploads(store, DIRECTORY) == entries
    uploads.remove_notes()
    assert [one.name for one in store.list_files(DIRECTORY)] == [copy_name(digest(saved))]
    assert noted_uploads(store) == entries


def test_a_damaged_note_is_named(fake: FakeS3):
    store = direct_store(fake)
    store.write(f"{DIRECTORY}/uploads/0.upload", b"{")
    with pytest.raises(ManifestError, match=r"0\.upload: is not the note of an upload"):
        noted_uploads(store)
    assert noted_uploads(store, skips_damaged=True) == []
