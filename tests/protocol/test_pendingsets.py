"""Pendingsets: those of Hadoop's S3A committer, those that lie, and those that are written here."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_committer.errors import ManifestError
from ray_committer.protocol.actions import predict_etag
from ray_committer.protocol.magic_paths import MagicJob
from ray_committer.protocol.manifest import FileEntry, TaskManifest
from ray_committer.protocol.pendingsets import (
    LONGEST_KEY,
    SMALLEST_PART,
    decode_pending,
    decode_pendingset,
)
from ray_committer.protocol.uri import Location, format_uri, parse_uri
from tests.pendingsets import encode_pendingset, pendingset_path

DATA = Path(__file__).parents[1] / "data" / "s3a"
UUID = "0b0c7a4e-7b52-4f2e-9f0a-1c2d3e4f5a6b"
JOB = MagicJob("warehouse", "/table one", UUID)
TRACKER = "202401011200_0007_m"
TASK = f"task_{TRACKER}_000000"
ATTEMPT = f"attempt_{TRACKER}_000000_0"
PATH = pendingset_path(JOB, TASK)
MD5 = "0123456789abcdef" * 2
UPLOAD: dict[str, Any] = {
    "version": 2,
    "uri": "s3a://warehouse/elsewhere",
    "uploadId": "2~id/+=._-",
    "bucket": "warehouse",
    "destinationKey": "table one/p=1/a",
    "taskId": ATTEMPT,
    "etags": [MD5],
    "length": 3,
}


def real(task: int) -> tuple[bytes, str]:
    """A pendingset as Hadoop wrote it, and where it was."""
    name = f"task_{TRACKER}_{task:06d}"
    return (DATA / f"{name}.pendingset").read_bytes(), pendingset_path(JOB, name)


def document(*uploads: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"version": 3, "jobId": UUID, "commits": uploads or [UPLOAD], **fields}).encode()


def upload(**fields: Any) -> bytes:
    return document({**UPLOAD, **fields})


def without(field: str) -> bytes:
    return document({name: value for name, value in UPLOAD.items() if name != field})


def decode(data: bytes) -> TaskManifest:
    return decode_pendingset(data, PATH, JOB)


def test_odd_names_of_a_real_pendingset_are_those_of_its_objects() -> None:
    manifest = decode_pendingset(*real(0), JOB)
    assert (manifest.job_id, manifest.job_attempt_number) == (UUID, 0)
    assert (manifest.task_id, manifest.task_attempt_id) == (TASK, ATTEMPT)
    found = {parse_uri(file.d).path.removeprefix("/table one/"): file.z for file in manifest.files}
    assert found == {
        "emoji=😀/🚀.bin": 2,
        "name=100%/x%20y.txt": 3,
        "name=a b+c&d;e/f#g?.txt": 1,
        "name=é日本/ü€.txt": 1,
        "p=1/plain": 3,
        "q=\"quo'te/<{|}^`>\\.txt": 1,
        "tilde=~!*'()/@$,=.txt": 0,
    }
    assert all(parse_uri(file.d).authority == "warehouse" for file in manifest.files)
    assert all(parse_uri(file.d).scheme == "s3" for file in manifest.files)


@pytest.mark.parametrize("task", range(3))
def test_a_real_pendingset_is_read_field_by_field(task: int) -> None:
    data, path = real(task)
    manifest = decode_pendingset(data, path, JOB)
    commits = json.loads(data)["commits"]
    assert [(file.u, list(file.p or ()), file.z) for file in manifest.files] == [
        (one["uploadId"], one["etags"], one["length"]) for one in commits
    ]
    assert [f"/{one['destinationKey']}" for one in commits] == [
        parse_uri(file.d).path for file in manifest.files
    ]
    assert [file.e for file in manifest.files] == [predict_etag(one["etags"]) for one in commits]
    assert all(file.e and not file.s for file in manifest.files)


def test_the_parts_of_a_large_file_keep_their_order() -> None:
    (file,) = decode_pendingset(*real(1), JOB).files
    assert file.z == 5 * 1024 * 1024 + 1
    assert len(file.p or ()) == 2
    assert (file.e or "").endswith("-2")


def test_a_task_without_files_has_a_pendingset_without_uploads() -> None:
    manifest = decode_pendingset(*real(2), JOB)
    assert (manifest.files, manifest.task_attempt_id) == ([], None)
    assert manifest.task_id == f"task_{TRACKER}_000002"


def test_a_real_upload_of_a_task_that_is_not_committed_is_read() -> None:
    path = f"{JOB.directories[0]}/tasks/attempt_{TRACKER}_000003_0/__base/p=3/uncommitted one.pending"
    entry = decode_pending((DATA / "uncommitted_one.pending").read_bytes(), path, JOB)
    assert parse_uri(entry.d).path == "/table one/p=3/uncommitted one"
    assert (entry.z, len(entry.p or ())) == (1, 1)


def test_a_tab_in_a_name_that_hadoop_writes_is_refused() -> None:
    with pytest.raises(
        ManifestError, match=r"^/p: destinationKey: 'table one/tab\\tname' has a control"
    ):
        decode_pending((DATA / "tab_name.pending").read_bytes(), "/p", JOB)


def test_the_job_attempt_is_that_of_the_directory() -> None:
    path = f"{JOB.directories[1]}/03/{TASK}.pendingset"
    assert decode_pendingset(document(), path, JOB).job_attempt_number == 3


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(document(), id="compact"),
        pytest.param(json.dumps(json.loads(document()), indent=2).encode(), id="pretty"),
        pytest.param(document(jobId=""), id="no job id"),
        pytest.param(document(jobId=None), id="null job id"),
        pytest.param(document(later={"a": [1]}), id="unknown field"),
        pytest.param(upload(uri=""), id="no uri"),
        pytest.param(upload(uri="s3a://other/../x"), id="hostile uri"),
        pytest.param(upload(length="3"), id="number as text"),
        pytest.param(upload(etags=[f'"{MD5}"']), id="quoted etag, as version 2 of the SDK has it"),
        pytest.param(upload(etags=[{"etag": MD5}]), id="etag as an object"),
        pytest.param(
            upload(etags=[{"etag": f'"{MD5}"', "checksumAlgorithm": None, "checksum": None}]),
            id="etag as an object without a checksum",
        ),
        pytest.param(upload(extraData={"task.attempt.id": "x"}, partCount=1), id="extra data"),
    ],
)
def test_what_hadoop_reads_is_read(data: bytes) -> None:
    (file,) = decode(data).files
    assert file == FileEntry(
        d="s3://warehouse/table%20one/p=1/a", z=3, e=predict_etag([MD5]), u="2~id/+=._-", p=(MD5,)
    )


def test_nothing_is_predicted_if_etags_are_no_md5_sums() -> None:
    (file,) = decode(upload(etags=["abc-def"])).files
    assert (file.p, file.e) == (("abc-def",), None)


def key(name: str) -> bytes:
    return upload(destinationKey=name)


MANY = [MD5] * 10_001


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(document()[:-5], "truncated", id="truncated"),
        pytest.param(document() + b"x", "truncated or not JSON", id="text after it"),
        pytest.param(b"\xff\xfe", "not JSON", id="no UTF-8"),
        pytest.param(b"[]", "Expected `object`", id="a list"),
        pytest.param(b"[" * 100_000, "Expected `object`", id="deep"),
        pytest.param(b'{"x":' * 100_000, "not JSON", id="deep and unknown"),
        pytest.param(document(version=4), "version: is 4, but only 3", id="newer"),
        pytest.param(document(version=2), "version: is 2, but only 3", id="older"),
        pytest.param(document(version=4, commits={}), "version: is 4", id="newer with other fields"),
        pytest.param(document(version="x"), "version", id="no version"),
        pytest.param(document(commits=None), "commits", id="null uploads"),
        pytest.param(b'{"version": 3}', "`commits`", id="no uploads"),
        pytest.param(document(jobId="other"), "jobId: is 'other'", id="another job"),
        pytest.param(upload(version=3), r"commits\[0\].version: is 3, but only 2", id="newer upload"),
        pytest.param(without("version"), "`version`", id="no version of an upload"),
        pytest.param(upload(bucket="other"), r"commits\[0\].bucket: is 'other'", id="another bucket"),
        pytest.param(upload(bucket=""), r"commits\[0\].bucket", id="empty bucket"),
        pytest.param(without("bucket"), "`bucket`", id="no bucket"),
        pytest.param(key("other/a"), r"commits\[0\].destinationKey.*not below", id="outside"),
        pytest.param(key("table one"), "not below the destination", id="the destination itself"),
        pytest.param(key("table one2/a"), "not below the destination", id="beside it"),
        pytest.param(key("table one/../b/a"), "'..'", id="dots"),
        pytest.param(key("table one/./a"), "'..'", id="dot"),
        pytest.param(key("/table one/a"), "empty element", id="leading slash"),
        pytest.param(key("table one//a"), "empty element", id="two slashes"),
        pytest.param(key("table one/a/"), "empty element", id="trailing slash"),
        pytest.param(key(""), "empty element", id="empty key"),
        pytest.param(key("table one/a\x01"), "control character", id="control character"),
        pytest.param(key("table one/a\nb"), "control character", id="newline"),
        pytest.param(key("table one/a\x00"), "control character", id="NUL"),
        pytest.param(key("table one/a\x9f"), "control character", id="C1"),
        pytest.param(key("table one/a\ufffe"), "no character", id="no character"),
        pytest.param(upload().replace(b"p=1/a", b"\\ud800"), "not JSON", id="half a pair"),
        pytest.param(key("table one/" + "ü" * 512), "longer than 1024", id="long"),
        pytest.param(key(f"table one/__magic/job-{UUID}/x"), "committer itself", id="magic"),
        pytest.param(key("table one/p=1/__magic_job-1/x"), "committer itself", id="magic of 3.4"),
        pytest.param(without("destinationKey"), "`destinationKey`", id="no key"),
        pytest.param(without("etags"), "`etags`", id="no etags"),
        pytest.param(upload(etags=None), "etags", id="null etags"),
        pytest.param(upload(etags=[]), r"etags: names 0 parts", id="zero etags"),
        pytest.param(upload(etags=[MD5, ""]), r"etags\[1\]: is ''", id="empty etag"),
        pytest.param(upload(etags=['"']), r"etags\[0\]", id="a quote"),
        pytest.param(upload(etags=[None]), "etags", id="null etag"),
        pytest.param(upload(etags=["a<b"]), r"etags\[0\]", id="XML in an etag"),
        pytest.param(upload(etags=["a\nb"]), r"etags\[0\]", id="newline in an etag"),
        pytest.param(
            upload(etags=[{"etag": MD5, "checksumAlgorithm": "CRC32", "checksum": "x=="}]),
            r"etags\[0\].checksum: is not supported",
            id="checksum",
        ),
        pytest.param(upload(etags=MANY, length=2**40), "names 10001 parts", id="too many parts"),
        pytest.param(upload(etags=[MD5] * 3, length=2 * SMALLEST_PART - 1), "length", id="small parts"),
        pytest.param(upload(length=-1), "length: is negative", id="negative"),
        pytest.param(upload(length=2**63), "length", id="no Java long"),
        pytest.param(without("length"), "`length`", id="no length"),
        pytest.param(upload(uploadId=""), "uploadId: is ''", id="empty upload id"),
        pytest.param(upload(uploadId="a b"), "uploadId", id="space in an upload id"),
        pytest.param(upload(uploadId="a\r\nx"), "uploadId", id="newline in an upload id"),
        pytest.param(upload(uploadId="x" * 1025), "uploadId", id="long upload id"),
        pytest.param(without("uploadId"), "`uploadId`", id="no upload id"),
        pytest.param(
            document(UPLOAD, {**UPLOAD, "uploadId": "two"}),
            "destinationKey: 'table one/p=1/a' is named by two uploads",
            id="two uploads of one file",
        ),
        pytest.param(
            document(UPLOAD, {**UPLOAD, "destinationKey": "table one/b"}),
            "uploadId: '2~id/[+]=._-' is named by two uploads",
            id="two files of one upload",
        ),
        pytest.param(
            document(UPLOAD, {**UPLOAD, "taskId": f"attempt_{TRACKER}_000000_1"}),
            r"commits\[1\].taskId: is .*_000000_1', of another task attempt",
            id="two attempts",
        ),
        pytest.param(
            upload(taskId=f"attempt_{TRACKER}_000001_0"), "another task attempt", id="another task"
        ),
    ],
)
def test_what_this_job_must_not_complete_is_refused_by_file_and_field(data: bytes, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason) as caught:
        decode(data)
    assert str(caught.value).startswith(f"{PATH}: ")
    assert len(str(caught.value)) < 2 * LONGEST_KEY + 500


def test_an_upload_at_the_limits_is_read() -> None:
    longest = "table one/" + "ü" * 507
    most = upload(destinationKey=longest, etags=MANY[1:], length=9_999 * SMALLEST_PART)
    (file,) = decode(most).files
    assert (len(file.p or ()), parse_uri(file.d).path) == (10_000, f"/{longest}")


def test_a_job_in_a_whole_bucket_completes_keys_anywhere_in_it() -> None:
    job = MagicJob("warehouse", "/", UUID)
    (file,) = decode_pendingset(document(), pendingset_path(job, TASK), job).files
    assert parse_uri(file.d).path == "/table one/p=1/a"


@pytest.mark.parametrize("task", range(3))
def test_a_real_pendingset_that_is_cut_off_anywhere_is_refused(task: int) -> None:
    data, path = real(task)
    whole = len(data.rstrip())
    for size in range(0, whole, 1 + whole // 200):
        with pytest.raises(ManifestError, match=r"is empty|truncated"):
            decode_pendingset(data[:size], path, JOB)


NAMES = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/\ufffe\uffff"), min_size=1
)
KEYS = st.lists(NAMES.filter(lambda name: name not in (".", "..")), min_size=1, max_size=3).map("/".join)
ETAGS = st.text("0123456789abcdef", min_size=32, max_size=32)
ENTRIES = st.builds(
    lambda name, number, parts: FileEntry(
        d=format_uri(Location("s3", "warehouse", f"/table one/{name}")),
        z=len(parts) * SMALLEST_PART,
        e=predict_etag(parts),
        u=f"id{number}",
        p=tuple(parts),
    ),
    KEYS.filter(lambda name: len(name.encode()) < 1_000 and "__magic" not in name),
    st.integers(0, 2**40),
    st.lists(ETAGS, min_size=1, max_size=3),
)


@settings(max_examples=30)
@given(st.lists(ENTRIES, max_size=4, unique_by=(lambda one: one.d, lambda one: one.u)))
def test_what_is_written_is_read_again(files: list[FileEntry]) -> None:
    attempt = ATTEMPT if files else None
    manifest = TaskManifest(job_id=UUID, task_id=TASK, task_attempt_id=attempt, files=files)
    data = encode_pendingset(manifest, JOB, milliseconds=1_700_000_000_123)
    assert decode(data) == manifest


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
HOSTILE = st.fixed_dictionaries(
    {},
    optional={
        "destinationKey": KEYS.map("table one/".__add__) | st.text() | ANYTHING,
        "bucket": st.sampled_from(["warehouse", "other", ""]) | ANYTHING,
        "uploadId": st.text() | ANYTHING,
        "etags": st.lists(ETAGS | st.text() | ANYTHING, max_size=3) | ANYTHING,
        "length": st.integers() | ANYTHING,
        "version": st.sampled_from([2, 2, 2, 1, 3]) | ANYTHING,
        "taskId": st.sampled_from([ATTEMPT, None, "", "x"]) | ANYTHING,
    },
)


@settings(max_examples=60)
@given(st.lists(HOSTILE, max_size=3))
def test_whatever_a_pendingset_says_only_files_of_this_job_are_completed(
    many: list[dict[str, Any]],
) -> None:
    with suppress(ManifestError):
        manifest = decode(document(*({**UPLOAD, **one} for one in many)))
        paths = [parse_uri(file.d) for file in manifest.files]
        assert all(path.authority == "warehouse" for path in paths)
        assert all(path.path.startswith("/table one/") for path in paths)
        assert (
            len({path.path for path in paths}) == len({file.u for file in manifest.files}) == len(paths)
        )
        assert all(file.z >= 0 and file.u and file.p and all(file.p) for file in manifest.files)


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "ignore")))
def test_noise_is_refused(data: bytes) -> None:
    with suppress(ManifestError):
        assert decode(data).files == []


@given(st.integers(0, 3_000), st.integers(0, 255))
def test_a_damaged_byte_does_no_harm(position: int, value: int) -> None:
    data, path = real(0)
    damaged = bytearray(data)
    damaged[position] = value
    with suppress(ManifestError):
        manifest = decode_pendingset(bytes(damaged), path, JOB)
        assert all(parse_uri(file.d).path.startswith("/table one/") for file in manifest.files)
