"""A table's log: one winner for each version, no gap, and errors that name what is wrong."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ray_committer.errors import (
    StoreUnavailableError,
    TableFormatError,
    TableLogGapError,
    TableLogGoneError,
)
from ray_committer.limits.settle import ATTEMPTS
from ray_committer.protocol.table_entry import TableClaim, TableDefinition, encode_content
from ray_committer.protocol.table_paths import BLOCK, TablePlaces
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_renames import link_and_unlink
from ray_committer.tables.append import append, append_next, decide
from ray_committer.tables.log import (
    find_head,
    find_last_file,
    read_definition,
    read_entries,
    read_entry,
    require_definition,
)
from ray_committer.tables.put import Draft, init_table, new_table_id, put_entry
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall, WrappedStore, crash_at, fail_at
from tests.stages.support import (
    EACH_TABLE,
    KINDS,
    KINDS_OF_TABLES,
    MakesParentsOfWrites,
    SyncedStore,
    at,
    context,
    crash_points,
    do_at,
    each_crash,
    requests,
)
from tests.tables.support import DEFINITION, TABLE, abort_of, claim_of, commit_of, table_on
from tests.threads import at_once

pytestmark = pytest.mark.usefixtures("no_pauses")

LOCAL: dict[str, Callable[[], StoreOperations]] = {
    "local": lambda: LocalStore(StoreSpec("file")),
    "links": lambda: LocalStore(StoreSpec("file"), rename=link_and_unlink),
}
"""Local files, also on a file system that can only link and unlink them."""


def claim(number: int = 0, writer: int = 0) -> TableClaim:
    return claim_of(f"job_{writer}_{number}", partitions=[f"day={number}"])


def with_table(store: StoreOperations, entries: int = 0, table: TablePlaces = TABLE) -> StoreOperations:
    table_on(store, table)
    for number in range(entries):
        put_entry(store, table, number + 1, claim(number))
    return store


def with_entries(store: MemoryStore, versions: Iterator[int] | range) -> MemoryStore:
    """A table whose log was written by others."""
    with_table(store)
    for version in versions:
        store.mkdirs(TABLE.entry(version).rpartition("/")[0])
        store.write(TABLE.entry(version), encode_content(claim(version - 1)))
    return store


@pytest.fixture(params=[*EACH_TABLE, *LOCAL])
def store(request: pytest.FixtureRequest) -> StoreOperations:
    return {**KINDS_OF_TABLES, **LOCAL}[request.param]()


LIKE = {"rename": ("create",)}
"""Where nothing is renamed, this request puts an entry."""


def lost(operation: str, times: int) -> Callable[[StoreCall], None]:
    """A hook: the first calls of an operation get no answer."""
    left = [times]

    def hook(call: StoreCall) -> None:
        if call.operation in (operation, *LIKE.get(operation, ())) and left[0]:
            left[0] -= 1
            raise StoreUnavailableError(call.paths[0], "lost")

    return hook


# The definition of a table


def test_a_table_is_defined_once(store, table: TablePlaces):
    assert read_definition(store, table) is None
    assert init_table(store, table, DEFINITION) == DEFINITION
    other = TableDefinition(table_id="other", created_milliseconds=2)
    assert init_table(store, table, other) == DEFINITION
    assert read_definition(store, table) == DEFINITION
    assert require_definition(store, table, "id") == DEFINITION
    assert store.list_files(table.temporaries) == []
    assert (find_head(store, table), read_entries(store, table)) == (0, [])


def test_a_destination_without_a_log_costs_one_request(kind):
    assert requests(kind(), lambda one: read_definition(one, TABLE)) == Counter(read=1)


def test_a_table_that_was_made_again_is_another(store, table: TablePlaces):
    with_table(store, table=table)
    with pytest.raises(TableLogGoneError, match="is that of another table"):
        require_definition(store, table, new_table_id())
    store.delete_directory(table.directory)
    with pytest.raises(TableLogGoneError, match=r"table\.entry: is gone"):
        require_definition(store, table, "id")


def test_a_crash_while_a_table_is_made_leaves_it_made_or_not(kind):
    for memory in each_crash(kind, with_table):
        assert read_definition(memory, TABLE) in (None, DEFINITION)
        assert init_table(memory, TABLE, DEFINITION) == DEFINITION
        assert append(memory, TABLE, claim(), 0) == 1


# Appending and reading


def test_entries_have_consecutive_versions_and_are_read_from_any_of_them(store, table: TablePlaces):
    with_table(store, table=table)
    for number in range(5):
        assert append(store, table, claim(number), number // 2) == number + 1
    entries = [(number + 1, claim(number)) for number in range(5)]
    assert read_entries(store, table) == entries
    assert read_entries(store, table, 3) == entries[3:]
    assert read_entries(store, table, 1, 3) == entries[1:3]
    assert read_entries(store, table, 5) == []
    assert read_entry(store, table, 2) == claim(1)
    assert find_head(store, table) == find_head(store, table, 4) == 5
    assert store.list_files(table.temporaries) == []


def test_an_entry_that_another_run_has_appended_is_not_appended_again(store, table: TablePlaces):
    with_table(store, table=table)
    append(store, table, claim(), 0)
    assert append(store, table, commit_of(1), 1) == 2
    append(store, table, claim(1), 2)
    assert append(store, table, commit_of(1), 1) == 2
    assert append(store, table, claim(), 0) == 1
    assert find_head(store, table) == 3


@pytest.mark.parametrize("first", [commit_of(1), abort_of(1)])
@pytest.mark.parametrize("second", [commit_of(1), abort_of(1)])
def test_a_claim_has_one_decision_and_who_comes_later_gets_it(store, table: TablePlaces, first, second):
    with_table(store, 2, table)
    assert decide(store, table, first) == (3, first)
    append(store, table, claim(7), 3)
    assert decide(store, table, second) == (3, first)
    assert decide(store, table, commit_of(2)) == (5, commit_of(2))
    assert find_head(store, table) == 5


@pytest.mark.parametrize("faster", [commit_of(1), abort_of(1), claim(7)])
def test_of_two_decisions_at_once_one_counts(kind, faster):
    memory = with_table(kind(), 2)
    hook = do_at("rename", lambda: append(memory, TABLE, faster, 2))
    found = decide(WrappedStore(memory, before=hook), TABLE, abort_of(1))
    assert found == ((4, abort_of(1)) if isinstance(faster, TableClaim) else (3, faster))


@pytest.mark.parametrize("kind", KINDS, indirect=True)
@pytest.mark.parametrize("faster", [0, 1, 5])
def test_an_entry_is_written_once_however_many_others_are_faster(kind, faster: int):
    memory, others, calls = with_table(kind(), 1), iter(range(faster)), Counter[str]()

    def hook(call: StoreCall) -> None:
        calls[call.operation] += 1
        if call.operation == "rename" and (number := next(others, None)) is not None:
            append(memory, TABLE, claim(100 + number), 1)

    assert decide(WrappedStore(memory, before=hook), TABLE, commit_of(1))[0] == 2 + faster
    del calls["sync"]
    assert calls == Counter(list_status=1 + faster, write=1, rename=1 + faster, read=1 + faster)
    assert memory.list_files(TABLE.temporaries) == []


@pytest.mark.parametrize("kind", KINDS, indirect=True)
@pytest.mark.parametrize("taken", [False, True])
def test_an_entry_without_a_place_is_not_left_as_a_temporary_file(kind, taken: bool):
    memory = with_table(kind(), 1)
    with Draft(memory, TABLE) as draft:
        version = 1 if taken else 2
        assert draft.put_entries(version, [claim(9)]) == [claim(0 if taken else 9)]
        assert len(memory.list_files(TABLE.temporaries)) == taken
    assert memory.list_files(TABLE.temporaries) == []


@pytest.mark.parametrize("second", [commit_of(1), abort_of(1)])
@pytest.mark.parametrize(
    ("first", "nonce", "is_decided"),
    [(commit_of(2), "n", True), (commit_of(2), "of an earlier job", False), (abort_of(2), "n", False)],
)
def test_the_commit_of_another_claim_of_the_same_attempt_decides(
    store, table: TablePlaces, first, nonce: str, is_decided: bool, second
):
    with_table(store, table=table)
    put_entry(store, table, 1, claim_of("job", partitions=["day=1"], nonce="n"))
    put_entry(store, table, 2, claim_of("job", partitions=["day=2"], nonce=nonce))
    append(store, table, first, 2)
    assert decide(store, table, second) == ((3, first) if is_decided else (4, second))
    assert find_head(store, table) == (3 if is_decided else 4)


def test_the_commit_of_another_claim_decides_if_it_is_faster(kind):
    memory = with_table(kind())
    put_entry(memory, TABLE, 1, claim_of("job"))
    put_entry(memory, TABLE, 2, claim_of("job", partitions=["day=2"]))
    hook = do_at("rename", lambda: append(memory, TABLE, commit_of(2), 2))
    assert decide(WrappedStore(memory, before=hook), TABLE, abort_of(1)) == (3, commit_of(2))
    assert find_head(memory, TABLE) == 3


def test_the_entry_that_is_there_stays(store, table: TablePlaces):
    with_table(store, table=table)
    assert put_entry(store, table, 1, claim(1)) == [claim(1)]
    assert put_entry(store, table, 1, claim(2)) == [claim(1)]
    assert read_entries(store, table) == [(1, claim(1))]
    assert store.list_files(table.temporaries) == []


@pytest.mark.slow
def test_the_next_directory_is_begun_after_the_last_place_of_one(kind):
    memory = with_entries(kind(), range(1, BLOCK - 1))
    for number in range(4):
        assert append(memory, TABLE, claim(number, 1), 0) == BLOCK - 1 + number
        for known in (0, 1, BLOCK - 2, BLOCK - 1 + number):
            assert find_head(memory, TABLE, known) == BLOCK - 1 + number
    assert [version for version, _ in read_entries(memory, TABLE, BLOCK - 2)] == [999, 1000, 1001, 1002]


@pytest.mark.parametrize(
    ("head", "known", "lists", "reads"),
    [
        (3, 0, 1, 1),
        (3, 3, 1, 1),
        (3 * BLOCK + 7, 3 * BLOCK, 1, 1),
        (3 * BLOCK + 7, 0, 3, 2),
        (3 * BLOCK - 1, 5, 3, 1),
    ],
)
def test_the_last_version_is_found_in_few_requests(kind, head: int, known: int, lists: int, reads: int):
    places = {BLOCK - 1, 2 * BLOCK - 1, 3 * BLOCK - 1, head}
    memory = with_entries(kind(), range(1, 4))
    with_entries(memory, iter(sorted(place for place in places if place <= head)))
    memory.mkdirs(TABLE.block(head // BLOCK + (head % BLOCK == BLOCK - 1)))
    assert find_head(memory, TABLE, known) == head
    wanted = Counter(list_status=lists, read=reads)
    assert requests(memory, lambda one: find_head(one, TABLE, known)) == wanted
    if known == 0:
        assert find_last_file(memory, TABLE) == head
        wanted = Counter(list_status=lists)
        assert requests(memory, lambda one: find_last_file(one, TABLE)) == wanted


@pytest.mark.parametrize("kind", KINDS, indirect=True)
@pytest.mark.parametrize("is_end", [False, True])
def test_an_uncontended_append_makes_three_requests_and_one_if_the_end_is_not_known(kind, is_end: bool):
    memory = with_table(kind(), 3)
    wanted = Counter(list_status=1, write=1, rename=1) + Counter(read=not is_end)
    calls = requests(memory, lambda one: append(one, TABLE, claim(9), 3, is_end=is_end))
    assert calls - Counter(sync=2) == wanted


@pytest.mark.parametrize("kind", KINDS, indirect=True)
def test_an_entry_that_is_the_next_one_makes_two_requests(kind):
    memory = with_table(kind(), 3)
    calls = requests(memory, lambda one: append_next(one, TABLE, claim(9), 3))
    assert calls - Counter(sync=2) == Counter(write=1, rename=1)


def test_an_entry_that_is_not_the_next_one_is_appended_once(kind):
    memory = with_table(kind(), 5)
    assert append_next(memory, TABLE, claim(9), 3) == 6
    assert append_next(memory, TABLE, claim(9), 3) == 6
    assert append_next(memory, TABLE, claim(9), 5) == 6
    assert find_head(memory, TABLE) == 6


def test_an_entry_is_on_disk_before_it_is_in_place_and_its_name_before_it_is_answered():
    store, order = SyncedStore(), list[tuple[str, str]]()
    with_table(store)
    append(
        WrappedStore(store, before=lambda call: order.append((call.operation, call.paths[-1]))),
        TABLE,
        claim(),
        0,
    )
    names = [name for name, _ in order]
    assert names[names.index("write") :] == ["write", "sync", "rename", "sync"]
    assert order[-1] == ("sync", TABLE.block(0))


def test_threads_that_append_the_same_append_it_once(store, table: TablePlaces):
    with_table(store, table=table)
    for number in range(20):
        after = find_head(store, table)
        at_once([partial(append, store, table, claim(number), after)] * 8)
    assert read_entries(store, table) == [(number + 1, claim(number)) for number in range(20)]


# Crashes and answers that are lost


def test_a_crash_at_any_request_leaves_the_entry_once_or_not_at_all(store, tmp_path: Path):
    calls: list[StoreCall] = []
    first = TablePlaces(str(tmp_path / "first"))
    append(WrappedStore(with_table(store, 2, first), before=calls.append), first, claim(9), 2)
    for when, number in crash_points(len(calls)):
        table = TablePlaces(str(tmp_path / f"{when}_{number}"))
        with_table(store, 2, table)
        with pytest.raises(SimulatedCrash):
            append(WrappedStore(store, **{when: crash_at(number)}), table, claim(9), 2)
        assert len(read_entries(store, table)) in (2, 3)
        assert append(store, table, claim(9), 2) == 3
        assert [version for version, _ in read_entries(store, table)] == [1, 2, 3]


def test_an_entry_that_was_linked_and_not_unlinked_is_there_once(tmp_path: Path):
    def link_and_die(source: str, dest: str) -> None:
        os.link(source, dest)
        raise SimulatedCrash

    store, table = LOCAL["local"](), TablePlaces(str(tmp_path / "table"))
    with_table(store, table=table)
    with pytest.raises(SimulatedCrash):
        append(LocalStore(StoreSpec("file"), rename=link_and_die), table, claim(), 0)
    assert append(store, table, claim(), 0) == 1
    assert append(store, table, claim(1), 0) == 2


def test_an_entry_is_never_seen_in_part(kind):
    memory = with_table(kind())

    def tear(call: StoreCall, data: bytes) -> bytes:
        return data[: len(data) // 2]

    torn = WrappedStore(memory, write_data=tear, before=at("rename", SimulatedCrash()))
    with pytest.raises(SimulatedCrash):
        append(torn, TABLE, claim(), 0)
    assert read_entries(memory, TABLE) == []
    assert append(memory, TABLE, claim(), 0) == 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("times", [1, ATTEMPTS - 1])
def test_a_lost_answer_is_settled_by_looking(kind, when: str, times: int):
    memory = with_table(kind(), 1)
    assert append(WrappedStore(memory, **{when: lost("rename", times)}), TABLE, claim(9), 1) == 2
    assert read_entries(memory, TABLE, 1) == [(2, claim(9))]
    assert memory.list_files(TABLE.temporaries) == []


@pytest.mark.parametrize("kind", KINDS, indirect=True)
@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("faster", [0, 1])
def test_a_write_that_is_carried_out_later_tears_no_entry(kind, repeats: bool, faster: int):
    memory, first = with_table(kind(), 1), list[str]()

    def hook(call: StoreCall) -> None:
        if call.operation == "write" and not first:
            first.append(call.paths[0])
            for number in range(faster):
                append(memory, TABLE, claim(number, 1), 1)
            raise StoreUnavailableError(call.paths[0], "lost")
        if call.operation == "rename" and call.paths[0] in first:
            memory.write(call.paths[0], b"")  # the file is made, and its data is still on the way

    store = WrappedStore(memory, before=hook)
    assert append(context(store).store if repeats else store, TABLE, claim(9), 1) == 2 + faster
    assert read_entry(memory, TABLE, 2 + faster) == claim(9)


@pytest.mark.parametrize("error", [TimeoutError, PermissionError, FileExistsError, FileNotFoundError])
def test_an_entry_that_is_there_stands_whatever_the_answer_says(kind, error: type[OSError]):
    memory = with_table(kind())
    assert append(WrappedStore(memory, after=at("rename", error())), TABLE, claim(), 0) == 1


@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_an_entry_that_is_not_there_is_a_failure_of_the_store(kind, error: type[OSError]):
    memory = with_table(kind())
    with pytest.raises(error):
        append(WrappedStore(memory, before=at("rename", error())), TABLE, claim(), 0)
    assert read_entries(memory, TABLE) == []


def test_a_store_that_stays_silent_is_given_up_and_asked_again_later(kind):
    memory = with_table(kind())
    with pytest.raises(StoreUnavailableError):
        append(WrappedStore(memory, before=lost("rename", 99)), TABLE, claim(), 0)
    assert append(memory, TABLE, claim(), 0) == 1


def test_a_failure_of_any_request_never_leaves_two(kind):
    calls: list[StoreCall] = []
    append(WrappedStore(with_table(kind(), 2), before=calls.append), TABLE, claim(9), 2)
    for call in calls:
        for when in ("before", "after"):
            memory = with_table(kind(), 2)
            with_fault = WrappedStore(memory, **{when: fail_at(call.number)})
            try:
                append(with_fault, TABLE, claim(9), 2)
            except OSError:
                append(memory, TABLE, claim(9), 2)
            assert [version for version, _ in read_entries(memory, TABLE)] == [1, 2, 3]


# What is wrong with a log


@pytest.mark.parametrize("version", [1, 2])
def test_a_gap_is_named_and_nothing_is_put_in_it(kind, version: int):
    memory = with_table(kind(), 3)
    memory.delete_file(TABLE.entry(version))
    before = memory.files()
    for run in (lambda: read_entries(memory, TABLE), lambda: append(memory, TABLE, claim(9), 0)):
        with pytest.raises(TableLogGapError, match=f"{TABLE.entry(version)}: is missing"):
            run()
    assert memory.files() == before


def test_a_newer_entry_that_was_put_during_an_append_is_named(kind):
    memory = with_table(kind(), 2)
    hook = do_at("rename", lambda: memory.write(TABLE.entry(3), b'{"format":99}'))
    with pytest.raises(TableFormatError, match=f"^{TABLE.entry(3)}: has format 99"):
        append(WrappedStore(memory, before=hook), TABLE, claim(9), 2)


@pytest.mark.parametrize("known", [0, 2])
def test_a_log_that_was_deleted_is_not_begun_again(store, table: TablePlaces, known: int):
    with_table(store, 2, table)
    store.delete_directory(table.log)
    with pytest.raises(TableLogGoneError, match=f"^{table.log}/.*: is gone"):
        append(store, table, claim(9), known)
    assert init_table(store, table, DEFINITION) == DEFINITION
    with pytest.raises(TableLogGoneError, match=f"^{table.log}/.*: is gone"):
        append(store, table, claim(9), known)
    assert store.list_files(table.log) == []


@pytest.mark.parametrize("new", [MemoryStore, MakesParentsOfWrites])
@pytest.mark.parametrize("place", ["log", "directory"])
def test_a_log_that_is_deleted_during_an_append_is_not_begun_again(
    new: Callable[[], MemoryStore], place: str
):
    memory = new()
    with_table(memory, 2)
    hook = do_at("write", lambda: memory.delete_directory(getattr(TABLE, place)))
    with pytest.raises(TableLogGoneError, match=f"^{TABLE.log}/.*: is gone"):
        append(WrappedStore(memory, before=hook), TABLE, claim(9), 2)
    assert memory.list_files(TABLE.log) == []


def test_other_names_in_the_log_are_no_entries(kind):
    memory = with_table(kind(), 2)
    for name in ("copy of 009.entry", "009.entry.bak", "x"):
        memory.write(f"{TABLE.block(0)}/{name}", b"")
    assert find_head(memory, TABLE) == 2
