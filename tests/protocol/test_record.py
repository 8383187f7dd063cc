"""The commit record and what stands before and beside it: round trips, sums, and what is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ray_committer.errors import ManifestError
from ray_committer.protocol.pack import PackRef
from ray_committer.protocol.record import (
    Claim,
    CommitRecord,
    ConflictMode,
    Declaration,
    Heartbeat,
    Owner,
    ReplacedFile,
    decode_claim,
    decode_heartbeat,
    decode_record,
    encode,
)

OWNER = Owner("host", "boot", 1, 2, "run")
RECORD = CommitRecord(
    nonce="n",
    job_id="job_1_0001",
    job_attempt=0,
    created_milliseconds=1,
    owner=OWNER,
    claim=Claim(["/d"]),
    packs=[PackRef("1-00", "00", 10, 2, 30), PackRef("2-ff", "ff", 1, 1, 4)],
    tasks=2,
)

text = st.text(st.characters(exclude_categories=["Cs"]))
owners = st.builds(
    Owner, host=text, boot=text, process=st.integers(0, 9), started=st.integers(0, 2**60), run=text
)
claims = st.builds(Claim, writes=st.lists(text, max_size=2), excludes=st.lists(text, max_size=2))
common = {
    "nonce": text,
    "job_id": text,
    "job_attempt": st.integers(0, 99),
    "created_milliseconds": st.integers(0, 2**53),
    "owner": owners,
    "claim": claims,
}
declarations = st.builds(Declaration, **common)
heartbeats = st.builds(
    Heartbeat, owner=owners, at_milliseconds=st.integers(0, 2**53), files=st.integers(0, 2**40)
)
records = st.builds(
    CommitRecord,
    **common,
    packs=st.lists(
        st.builds(
            PackRef,
            name=text,
            size=st.integers(0, 2**40),
            digest=text,
            files=st.integers(0, 2**40),
            bytes=st.integers(0, 2**60),
        ),
        max_size=3,
    ),
    tasks=st.integers(0, 2**31),
    digests=st.lists(text, max_size=2),
    expected_tasks=st.none() | st.integers(0, 2**31),
    mode=st.sampled_from(ConflictMode),
    replaced=st.lists(st.builds(ReplacedFile, path=text, size=st.integers(0, 9), etag=st.none() | text)),
    overwritten=st.lists(st.builds(ReplacedFile, path=text, size=st.integers(0, 9)), max_size=2),
    partition_paths=st.lists(text, max_size=2),
    allowed_roots=st.lists(text, max_size=2),
    mark_success=st.booleans(),
    durable=st.booleans(),
)


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(encode(RECORD)), **fields}).encode()


def lacking(name: str) -> bytes:
    return json.dumps({k: v for k, v in json.loads(encode(RECORD)).items() if k != name}).encode()


@given(records)
def test_records_round_trip(record: CommitRecord) -> None:
    assert decode_record(encode(record), "p") == record


@given(declarations)
def test_declarations_round_trip(declaration: Declaration) -> None:
    assert decode_claim(encode(declaration), "p") == declaration


@given(heartbeats)
def test_heartbeats_round_trip(heartbeat: Heartbeat) -> None:
    assert decode_heartbeat(encode(heartbeat), "p") == heartbeat


@given(records)
def test_a_record_is_read_for_what_it_declares(record: CommitRecord) -> None:
    found = decode_claim(encode(record), "p")
    assert all(getattr(found, name) == getattr(record, name) for name in common)


@pytest.mark.parametrize(
    ("one", "other", "hinder"),
    [
        (Claim(["/d"]), Claim(["/d"]), False),
        (Claim(["/d/p=1"]), Claim(["/d"], ["/d"]), True),
        (Claim(["/d"]), Claim(["/d/p=1"], ["/d/p=1"]), True),
        (Claim(["/d/p=1"]), Claim(["/d/p=1"], ["/d/p=1"]), True),
        (Claim(["/d/p=1"], ["/d/p=1"]), Claim(["/d/p=2"], ["/d/p=2"]), False),
        (Claim(["/d/p=1"], ["/d/p=1"]), Claim(["/d/p=1"], ["/d/p=1"]), True),
        (Claim(["/d/p=10"]), Claim(["/d/p=1"], ["/d/p=1"]), False),
        (Claim(["/e", "/d/p=1"]), Claim(["/d", "/f"], ["/d"]), True),
        (Claim(["/d/p=2"]), Claim(["/d/p=1", "/d/p=2"], ["/d/p=1"]), False),
        (Claim([]), Claim(["/"], ["/"]), False),
    ],
)
def test_jobs_hinder_each_other_where_one_wants_alone_what_the_other_writes(
    one: Claim, other: Claim, hinder: bool
) -> None:
    assert one.hinders(other) is hinder
    assert other.hinders(one) is hinder


def test_jobs_with_many_partitions_are_compared_in_seconds() -> None:
    def claim(hour: int) -> Claim:
        partitions = [f"/d/day={day}/hour={hour}" for day in range(10_000)]
        return Claim(partitions, partitions)

    began = time.process_time()
    assert not claim(1).hinders(claim(2))
    assert claim(1).is_within(claim(1).writes)
    assert time.process_time() - began < 5


def test_files_and_bytes_are_those_of_all_packs() -> None:
    assert (RECORD.files, RECORD.bytes) == (3, 34)


def test_the_nonce_can_be_found_in_the_bytes() -> None:
    # Workers on other nodes prove in this way that they see the same store.
    assert b"host-1234" in encode(structs.replace(RECORD, nonce="host-1234"))


@pytest.mark.parametrize("version", [0, 2, 99])
def test_other_versions_are_refused(version: int) -> None:
    with pytest.raises(ManifestError, match=f"version {version}.*release"):
        decode_record(changed(version=version), "/d/n.json")
    with pytest.raises(ManifestError, match=f"version {version}.*release"):
        decode_claim(changed(version=version), "/d/n.json")


@pytest.mark.parametrize(
    "field", ["nonce", "job_id", "job_attempt", "created_milliseconds", "owner", "claim", "packs"]
)
def test_records_without_a_needed_field_are_refused(field: str) -> None:
    with pytest.raises(ManifestError, match=rf"/d/n.json: .*`{field}`"):
        decode_record(lacking(field), "/d/n.json")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="no fields"),
        pytest.param(encode(RECORD)[:-1], id="truncated"),
        pytest.param(encode(RECORD) + b"x", id="garbage after"),
        pytest.param(changed(mode="replace everything"), id="unknown mode"),
        pytest.param(changed(packs=[{"name": "a"}]), id="incomplete pack"),
        pytest.param(changed(version="1"), id="version as text"),
        pytest.param(b'{"nonce":"\xff"}', id="not UTF-8"),
        pytest.param(b'{"x":' + b"[" * 5000, id="deep"),
    ],
)
def test_what_we_cannot_have_written_is_refused(data: bytes) -> None:
    with pytest.raises(ManifestError) as caught:
        decode_record(data, "/d/n.json")
    assert str(caught.value).startswith("/d/n.json: ")
