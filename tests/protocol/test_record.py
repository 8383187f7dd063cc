"""The commit record: round trips, sums, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.errors import ManifestError
from ray_committer.protocol.record import (
    CommitRecord,
    ConflictMode,
    ManifestRef,
    ReplacedFile,
    decode_record,
    encode_record,
)

RECORD = CommitRecord(
    nonce="n",
    job_id="job_1_0001",
    job_attempt=0,
    created_milliseconds=1,
    manifests=[
        ManifestRef("a-manifest.json", 10, "00", 2, 30),
        ManifestRef("b-manifest.json", 1, "ff", 1, 4),
    ],
)

text = st.text(st.characters(exclude_categories=["Cs"]))
records = st.builds(
    CommitRecord,
    nonce=text,
    job_id=text,
    job_attempt=st.integers(0, 99),
    created_milliseconds=st.integers(0, 2**53),
    manifests=st.lists(
        st.builds(
            ManifestRef,
            name=text,
            size=st.integers(0, 2**40),
            digest=text,
            files=st.integers(0, 2**40),
            bytes=st.integers(0, 2**60),
            task_attempt_id=st.none() | text,
            task_attempt_directory=st.none() | text,
        ),
        max_size=3,
    ),
    expected_tasks=st.none() | st.integers(0, 2**31),
    mode=st.sampled_from(ConflictMode),
    replaced=st.lists(st.builds(ReplacedFile, path=text, size=st.integers(0, 9), etag=st.none() | text)),
    overwritten=st.lists(st.builds(ReplacedFile, path=text, size=st.integers(0, 9)), max_size=2),
    partition_paths=st.lists(text, max_size=2),
    allowed_roots=st.lists(text, max_size=2),
    mark_success=st.booleans(),
)


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(encode_record(RECORD)), **fields}).encode()


def lacking(name: str) -> bytes:
    return json.dumps({k: v for k, v in json.loads(encode_record(RECORD)).items() if k != name}).encode()


@given(records)
def test_records_round_trip(record: CommitRecord) -> None:
    assert decode_record(encode_record(record), "p") == record


def test_files_and_bytes_are_those_of_all_manifests() -> None:
    assert (RECORD.files, RECORD.bytes) == (3, 34)


def test_the_nonce_can_be_found_in_the_bytes() -> None:
    # Workers on other nodes prove in this way that they see the same store.
    assert b"host-1234" in encode_record(CommitRecord(
        nonce="host-1234", job_id="j", job_attempt=0, created_milliseconds=0, manifests=[]
    ))  # fmt: skip


@pytest.mark.parametrize("version", [0, 2, 99])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(ManifestError, match=f"version {version}.*release"):
        decode_record(changed(version=version), "/d/_COMMIT.json")


@pytest.mark.parametrize(
    "field", ["nonce", "job_id", "job_attempt", "created_milliseconds", "manifests"]
)
def test_records_without_a_needed_field_are_refused(field: str) -> None:
    with pytest.raises(ManifestError, match=rf"/d/_COMMIT.json: .*`{field}`"):
        decode_record(lacking(field), "/d/_COMMIT.json")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="no fields"),
        pytest.param(encode_record(RECORD)[:-1], id="truncated"),
        pytest.param(encode_record(RECORD) + b"x", id="garbage after"),
        pytest.param(changed(mode="replace everything"), id="unknown mode"),
        pytest.param(changed(manifests=[{"name": "a"}]), id="incomplete manifest"),
        pytest.param(changed(version="1"), id="version as text"),
        pytest.param(b'{"nonce":"\xff"}', id="not UTF-8"),
        pytest.param(b'{"x":' + b"[" * 5000, id="deep"),
    ],
)
def test_what_we_cannot_have_written_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestError) as caught:
        decode_record(data, "/d/_COMMIT.json")
    assert str(caught.value).startswith("/d/_COMMIT.json: ")
