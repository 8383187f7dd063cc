"""Checkpoints: every file in one part, in order, and parts that commits elsewhere leave as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.errors import TableFormatError, TableLogError
from ray_committer.protocol import table_checkpoint
from ray_committer.protocol.file_list import MOST_FILES, ListedFile, decode_file_list
from ray_committer.protocol.table_checkpoint import (
    Below,
    Changes,
    Checkpoint,
    Part,
    apply_changes,
    cut_parts,
    decode_checkpoint,
    merge_parts,
)
from ray_committer.protocol.table_entry import TableClaim, WriteMode, encode_content
from ray_committer.protocol.table_state import ClaimInFlight, TableState

CLAIM = TableClaim(
    job_id="job", job_attempt=0, nonce="n", mode=WriteMode.APPEND, partitions=["a"], at_milliseconds=1
)
CHECKPOINT = Checkpoint(
    table_id="id", state=TableState(64, [ClaimInFlight(60, CLAIM)]), parts=[Part("00", 1, 2, 3, "")]
)


class Table:
    """The parts of a table, as a store has them, and which of them were read."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.read: list[str] = []
        self.written: list[str] = []
        self._data: dict[str, bytes] = {}

    def change(self, changes: Changes) -> None:
        self.read, self.written = [], []
        found = list(merge_parts(self.parts, changes, self._read))
        for part, data in found:
            if data is not None:
                assert len(data) == part.length
                self._data[part.name] = data
                self.written.append(part.name)
        self.parts = [part for part, _ in found]

    def add(self, *names: str) -> None:
        self.change({name: ListedFile(name, len(name)) for name in names})

    def below(self, directory: str = "") -> list[str]:
        below = Below(directory)
        found = [self.of(part) for part in below.of_parts(self.parts)]
        return [file.path for files in found for file in below.of_files(files)]

    def of(self, part: Part) -> list[ListedFile]:
        files = decode_file_list(self._data[part.name], part.digest, part.name)
        assert (part.files, part.bytes) == (len(files), sum(file.size for file in files))
        return files

    def _read(self, part: Part) -> list[ListedFile]:
        self.read.append(part.name)
        return self.of(part)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of at most 8 files."""
    monkeypatch.setattr(table_checkpoint, "MOST_FILES", 8)
    monkeypatch.setattr(table_checkpoint, "FEWEST_FILES", 2)


paths = st.text("ab/=1-", min_size=1, max_size=6).filter(lambda path: path[-1] != "/" != path[0])
changes = st.lists(st.tuples(paths, st.booleans()), max_size=40)


@given(st.lists(changes, max_size=6))
def test_the_parts_hold_every_file_whatever_changes(rounds: list[list[tuple[str, bool]]]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_checkpoint, "MOST_FILES", 8)
        patch.setattr(table_checkpoint, "FEWEST_FILES", 2)
        table, files = Table(), dict[str, ListedFile]()
        for one in rounds:
            what = {path: ListedFile(path, len(path)) if is_there else None for path, is_there in one}
            table.change(what)
            files = {file.path: file for file in apply_changes(sorted_files(files), what)}
            assert table.below() == sorted(files)
            for directory in {"a", "a=1", *(path.rpartition("/")[0] for path in files)} - {""}:
                wanted = sorted(path for path in files if path.startswith(f"{directory}/"))
                assert table.below(directory) == wanted
            assert all(0 < part.files <= 8 for part in table.parts)


def sorted_files(files: dict[str, ListedFile]) -> list[ListedFile]:
    return [files[path] for path in sorted(files)]


@pytest.mark.parametrize(("partitions", "files"), [(1, 2 * MOST_FILES + 1), (300, 100), (3, 0)])
def test_large_tables_are_cut_into_parts_of_a_list_each(partitions: int, files: int):
    table = Table()
    names = [f"day={day}/{number}" for day in range(partitions) for number in range(files)]
    table.add(*names)
    assert table.below() == sorted(names)
    assert all(part.files <= MOST_FILES for part in table.parts)
    assert len(table.parts) <= 2 * len(names) // MOST_FILES + 1


@pytest.mark.usefixtures("small_parts")
def test_a_partition_that_fits_is_in_one_part():
    table = Table()
    table.add(*(f"day={day}/{number}" for day in range(10, 50) for number in range(3)))
    for day in range(10, 50):
        assert len(Below(f"day={day}").of_parts(table.parts)) == 1
    table.add("day=20/00", "day=200/1")  # before all others of the partition, and after it
    assert len(Below("day=20").of_parts(table.parts)) == 1
    assert len(Below("day=200").of_parts(table.parts)) == 1


@pytest.mark.usefixtures("small_parts")
def test_only_parts_with_changes_are_read_and_written():
    table = Table()
    table.add(*(f"day={day}/{number}" for day in range(10, 50) for number in range(3)))
    before = {part.name for part in table.parts}
    assert len(before) > 8
    table.change({"day=17/new": ListedFile("day=17/new", 1), "day=17/0": None})
    assert (len(table.read), len(table.written)) == (1, 1)
    assert before - {part.name for part in table.parts} == set(table.read)


@pytest.mark.usefixtures("small_parts")
def test_a_part_that_gets_small_is_joined_with_the_next_one():
    table = Table()
    table.add(*(f"day={day}/{number}" for day in range(10, 20) for number in range(4)))
    assert [part.files for part in table.parts] == [8] * 5
    table.change(
        {f"day={day}/{number}": None for day in (12, 13) for number in range(4) if day + number > 12}
    )
    assert [part.files for part in table.parts] == [8, 5, 4, 8, 8]
    table.change({path: None for path in table.below() if not path.startswith("day=19")})
    assert [part.files for part in table.parts] == [4]
    table.change(dict.fromkeys(table.below()))
    assert table.parts == []
    table.add("b")
    assert table.below() == ["b"]


@pytest.mark.usefixtures("small_parts")
def test_each_file_of_a_partition_that_is_cut_can_be_removed():
    names = [f"day=1/{number}" for number in range(10, 40)]
    for name in names:
        table = Table()
        table.add(*names)
        assert len(table.parts) == 4
        table.change({name: None})
        assert table.below() == [other for other in names if other != name]


def test_equal_files_have_equal_parts():
    files = [ListedFile(f"day={day}/a", day) for day in range(9)]
    assert list(cut_parts(files)) == list(cut_parts(list(files)))


def test_a_checkpoint_round_trips_and_another_file_is_refused():
    data = encode_content(CHECKPOINT)
    assert decode_checkpoint(data, "/p") == CHECKPOINT
    with pytest.raises(TableLogError, match=r"^/p: "):
        decode_checkpoint(data[:-1], "/p")
    with pytest.raises(TableLogError, match=r"^/p: "):
        decode_checkpoint(encode_content(CLAIM), "/p")
    with pytest.raises(TableFormatError, match=r"^/p: has format 99"):
        decode_checkpoint(b'{"format":99}', "/p")


def test_a_checkpoint_stays_small_however_many_partitions_there_are():
    files = [ListedFile(f"day={day:05d}/hour=1/part", 1) for day in range(50_000)]
    parts = [part for part, _ in cut_parts(files)]
    assert len(encode_content(Checkpoint(table_id="id", parts=parts))) < 2_000
