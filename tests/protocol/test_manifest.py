"""Task manifests: Hadoop's own, everything its reader accepts or refuses, and what ours writes."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.errors import ManifestError
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.manifest import (
    MANIFEST_TYPE,
    DirEntry,
    FileEntry,
    TaskManifest,
    decode_manifest,
    digest,
    encode_manifest,
)
from ray_committer.protocol.uri import parse_uri

DATA = Path(__file__).parents[1] / "data" / "hadoop"
REAL = sorted(DATA.glob("manifests/*/*-manifest.json"))
MR_JOB = DATA / "manifests" / "job_202401011200_0007"
ENTRY = {"s": "file:/d/_temporary/j/00/tasks/t/a", "d": "file:/d/a", "z": 1}


def document(**fields: Any) -> bytes:
    return json.dumps({"type": MANIFEST_TYPE, "version": 1, "files": [ENTRY], **fields}).encode()


def without(name: str, **fields: Any) -> bytes:
    kept = {"type": MANIFEST_TYPE, "version": 1, "files": [ENTRY], **fields}
    del kept[name]
    return json.dumps(kept).encode()


def entry(**fields: Any) -> bytes:
    return document(files=[{**ENTRY, **fields}])


def entry_without(name: str) -> bytes:
    return document(files=[{key: value for key, value in ENTRY.items() if key != name}])


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_manifest_decodes_field_by_field(path: Path) -> None:
    raw = json.loads(path.read_text("utf-8"))
    manifest = decode_manifest(path.read_bytes(), str(path))
    assert manifest.job_id == raw["jobId"] == path.parent.name
    assert manifest.job_attempt_number == raw["jobAttemptNumber"]
    assert path.name == f"{manifest.task_id}-manifest.json"
    assert manifest.task_attempt_id == raw["taskAttemptID"]
    assert manifest.task_attempt_dir == raw["taskAttemptDir"]
    assert [(file.s, file.d, file.z) for file in manifest.files] == [
        (file["s"], file["d"], file["z"]) for file in raw["files"]
    ]
    assert all(file.e is None and file.m is None for file in manifest.files)
    assert [(item.d, item.t, item.l) for item in manifest.directories or ()] == [
        (item["d"], item["t"], item["l"]) for item in raw["directories"]
    ]
    assert manifest.iostatistics is not None
    assert manifest.iostatistics.counters == raw["iostatistics"]["counters"]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_manifest_names_only_paths_that_parse(path: Path) -> None:
    manifest = decode_manifest(path.read_bytes(), str(path))
    attempt = parse_uri(manifest.task_attempt_dir or "")
    root = attempt.path.partition("/_temporary/")[0]
    for file in manifest.files:
        source, dest = parse_uri(file.s), parse_uri(file.d)
        assert source.path.removeprefix(attempt.path) == dest.path.removeprefix(root)
        assert (source.scheme, source.authority) == (dest.scheme, dest.authority) == ("file", "")
    assert all(parse_uri(item.d).path.startswith(root + "/") for item in manifest.directories or ())


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_real_manifest_survives_our_writer(path: Path) -> None:
    manifest = decode_manifest(path.read_bytes(), str(path))
    assert decode_manifest(encode_manifest(manifest), "again") == manifest


def test_odd_names_of_a_real_manifest_decode_to_the_names_on_disk() -> None:
    data = (MR_JOB / "task_202401011200_0007_m_000001-manifest.json").read_bytes()
    found = {parse_uri(file.d).path.removeprefix("/warehouse/table one/") for file in
             decode_manifest(data, "p").files}  # fmt: skip
    assert found == {
        "emoji=😀/🚀.bin",
        "name=%3A/colon-escaped.txt",
        "name=100%/x%20y.txt",
        "name=a b/part 1.txt",
        "name=a+b&c;d@e$f,g/plus.txt",
        "name=é日本/ü€.txt",
        "nbsp=\u00a0x/\u2028ls.txt",
        'q="quo\'te"/b\\s|^`{}<>.txt',
        "q=?#[]/h#a?s[h].txt",
        "t=\t/tab\t.txt",
        "tilde=~!*'()/f.txt",
    }


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(document(), id="compact"),
        pytest.param(json.dumps(json.loads(document()), indent=2).encode(), id="pretty"),
        pytest.param(document(iostatistics=None), id="null statistics"),
        pytest.param(document(iostatistics={}), id="empty statistics"),
        pytest.param(document(iostatistics={"counters": {"a": 1}}), id="partial statistics"),
        pytest.param(document(unknown=[1, {"x": None}], checksum="x"), id="unknown fields"),
        pytest.param(entry(crc="00", n=None), id="unknown fields in an entry"),
        pytest.param(document(directories=[{"d": "file:/d/e", "x": 1}]), id="unknown in a directory"),
        pytest.param(document(extraData={"a": 5, "b": 1.5, "c": "x"}), id="numbers in extraData"),
        pytest.param(document(extraData=None), id="null extraData"),
        pytest.param(without("type"), id="no type"),
        pytest.param(document(jobId=None, taskID=None, taskAttemptID=None), id="null ids"),
        pytest.param(document(directories=None), id="null directories"),
        pytest.param(without("version"), id="no version"),
        pytest.param(document(version="1"), id="version as text"),
        pytest.param(document(jobAttemptNumber="3"), id="attempt as text"),
        pytest.param(entry(z="1"), id="size as text"),
        pytest.param(entry(e=None), id="null etag"),
        pytest.param(document(directories=[{"d": "file:/d/e"}]), id="directory without t and l"),
        pytest.param(document(directories=[{"d": "file:/d/e", "t": 9, "l": 1}]), id="unknown status"),
        pytest.param(b"\xef\xbb\xbf" + document(), id="byte-order mark"),
        pytest.param(document() + b"\n\n", id="white space after"),
        pytest.param(document() + b" garbage", id="garbage after"),
        pytest.param(document() + document(), id="a second object after"),
        pytest.param(b"\xef\xbb\xbf" + document() + b"}", id="byte-order mark and garbage"),
        pytest.param(b" \n" + document() + b"\0\0\0", id="white space before, NULs after"),
    ],
)
def test_what_hadoop_reads_is_read(data: bytes) -> None:
    manifest = decode_manifest(data, "p")
    assert manifest.files == [FileEntry(s=ENTRY["s"], d=ENTRY["d"], z=1)]
    assert manifest.version == 1


def test_scheme_less_paths_are_kept_as_they_are() -> None:
    manifest = decode_manifest(entry(s="/d/t/a%20b", d="/d/a%20b"), "p")
    assert parse_uri(manifest.files[0].d).path == "/d/a b"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(document(type="other"), "not a task manifest", id="another type"),
        pytest.param(document(version=2), "version 2", id="version 2"),
        pytest.param(document(version="2"), "version 2", id="version 2 as text"),
        pytest.param(document(version=0), "version 0", id="version 0"),
        pytest.param(entry(z=-1), "negative size", id="negative size"),
        pytest.param(entry_without("d"), "`d`", id="no destination"),
        pytest.param(entry_without("s"), "`s`", id="no source"),
        pytest.param(entry(d=""), "without a source or destination", id="empty destination"),
        pytest.param(entry(s=""), "without a source or destination", id="empty source"),
        pytest.param(entry(d=None), "got `null`", id="null destination"),
        pytest.param(document(files=None), "got `null`", id="null files"),
        pytest.param(document(files=[None]), "got `null`", id="null entry"),
        pytest.param(document(directories=[{"t": 1}]), "`d`", id="directory without destination"),
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b" \n", "truncated", id="white space only"),
        pytest.param(b"\0" * 512, "truncated", id="NULs, as after a power cut"),
        pytest.param(document()[:-1], "truncated", id="truncated"),
        pytest.param(b"[]", "got `array`", id="an array"),
        pytest.param(document().decode().encode("utf-16"), "not JSON", id="UTF-16"),
        pytest.param(b"PAR1\x15\x04", "not JSON", id="a Parquet file"),
        pytest.param(
            b'{"files":[],"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "not JSON", id="deep"
        ),
        pytest.param(b'{"files":[],"jobId":"\xff"}', "not JSON", id="not UTF-8"),
    ],
)
def test_what_hadoop_refuses_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason) as caught:
        decode_manifest(data, "/d/task-manifest.json")
    assert str(caught.value).startswith("/d/task-manifest.json: ")
    assert caught.value.exit_code == 1


UPLOAD = {"d": "s3://b/d/a", "z": 1, "u": "2~id/+=", "p": ["0" * 32, "1" * 32], "e": "2" * 32 + "-2"}


def upload(**fields: Any) -> bytes:
    kept = {key: value for key, value in {**UPLOAD, **fields}.items() if value is not None}
    return document(files=[kept])


def test_an_upload_is_read_as_it_was_written_and_takes_less_than_200_bytes() -> None:
    entries = [FileEntry(d="s3://b/d/a", z=1, u="2~id/+=", p=("0" * 32, "1" * 32), e="2" * 32 + "-2")]
    data = encode_manifest(TaskManifest(files=entries))
    assert json.loads(data)["files"] == [UPLOAD]
    assert decode_manifest(data, "p").files == entries
    assert len(msgspec.json.encode(entries[0])) < 200


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(upload(s="s3://b/s"), "both a file to rename and an upload", id="with a source"),
        pytest.param(upload(u=""), "without a source or destination", id="empty id"),
        pytest.param(upload(u=None), "without a source or destination", id="no id"),
        pytest.param(entry(p=["0"]), "both a file to rename and an upload", id="parts of a rename"),
        pytest.param(upload(p=None), "without the etag of a part", id="no parts"),
        pytest.param(upload(p=[]), "without the etag of a part", id="zero parts"),
        pytest.param(upload(p=["0", ""]), "without the etag of a part", id="an empty etag"),
        pytest.param(upload(p=["0", None]), "got `null`", id="a null etag"),
        pytest.param(upload(p="00"), "got `str`", id="parts as text"),
        pytest.param(upload(p=["0"] * 10_001), "at most 10000", id="too many parts"),
        pytest.param(upload(z=-1), "negative size", id="negative size"),
        pytest.param(upload(z=None), "`z`", id="no size"),
    ],
)
def test_an_upload_that_cannot_be_completed_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason) as caught:
        decode_manifest(data, "/d/task-manifest.json")
    assert str(caught.value).startswith("/d/task-manifest.json: ")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(without("files"), "`files`", id="no files"),
        pytest.param(entry_without("z"), "`z`", id="no size"),
        pytest.param(entry(z=None), "got `null`", id="null size"),
        pytest.param(entry(z=1.5), "got `float`", id="a fraction of a byte"),
        pytest.param(without("files") + b" garbage", "`files`", id="no files, garbage after"),
        pytest.param(document(files=[ENTRY, {"s": "a", "d": "b"}]), r"files\[1\]", id="second entry"),
    ],
)
def test_what_makes_hadoop_lose_files_silently_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ManifestError, match=reason):
        decode_manifest(data, "p")


def test_every_truncation_is_refused() -> None:
    data = document(directories=[{"d": "file:/d/e"}], extraData={"a": "é😀"})
    assert decode_manifest(data, "p").files
    for length in range(len(data)):
        with pytest.raises(ManifestError):
            decode_manifest(data[:length], "p")


@given(st.binary(max_size=200), st.sampled_from([b"", b'{"files":[],"x":', b'{"files":[]}', b"[", b'"']))
def test_arbitrary_bytes_raise_no_other_error(data: bytes, start: bytes) -> None:
    with suppress(ManifestError):
        assert decode_manifest(start + data, "p").files == []


def empty_task() -> TaskManifest:
    return TaskManifest(
        job_id="job_202401011200_0007",
        task_id="task_202401011200_0007_m_000002",
        task_attempt_id="attempt_202401011200_0007_m_000002_0",
        task_attempt_dir="file:/warehouse/table/_temporary/job_202401011200_0007/00/tasks/"
        "attempt_202401011200_0007_m_000002_0",
        files=[],
        directories=[],
        extra_data={},
    )


def test_an_empty_tasks_manifest_is_small_and_without_statistics() -> None:
    data = encode_manifest(empty_task())
    assert len(data) < 600
    assert json.loads(data).get("iostatistics") is None
    real = MR_JOB / "task_202401011200_0007_m_000002-manifest.json"
    assert real.stat().st_size > 30 * len(data)


def test_fields_are_named_as_hadoop_names_them() -> None:
    real = json.loads((MR_JOB / "task_202401011200_0007_m_000000-manifest.json").read_bytes())
    ours = json.loads(
        encode_manifest(
            TaskManifest(
                files=[FileEntry(s="file:/s", d="file:/d", z=0)], directories=[DirEntry("file:/e", 1, 2)]
            )
        )
    )
    assert ours.keys() | {"iostatistics"} == real.keys()
    assert ours["files"][0].keys() == real["files"][0].keys() == {"s", "d", "z"}
    assert ours["directories"][0].keys() == real["directories"][0].keys() == {"d", "t", "l"}
    assert (ours["type"], ours["version"]) == (real["type"], real["version"])


def test_optional_entry_fields_are_left_out_or_written_under_their_names() -> None:
    full = FileEntry(s="file:/s", d="file:/d", z=0, e="etag", m=1_700_000_000_123)
    written = json.loads(encode_manifest(TaskManifest(files=[full])))["files"][0]
    assert written == {"s": "file:/s", "d": "file:/d", "z": 0, "e": "etag", "m": 1_700_000_000_123}


@given(
    st.builds(
        TaskManifest,
        job_id=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        job_attempt_number=st.integers(0, 99),
        files=st.lists(
            st.builds(
                FileEntry,
                s=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
                d=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
                z=st.integers(0, 2**63 - 1),
                e=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
                m=st.none() | st.integers(0, 2**62),
            ),
            max_size=5,
        ),
        directories=st.none() | st.lists(st.builds(DirEntry, d=st.just("file:/é"), l=st.integers(0, 9))),
        extra_data=st.none() | st.dictionaries(st.text("ab"), st.text("cd")),
        iostatistics=st.none() | st.just(IOStatistics(counters={"a": 1})),
    )
)
def test_manifests_round_trip(manifest: TaskManifest) -> None:
    data = encode_manifest(manifest)
    assert decode_manifest(data, "p") == manifest
    assert decode_manifest(data + b" x", "p") == manifest


def test_digest_is_the_sha256_of_the_bytes_not_of_the_value() -> None:
    data = document()
    assert digest(data) == hashlib.sha256(data).hexdigest()
    assert digest(data + b"\n") != digest(data)
    assert decode_manifest(data + b"\n", "p") == decode_manifest(data, "p")
