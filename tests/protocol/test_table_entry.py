"""The entries of a table's log: round trips, what repeats what, and what is refused."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ray_committer.errors import TableFormatError, TableLogError
from ray_committer.protocol.file_list import FileList, FileSet, ListedFile
from ray_committer.protocol.table_entry import (
    FORMAT,
    Isolation,
    LogEntry,
    PartitionColumn,
    TableAbort,
    TableClaim,
    TableCommit,
    TableDefinition,
    TableDone,
    WriteMode,
    decode_definition,
    decode_entries,
    encode_content,
    encode_entries,
)

CLAIM = TableClaim(
    job_id="job_1",
    job_attempt=0,
    nonce="n",
    mode=WriteMode.REPLACE,
    base=7,
    partitions=["day=1"],
    at_milliseconds=1,
)
COMMIT = TableCommit(job_id="job_1", job_attempt=0, claim=8, at_milliseconds=2)
DONE = TableDone(job_id="job_1", job_attempt=0, claim=8, at_milliseconds=3)
ABORT = TableAbort(job_id="job_1", job_attempt=0, claim=8, at_milliseconds=4, why="by a person")
DEFINITION = TableDefinition(
    table_id="id",
    isolation=Isolation.SNAPSHOT,
    partition_columns=[PartitionColumn("day", "int")],
    created_milliseconds=5,
)

text = st.text(st.characters(exclude_categories=["Cs"]))
sets = st.builds(
    FileSet,
    files=st.integers(0, 2**40),
    bytes=st.integers(0, 2**60),
    inline=st.lists(st.builds(ListedFile, path=text, size=st.integers(0, 9)), max_size=2),
    lists=st.lists(
        st.builds(FileList, name=text, digest=text, files=st.integers(0, 9), bytes=st.integers(0, 9))
    ),
)
job = {"job_id": text, "job_attempt": st.integers(0, 99), "at_milliseconds": st.integers(0, 2**53)}
step = {**job, "claim": st.integers(1, 2**40)}
entries = st.one_of(
    st.builds(
        TableClaim,
        **job,
        nonce=text,
        mode=st.sampled_from(WriteMode),
        base=st.integers(0, 2**40),
        partitions=st.lists(text, max_size=2),
        reads=st.lists(text, max_size=2),
        files=sets,
    ),
    st.builds(TableCommit, **step, removed=sets),
    st.builds(TableDone, **step),
    st.builds(TableAbort, **step, why=text),
)


def changed(**fields: Any) -> bytes:
    """The claim with other content, and the digest of that."""
    envelope = json.loads(encode_content(CLAIM))
    content = json.dumps({**envelope["content"], **fields}).encode()
    digest = sha256(content).hexdigest()
    return b'{"format":2,"sha256":"%s","content":%s}' % (digest.encode(), content)


@given(entries)
def test_entries_round_trip(entry: LogEntry):
    assert decode_entries(encode_content(entry), "/p") == [entry]
    assert encode_entries([entry]) == encode_content(entry)


def test_a_definition_round_trips():
    assert decode_definition(encode_content(DEFINITION), "/p") == DEFINITION


def test_an_entry_is_a_line_of_json_that_people_can_read():
    envelope = json.loads(encode_content(COMMIT))
    assert envelope["format"] == FORMAT
    assert envelope["content"]["type"] == "commit"
    assert b"\n" not in encode_content(COMMIT)


def test_a_job_that_depends_on_the_data_says_on_which_version():
    with pytest.raises(ValueError, match="without a base"):
        structs.replace(CLAIM, mode=WriteMode.REPLACE, base=None)


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.CREATE, WriteMode.OVERWRITE])
def test_a_job_that_does_not_depend_on_the_data_needs_no_base(mode: WriteMode):
    assert structs.replace(CLAIM, mode=mode, base=None).base is None
    with pytest.raises(ValueError, match="without a base"):
        structs.replace(CLAIM, mode=mode, base=None, reads=["day=2"])


@pytest.mark.parametrize(
    ("one", "other", "repeats"),
    [
        (CLAIM, structs.replace(CLAIM, at_milliseconds=9, partitions=["day=2"]), True),
        (CLAIM, structs.replace(CLAIM, nonce="m"), False),
        (CLAIM, structs.replace(CLAIM, job_attempt=1), False),
        (CLAIM, structs.replace(CLAIM, job_id="job_2"), False),
        (CLAIM, COMMIT, False),
        (COMMIT, structs.replace(COMMIT, at_milliseconds=9), True),
        (COMMIT, structs.replace(COMMIT, claim=9), False),
        (COMMIT, DONE, False),
        (DONE, DONE, True),
        (ABORT, structs.replace(ABORT, why="another run"), True),
        (ABORT, CLAIM, False),
    ],
)
def test_an_entry_repeats_one_of_another_run_of_the_same_commit(
    one: LogEntry, other: LogEntry, repeats: bool
):
    assert one.repeats(other) is repeats


@pytest.mark.parametrize("entry", [CLAIM, COMMIT, DONE, ABORT])
def test_no_byte_of_an_entry_can_be_lost_or_changed(entry: LogEntry):
    data = encode_content(entry)
    start = data.index(b'"content"')
    for place in range(len(data)):
        flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        for bad in [data[:place], *([flipped] if place > start else [])]:
            with pytest.raises(TableLogError, match=r"^/p: is not a file of a table log"):
                decode_entries(bad, "/p")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="no fields"),
        pytest.param(b'{"format":2}', id="no content"),
        pytest.param(encode_content(CLAIM) + b"x", id="garbage after"),
        pytest.param(encode_content(CLAIM).replace(b'"format":2', b'"format":0'), id="format 0"),
        pytest.param(encode_content(CLAIM).replace(b'"format":2', b'"format":"2"'), id="format as text"),
        pytest.param(encode_content(DEFINITION), id="a definition"),
        pytest.param(changed(type="lease"), id="unknown kind"),
        pytest.param(changed(mode="merge"), id="unknown mode"),
        pytest.param(changed(base=None), id="no base"),
        pytest.param(changed(partitions="day=1"), id="partitions as text"),
        pytest.param(b'{"format":2,"sha256":"\xff"}', id="not UTF-8"),
        pytest.param(b'{"x":' + b"[" * 5000, id="deep"),
    ],
)
def test_what_this_release_cannot_have_written_is_refused_by_name_with_a_command(data: bytes):
    with pytest.raises(TableLogError, match=r"^/p: is not a file of a table log") as caught:
        decode_entries(data, "/p")
    assert "ray-committer table log" in caught.value.advice


@pytest.mark.parametrize(
    "data", [b'{"format":3}', b'{"format":3,"content":[1]}', b'{"format":4,"body":{"type":"lease"}}']
)
def test_an_entry_of_a_newer_format_is_known_whatever_else_it_holds(data: bytes):
    with pytest.raises(TableFormatError, match=r"^/p: has format \d, but .* up to format 2$") as caught:
        decode_entries(data, "/p")
    assert "install the release" in caught.value.advice


def test_unknown_fields_of_this_format_are_ignored():
    assert decode_entries(changed(later=1), "/p") == [CLAIM]
