"""Checkpoints: every file in one part, and parts that a commit elsewhere leaves as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.errors import TableFormatError, TableLogError
from ray_committer.protocol.file_list import MOST_FILES, ListedFile, decode_file_list
from ray_committer.protocol.table_checkpoint import (
    FILES_PER_PART,
    Checkpoint,
    Part,
    cut_parts,
    decode_checkpoint,
)
from ray_committer.protocol.table_entry import TableClaim, WriteMode, encode_content
from ray_committer.protocol.table_state import ClaimInFlight, Files, TableState, apply_files

CLAIM = TableClaim(
    job_id="job", job_attempt=0, nonce="n", mode=WriteMode.APPEND, partitions=["a"], at_milliseconds=1
)
CHECKPOINT = Checkpoint(
    table_id="id",
    state=TableState(64, 60, [ClaimInFlight(60, CLAIM)]),
    parts=[Part("00", 1, 2, ["day=1"])],
)


def files_of(partitions: int, files: int) -> Files:
    found: Files = {}
    apply_files(
        found,
        added=[
            ListedFile(f"day={day}/{number}", number)
            for day in range(partitions)
            for number in range(files)
        ],
    )
    return found


def read_back(files: Files) -> Files:
    found: Files = {}
    for part, data in cut_parts(files):
        read = decode_file_list(data, part.digest, part.name)
        assert (part.files, part.bytes) == (len(read), sum(file.z for file in read))
        assert {file.p.rpartition("/")[0] for file in read} == set(part.partitions)
        apply_files(found, added=read)
    return found


paths = st.lists(st.text("ab/=1", min_size=1).filter(lambda path: not path.endswith("/")), unique=True)


@given(paths)
def test_the_parts_hold_every_file(names: list[str]):
    files: Files = {}
    apply_files(files, added=[ListedFile(name, len(name)) for name in names])
    assert read_back(files) == files


@pytest.mark.parametrize(("partitions", "files"), [(1, 2 * MOST_FILES + 1), (300, 100), (3, 0)])
def test_large_tables_are_cut_into_parts_of_a_list_each(partitions: int, files: int):
    found = files_of(partitions, files)
    assert read_back(found) == found
    parts = [part for part, _ in cut_parts(found)]
    assert all(part.files <= MOST_FILES for part in parts)
    assert len(parts) <= 2 * partitions * files // FILES_PER_PART + 1
    assert len({part.name for part in parts}) == len(parts)


def test_a_commit_changes_only_the_parts_of_its_partitions():
    files = files_of(400, 100)
    before = {part.name for part, _ in cut_parts(files)}
    assert len(before) >= 8
    apply_files(files, added=[ListedFile("day=7/new", 1)], removed=[ListedFile("day=7/0", 0)])
    after = {part.name: part for part, _ in cut_parts(files)}
    (changed,) = after.keys() - before
    assert "day=7" in after[changed].partitions


def test_the_order_in_which_files_came_does_not_matter():
    files, other = files_of(5, 5), dict[str, dict[str, ListedFile]]()
    for partition in reversed(files):
        apply_files(other, added=reversed(files[partition].values()))
    assert list(cut_parts(files)) == list(cut_parts(other))


def test_a_checkpoint_round_trips_and_another_file_is_refused():
    data = encode_content(CHECKPOINT)
    assert decode_checkpoint(data, "/p") == CHECKPOINT
    with pytest.raises(TableLogError, match=r"^/p: "):
        decode_checkpoint(data[:-1], "/p")
    with pytest.raises(TableLogError, match=r"^/p: "):
        decode_checkpoint(encode_content(CLAIM), "/p")
    with pytest.raises(TableFormatError, match=r"^/p: has format 2"):
        decode_checkpoint(b'{"format":2}', "/p")
