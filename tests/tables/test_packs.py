"""Files of a log that hold several entries: versions are read as if each had a file of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations

import pytest

from ray_committer.errors import (
    TableLogError,
    TableLogGapError,
    TableLogGoneError,
    TableVersionGoneError,
)
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.table_entry import LARGEST, encode_content, encode_entries
from ray_committer.protocol.table_paths import BLOCK
from ray_committer.tables.append import append, append_next, decide
from ray_committer.tables.changes import committed_since
from ray_committer.tables.checkpoint import FilesAt, read_files, read_since, read_state
from ray_committer.tables.claim import Claimant
from ray_committer.tables.log import (
    LogFiles,
    find_head,
    find_last_file,
    read_entries,
    read_entry,
)
from ray_committer.tables.save_checkpoint import save_checkpoint
from ray_committer.testing import MemoryStore, WrappedStore
from tests.stages.support import do_at, requests
from tests.tables.support import (
    DEFINITION,
    TABLE,
    abort_of,
    append_commit,
    claim_of,
    commit_of,
    done_of,
    pack_log,
    table_on,
)

ENTRIES = 6


def ways(entries: int) -> Iterator[tuple[int, ...]]:
    """Each way to put so many entries into files: the first versions of these."""
    for count in range(entries):
        for others in combinations(range(2, entries + 1), count):
            yield (1, *others)


def logged(entries: int = ENTRIES, new: Callable[[], MemoryStore] = MemoryStore) -> MemoryStore:
    memory = table_on(new())
    for number in range(entries):
        append(memory, TABLE, claim_of(f"job_{number}"), number)
    return memory


def in_files(*starts: int, entries: int = ENTRIES) -> MemoryStore:
    memory = logged(entries)
    pack_log(memory, starts)
    return memory


@pytest.mark.parametrize("starts", list(ways(ENTRIES)), ids=str)
def test_the_same_entries_are_read_from_any_files(starts: tuple[int, ...]):
    wanted, memory = read_entries(logged(), TABLE), in_files(*starts)
    for since in range(ENTRIES + 1):
        assert read_entries(memory, TABLE, since) == wanted[since:]
        assert find_head(memory, TABLE, since) == ENTRIES
        for until in range(since, ENTRIES + 1):
            assert read_entries(memory, TABLE, since, until) == wanted[since:until]
        if since == 0 or since + 1 in starts:
            assert read_entries(memory, TABLE, since, is_end=True) == wanted[since:]
    for version, entry in wanted:
        assert read_entry(memory, TABLE, version) == entry
    assert read_entries(memory, TABLE, ENTRIES, is_end=True) == []
    assert find_last_file(memory, TABLE) == starts[-1]
    assert LogFiles(memory, TABLE).end_at(find_last_file(memory, TABLE)) == ENTRIES


def test_each_file_is_read_once(kind):
    memory = logged(new=kind)
    pack_log(memory, (1, 4))
    for since, reads in ((0, 2), (2, 2), (3, 1), (4, 1), (6, 1)):
        wanted = Counter(list_status=1, read=reads)
        assert requests(memory, lambda one, since=since: read_entries(one, TABLE, since)) == wanted
    at_end = requests(memory, lambda one: read_entries(one, TABLE, 3, is_end=True))
    assert at_end == Counter(list_status=1, read=1)


@pytest.mark.parametrize("since", range(ENTRIES + 1))
@pytest.mark.parametrize("starts", [(1,), (1, 3), (1, 6), (1, 2, 5)], ids=str)
def test_an_entry_is_appended_after_the_last_file(starts: tuple[int, ...], since: int):
    memory = in_files(*starts)
    assert append(memory, TABLE, claim_of("new"), since) == ENTRIES + 1
    assert append(memory, TABLE, claim_of("new"), since) == ENTRIES + 1
    assert memory.get_status(TABLE.entry(ENTRIES + 1)) is not None
    if since + 1 in (*starts, ENTRIES + 1):
        assert append_next(memory, TABLE, claim_of("newer"), since) == ENTRIES + 2
    assert [version for version, _ in read_entries(memory, TABLE)] == list(
        range(1, find_head(memory, TABLE) + 1)
    )


def test_the_own_entry_is_found_in_a_file_that_was_faster():
    memory = logged()
    pack = encode_entries([claim_of("x"), claim_of("new"), claim_of("y")])
    hook = do_at("rename", lambda: memory.write(TABLE.entry(7), pack))
    assert append(WrappedStore(memory, before=hook), TABLE, claim_of("new"), 6) == 8
    hook = do_at("rename", lambda: memory.write(TABLE.entry(10), pack))
    assert append_next(WrappedStore(memory, before=hook), TABLE, claim_of("y"), 9) == 12
    assert find_head(memory, TABLE) == 12


@pytest.mark.parametrize("claim", range(1, ENTRIES + 1))
def test_a_claim_in_any_file_is_decided_once(claim: int):
    memory = in_files(1, 3)
    assert decide(memory, TABLE, commit_of(claim)) == (7, commit_of(claim))
    pack_log(memory, (1, 3))
    assert decide(memory, TABLE, abort_of(claim)) == (7, commit_of(claim))


# What is wrong with a log


@pytest.mark.parametrize(("gone", "since"), [(3, 0), (3, 2), (3, 1), (1, 0)])
def test_a_file_that_is_missing_is_a_gap(gone: int, since: int):
    memory = in_files(1, 3, 5)
    memory.delete_file(TABLE.entry(gone))
    for run in (
        lambda: read_entries(memory, TABLE, since),
        lambda: read_entries(memory, TABLE, since, 6),
        lambda: append(memory, TABLE, claim_of("new"), since),
    ):
        with pytest.raises(TableLogGapError, match=f"{TABLE.entry(gone)}: is missing"):
            run()
    with pytest.raises(TableLogGapError, match=f"{TABLE.entry(gone + 1)}: is missing"):
        read_entry(memory, TABLE, gone + 1)


@pytest.mark.parametrize("since", [5, 6])
def test_an_end_that_is_gone_is_missed_by_who_has_seen_it(since: int):
    memory = in_files(1, 3, 5)
    memory.delete_file(TABLE.entry(5))
    for is_end in (False, True):
        with pytest.raises(TableLogGoneError, match=f"{TABLE.entry(since)}: is gone"):
            read_entries(memory, TABLE, since, is_end=is_end)
    with pytest.raises(TableLogGoneError, match=f"{TABLE.entry(since)}: is gone"):
        find_head(memory, TABLE, since)
    with pytest.raises(TableVersionGoneError, match="has no version 6, the last one is 4"):
        read_entries(memory, TABLE, 1, 6)


def test_a_name_in_the_place_of_an_entry_of_a_file_is_an_error_and_nothing_is_put():
    memory = in_files(1, 3)
    memory.write(TABLE.entry(4), encode_content(claim_of("wrong")))
    before = memory.files()
    for run in (
        lambda: read_entries(memory, TABLE),
        lambda: read_entries(memory, TABLE, 2),
        lambda: append(memory, TABLE, claim_of("new"), 2),
        lambda: read_since(memory, TABLE, "id", 2),
    ):
        with pytest.raises(TableLogError, match=f"{TABLE.entry(4)}: must not be there, because"):
            run()
    assert memory.files() == before


@pytest.mark.parametrize(
    "data",
    [
        encode_entries([claim_of("a"), claim_of("b")])[:-1],
        encode_entries([]),
        encode_entries([claim_of(str(one)) for one in range(LARGEST + 1)]),
    ],
)
def test_a_damaged_file_of_several_entries_is_named(data: bytes):
    memory = in_files(1, 3)
    memory.write(TABLE.entry(3), data)
    with pytest.raises(TableLogError, match=f"^{TABLE.entry(3)}: is not a file of a table log"):
        read_entries(memory, TABLE)


def test_a_listing_that_lacks_a_name_is_no_gap():
    memory = in_files(1, 3, 5)

    class Blind(WrappedStore):
        def list_status(self, path: str):
            return [one for one in super().list_status(path) if one.name != gone]

    for gone in ("003.entry", "005.entry"):
        wanted = 4 if gone == "005.entry" else 6
        assert [version for version, _ in read_entries(Blind(memory), TABLE)][-1] == wanted
    assert find_head(Blind(memory), TABLE, 5) == 6
    assert append(Blind(memory), TABLE, claim_of("new"), 5) == 7


@pytest.mark.parametrize("shown", [(), ("001.entry",), ("003.entry",)])
@pytest.mark.parametrize("since", range(1, ENTRIES + 1))
def test_a_listing_that_lacks_the_names_of_several_files_is_no_end(since: int, shown: tuple[str, ...]):
    """Whoever knows a version in one of them has read that file before."""
    memory = in_files(1, 3, 5)
    wanted = read_entries(memory, TABLE, since)

    class Blind(WrappedStore):
        def list_status(self, path: str):
            return [one for one in super().list_status(path) if one.name in shown]

    seen = read_entries(Blind(memory), TABLE, since)
    assert seen == wanted[: len(seen)]
    assert read_entry(Blind(memory), TABLE, since) == read_entry(memory, TABLE, since)
    assert find_head(Blind(memory), TABLE, since) >= since
    assert append(Blind(memory), TABLE, claim_of("new"), since) == ENTRIES + 1


# The end of a directory


def with_blocks(*files: tuple[int, int]) -> MemoryStore:
    """A log of which only some files are there: the first version of each, and how many entries."""
    memory = table_on(MemoryStore())
    for start, count in files:
        memory.mkdirs(TABLE.block(start // BLOCK))
        pack = [claim_of(f"job_{version}") for version in range(start, start + count)]
        memory.write(TABLE.entry(start), encode_entries(pack))
    return memory


@pytest.mark.parametrize(("last", "head"), [([], 999), ([(1000, 3)], 1002)])
def test_a_file_ends_with_its_directory(last: list[tuple[int, int]], head: int):
    memory = with_blocks((990, 10), *last)
    for known in (990, 995, 999, head):
        assert find_head(memory, TABLE, known) == head
        assert [version for version, _ in read_entries(memory, TABLE, known)] == list(
            range(known + 1, head + 1)
        )
    assert LogFiles(memory, TABLE).end_at(find_last_file(memory, TABLE)) == head
    assert append(memory, TABLE, claim_of("new"), 995) == head + 1
    assert find_head(memory, TABLE, 995) == head + 1


def test_a_file_that_goes_past_its_directory_is_an_error():
    with pytest.raises(TableLogError, match=r"997\.entry: holds 4 entries, more than its place"):
        read_entries(with_blocks((997, 4)), TABLE, 996)


def test_a_directory_that_is_missing_is_a_gap():
    memory = with_blocks((990, 10), (1000, 1000 - LARGEST), (2000, 2))
    memory.delete_file(TABLE.entry(1000))
    with pytest.raises(TableLogGapError, match=f"{TABLE.entry(1000)}: is missing"):
        read_entries(memory, TABLE, 995)


# What is read from versions within files


def jobs() -> MemoryStore:
    """Appends, an overwrite, a job that is given up, and one at work."""
    memory = table_on(MemoryStore())
    append_commit(memory, "a", [ListedFile("day=1/a", 1)])
    append(memory, TABLE, claim_of("b", [ListedFile("day=1/b", 2)]), 0)
    append(memory, TABLE, claim_of("c", [ListedFile("day=2/c", 3)], partitions=["day=2"]), 0)
    append(memory, TABLE, commit_of(4), 0)
    append(memory, TABLE, abort_of(3, "b"), 0)
    append_commit(memory, "over", [ListedFile("day=1/d", 4)], [ListedFile("day=1/a", 1)])
    append(memory, TABLE, claim_of("late", [ListedFile("day=3/e", 5)]), 0)
    return memory


HEAD = 10
FILES = [(1,), (1, 2, 4, 6, 8, 10), (1, 3, 5, 7, 9), (1, 4), (1, 9), (1, 7, 8)]


@pytest.mark.parametrize("until", [None, 4, 9])
@pytest.mark.parametrize("starts", FILES, ids=str)
def test_states_files_and_changes_of_any_version_are_the_same(
    starts: tuple[int, ...], until: int | None
):
    plain, packed = jobs(), jobs()
    pack_log(packed, starts)
    for memory in (plain, packed):
        if until != 9:  # one is without a checkpoint
            assert save_checkpoint(memory, TABLE, "id", until) is None
    for version in range(HEAD + 1):
        for run in (
            lambda store, at=version: read_state(store, TABLE, "id", at),
            lambda store, at=version: read_files(store, TABLE, "id", at),
            lambda store, at=version: FilesAt(store, TABLE, "id", at).later,
            lambda store, at=version: committed_since(store, TABLE, "id", at),
            lambda store, at=version: read_since(store, TABLE, "id", at),
        ):
            assert run(packed) == run(plain)
    assert read_since(packed, TABLE, "id") == read_since(plain, TABLE, "id")


def test_a_checkpoint_at_the_end_of_a_file_saves_a_read(kind):
    memory = table_on(kind())
    append_commit(memory, "a", [ListedFile("day=1/a", 1)])
    save_checkpoint(memory, TABLE, "id")
    found = requests(memory, lambda one: FilesAt(one, TABLE, "id").below())
    assert found == Counter(list_status=2, read=2)


@pytest.mark.parametrize("to_end", [False, True])
def test_a_job_has_read_all_entries_of_the_last_file_of_its_set_up(to_end: bool):
    memory = in_files(1, 3)
    base = find_last_file(memory, TABLE)
    append(memory, TABLE, done_of(1), 6)
    claimant = Claimant(memory, TABLE, DEFINITION, claim_of("new", base=base), to_end=to_end)
    assert claimant.claim.base == (6 if to_end else 3)
    assert claimant.end == 7
