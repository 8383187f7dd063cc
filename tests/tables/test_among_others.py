"""Entries of several processes at once: who was beaten puts those of others together with its own."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from ray_committer.errors import CommitAbortedError, StoreUnavailableError
from ray_committer.protocol.table_entry import (
    NO_CLAIM,
    LogEntry,
    TableClaim,
    WriteMode,
    encode_entries,
)
from ray_committer.protocol.table_pack import key_of
from ray_committer.protocol.table_paths import DraftName, TablePlaces
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.tables.among_others import AGAIN, LAST, LOOKS, OLD_MILLISECONDS, PACKED, Entrant
from ray_committer.tables.append import append, decide, find_repeated
from ray_committer.tables.claim import Claimant
from ray_committer.tables.log import read_entries
from ray_committer.tables.put import init_table, put_entry
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall, WrappedStore, crash_at
from tests.clock import Clock
from tests.stages.support import KINDS, at, do_at
from tests.tables.support import DEFINITION, TABLE, abort_of, claim_of, commit_of, table_on
from tests.threads import at_once

pytestmark = pytest.mark.usefixtures("no_pauses")

FIRST, LATER = "0" * 16, "f" * 16
"""Nonces of drafts: `FIRST` is before any other in their order, after the version that was seen."""
OVERWRITE = claim_of("over", mode=WriteMode.OVERWRITE)
OTHERS = [claim_of(f"other_{number}") for number in range(3)]


def post(
    store: StoreOperations,
    entry: LogEntry,
    seen: int,
    nonce: str = LATER,
    *,
    table: TablePlaces = TABLE,
    data: bytes | None = None,
) -> str:
    """Write the draft of another process."""
    path = table.draft(DraftName(seen, key_of(entry), nonce))
    store.write(path, encode_entries([entry]) if data is None else data)
    return path


def begun(new: Callable[[], MemoryStore] = MemoryStore) -> MemoryStore:
    """A table whose log has one entry."""
    memory = table_on(new())
    append(memory, TABLE, claim_of("before", partitions=["day=9"]), 0)
    return memory


def beaten(memory: MemoryStore, entry: LogEntry | None = None, **more: object) -> WrappedStore:
    """The store of a process that another one beats once, with `entry`."""
    entry = entry or claim_of("faster", partitions=["day=8"])
    hook = do_at("rename", lambda: append(memory, TABLE, entry, 1))
    return WrappedStore(memory, before=hook, **more)


def claimed(store: StoreOperations, claim: TableClaim, table: TablePlaces = TABLE) -> int:
    found = Claimant(store, table, DEFINITION, claim).put()
    assert found.claim.job_id == claim.job_id
    return found.version


def logged(store: StoreOperations, since: int = 0, table: TablePlaces = TABLE) -> list[str]:
    return [entry.job_id for _, entry in read_entries(store, table, since)]


def files(store: StoreOperations, table: TablePlaces = TABLE) -> int:
    return len(store.list_status(table.block(0)))


# Whoever was beaten makes a pack


def test_who_is_first_in_the_order_puts_the_entries_of_the_others(kind):
    memory = begun(kind)
    for one in OTHERS:
        post(memory, one, 1)
    mine = claim_of("own")
    own = max(key_of(one) for one in (mine, *OTHERS)) != key_of(mine)
    slept = list[float]()
    store = beaten(memory)
    with Entrant(store, TABLE, 1, sleep=slept.append) as entrant:
        known = entrant.put(mine, [])
        known += entrant.put(mine, known)
    ranked = sorted([mine, *OTHERS], key=key_of)
    assert len(slept) == LOOKS * ranked.index(mine)
    assert own or slept
    assert {entry.job_id for _, entry in known} == {"faster", "own", *(one.job_id for one in OTHERS)}
    assert known[1][1] == mine
    assert [version for version, _ in read_entries(memory, TABLE)] == [1, 2, 3, 4, 5, 6]
    assert files(memory) == 3
    assert len(memory.list_files(TABLE.temporaries)) == 3  # their owners delete them


def test_who_is_alone_is_put_alone_at_once(kind):
    memory = begun(kind)
    with Entrant(beaten(memory), TABLE, 1, sleep=lambda _: pytest.fail("there is nobody")) as entrant:
        known = entrant.put(claim_of("own"), [])
        known += entrant.put(claim_of("own"), known)
    assert [entry.job_id for _, entry in known] == ["faster", "own"]
    assert memory.list_files(TABLE.temporaries) == []


def test_who_finds_its_entry_in_the_pack_of_another_deletes_its_draft(kind):
    memory = begun(kind)
    own = claim_of("own")
    pack = encode_entries([OTHERS[0], own, OTHERS[1]])
    hook = do_at("rename", lambda: memory.write(TABLE.entry(2), pack))
    assert claimed(WrappedStore(memory, before=hook), own) == 3
    assert logged(memory) == ["before", "other_0", "own", "other_1"]
    assert memory.list_files(TABLE.temporaries) == []


def test_who_waits_goes_on_when_the_pack_is_there(kind, monkeypatch: pytest.MonkeyPatch):
    memory, clock, tick = begun(kind), Clock(), 1 / 64
    monkeypatch.setattr(time, "monotonic", clock)

    def take_time(_call: StoreCall) -> None:
        clock.now += tick

    mine = claim_of("own")
    post(memory, OTHERS[0], 0)  # the first in the order: it has seen less
    pauses = list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == LOOKS:
            put_entry(memory, TABLE, 3, OTHERS[0])

    with Entrant(beaten(memory, after=take_time), TABLE, 0, sleep=sleep) as entrant:
        known = read_entries(memory, TABLE)
        known += entrant.put(mine, known)
        known += entrant.put(mine, known)
        assert known[-1] == (3, OTHERS[0])
        known += entrant.put(mine, known)
    assert known[-1] == (4, mine)
    assert pauses == [PACKED * tick, AGAIN * tick]


@pytest.mark.parametrize("nonce", [FIRST, LATER])
def test_who_is_many_files_behind_reads_each_without_a_pause(kind, nonce: str):
    """Others put one file after the other: with a pause, it might never come to the end."""
    memory, files = begun(kind), 30
    post(memory, OTHERS[0], 0 if nonce == FIRST else 1, nonce)
    mine, pauses, calls = claim_of("own"), list[float](), list[StoreCall]()
    for number in range(files):
        append(memory, TABLE, claim_of(f"faster_{number}", partitions=["day=8"]), number + 1)
    store = WrappedStore(memory, before=calls.append)
    with Entrant(store, TABLE, 0, is_beaten=True, sleep=pauses.append) as entrant:
        known = read_entries(memory, TABLE, 0, 1)
        while all(one != mine for _, one in known):
            known += entrant.put(mine, known)
    assert (files + 2, mine) in known
    assert len(pauses) <= 1 + LOOKS
    assert len(calls) < files + 20


def test_who_is_late_in_the_order_puts_its_entry_alone_in_the_end():
    memory = begun()
    for number in range(LAST + 3):
        post(memory, claim_of(f"dead_{number}"), 0)
    pauses = list[float]()
    mine = claim_of("own")
    with Entrant(beaten(memory), TABLE, 0, sleep=pauses.append) as entrant:
        known = read_entries(memory, TABLE)
        for _ in range(2):
            known += entrant.put(mine, known)
    assert known[-1] == (3, mine)
    assert len(pauses) == LOOKS * LAST


# What is passed over


@pytest.mark.parametrize("data", [b"", b"{", encode_entries([OTHERS[0], OTHERS[1]]), b'{"format":2}'])
def test_a_draft_that_is_not_one_entry_is_passed_over(data: bytes):
    memory = begun()
    post(memory, OTHERS[0], 1, data=data)
    post(memory, OTHERS[2], 1)
    assert claimed(beaten(memory), claim_of("own")) == 3
    assert logged(memory, 2) == ["own", "other_2"]


def test_a_draft_that_vanishes_is_passed_over():
    memory = begun()
    path = post(memory, OTHERS[0], 1)
    post(memory, OTHERS[2], 1)

    class Deleted(WrappedStore):
        def read(self, place: str) -> bytes:
            if place == path:
                raise FileNotFoundError(place)
            return super().read(place)

    hook = do_at("rename", lambda: append(memory, TABLE, claim_of("faster"), 1))
    assert claimed(Deleted(memory, before=hook), claim_of("own")) == 3
    assert logged(memory, 2) == ["own", "other_2"]


@pytest.mark.parametrize(
    ("faster", "draft"),
    [
        (OVERWRITE, claim_of("other", partitions=["day=1"])),
        (abort_of(NO_CLAIM, "other"), claim_of("other")),
        (claim_of("other"), claim_of("other")),
        (claim_of("faster"), OVERWRITE),
    ],
)
def test_a_draft_that_is_not_right_any_more_is_left_to_its_owner(faster: LogEntry, draft: LogEntry):
    memory = begun()
    post(memory, draft, 1)
    assert claimed(beaten(memory, faster), claim_of("own", partitions=["day=7"])) == 3
    assert logged(memory, 1) == [faster.job_id, "own"]


def test_a_draft_of_which_the_log_since_is_not_known_is_left_to_its_owner():
    memory = begun()
    post(memory, OTHERS[0], 0)
    assert claimed(beaten(memory), claim_of("own", base=1)) == 3
    assert logged(memory, 1) == ["faster", "own"]


def test_a_draft_that_lies_there_for_long_is_passed_over():
    memory = begun()
    post(memory, OTHERS[0], 1)
    post(memory, OTHERS[2], 1)

    now = 10**12
    times = {key_of(one): now - OLD_MILLISECONDS for one in OTHERS}
    times[key_of(OTHERS[0])] -= 1

    class Aged(WrappedStore):
        def list_status(self, path: str):
            return [
                structs.replace(one, modified_milliseconds=times.get(one.name.split("-")[1], now))
                if "-" in one.name
                else one
                for one in super().list_status(path)
            ]

    hook = do_at("rename", lambda: append(memory, TABLE, claim_of("faster"), 1))
    assert claimed(Aged(memory, before=hook), claim_of("own")) == 3
    assert logged(memory, 2) == ["own", "other_2"]


def test_a_draft_for_a_log_that_was_deleted_is_not_put_into_the_next_one(kind):
    memory = begun(kind)
    post(memory, OTHERS[0], 1)
    for path in memory.list_files(TABLE.log):
        memory.delete_file(path.path)
    memory.delete_file(TABLE.definition)
    begun(lambda: memory)
    assert claimed(beaten(memory), claim_of("own")) == 3
    assert logged(memory) == ["before", "faster", "own"]
    assert memory.list_files(TABLE.temporaries) == []


def test_a_draft_for_a_table_that_another_process_makes_at_the_same_time_stays(kind):
    memory = kind()

    def make() -> None:
        begun(lambda: memory)
        post(memory, OTHERS[0], 1)

    hook = do_at("list_status", make)
    late = structs.replace(DEFINITION, table_id="late")
    assert init_table(WrappedStore(memory, before=hook), TABLE, late) == DEFINITION
    assert claimed(beaten(memory), claim_of("own")) == 3
    assert logged(memory) == ["before", "faster", "own", "other_0"]


def test_what_only_its_owner_can_judge_has_no_draft_and_is_not_packed():
    memory, names = begun(), list[str]()

    def hook(call: StoreCall) -> None:
        if call.operation == "write":
            names.append(call.paths[0])

    Claimant(
        WrappedStore(memory, before=hook),
        TABLE,
        DEFINITION,
        claim_of("own", mode=WriteMode.REPLACE, base=1),
    ).put()
    decide(WrappedStore(memory, before=hook), TABLE, abort_of(2, "own"))
    assert len(names) == 2
    assert not any(name.endswith(".draft") for name in names)


# Others who act between the look at a draft and the pack


@pytest.mark.parametrize("faster", [abort_of(NO_CLAIM, "other_0"), OVERWRITE, OTHERS[0]])
def test_a_pack_that_is_beaten_is_judged_again(kind, faster: LogEntry):
    memory = begun(kind)
    for one in OTHERS[:2]:
        post(memory, one, 1)
    renames = [0]

    def hook(call: StoreCall) -> None:
        if call.operation in ("rename", "create"):
            renames[0] += 1
            if renames[0] == 1:
                put_entry(memory, TABLE, 2, claim_of("faster", partitions=["day=8"]))
            elif renames[0] == 2:
                put_entry(memory, TABLE, 3, faster)

    own = claim_of("own", partitions=["day=7"])
    assert claimed(WrappedStore(memory, before=hook), own) == 4
    packed = {"other_1"} if faster.job_id == "other_0" else set()
    assert logged(memory, 2)[:2] == [faster.job_id, "own"]
    assert set(logged(memory, 4)) == packed


def test_a_job_whose_claim_is_put_by_another_after_it_was_given_up_can_be_aborted():
    memory = begun()
    path = post(memory, OTHERS[0], 1)
    assert claimed(beaten(memory), claim_of("own")) == 3  # it has put the other one, too
    memory.delete_file(path)
    assert logged(memory, 3) == ["other_0"]
    assert decide(memory, TABLE, abort_of(4, "other_0")) == (5, abort_of(4, "other_0"))
    with pytest.raises(CommitAbortedError):
        Claimant(memory, TABLE, DEFINITION, structs.replace(OTHERS[0], base=1)).put()


def test_a_commit_is_put_by_another_once(kind):
    memory = begun(kind)
    append(memory, TABLE, claim_of("job"), 0)
    post(memory, commit_of(2), 2)
    hook = do_at("rename", lambda: append(memory, TABLE, claim_of("faster"), 1))
    assert claimed(WrappedStore(memory, before=hook), claim_of("own")) == 4
    assert logged(memory, 3) == ["own", "job"]
    assert decide(memory, TABLE, commit_of(2)) == (5, commit_of(2))
    assert decide(memory, TABLE, abort_of(2)) == (5, commit_of(2))


# Crashes, answers that are lost, and many at once


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_request_of_a_pack_leaves_a_log_without_gaps(kind, when: str):
    def prepared() -> MemoryStore:
        memory = begun(kind)
        for one in OTHERS[:2]:
            post(memory, one, 1)
        return memory

    calls: list[StoreCall] = []
    store = beaten(prepared())
    counting = WrappedStore(store, before=calls.append)
    claimed(counting, claim_of("own"))
    assert len(calls) > 8
    for call in calls:
        memory = prepared()
        with pytest.raises(SimulatedCrash):
            claimed(WrappedStore(beaten(memory), **{when: crash_at(call.number)}), claim_of("own"))
        own = claimed(memory, claim_of("own"))
        entries = read_entries(memory, TABLE)
        assert [version for version, _ in entries] == list(range(1, len(entries) + 1))
        assert find_repeated(entries, claim_of("own")) == own
        assert max(Counter(logged(memory)).values()) == 1


def test_a_lost_answer_to_a_pack_is_settled_by_looking(kind):
    memory = begun(kind)
    post(memory, OTHERS[0], 1)
    renames = [0]

    def lost(call: StoreCall) -> None:
        if call.operation in ("rename", "create"):
            renames[0] += 1
            if renames[0] == 1:
                raise StoreUnavailableError(call.paths[0], "lost")

    assert claimed(WrappedStore(beaten(memory), after=lost), claim_of("own")) in (2, 3)
    assert Counter(logged(memory))["own"] == 1


@pytest.mark.parametrize("name", [*KINDS, "local", "slow"])
def test_many_jobs_at_once_have_each_entry_once(name: str, tmp_path: Path):
    jobs, slow = 12, name == "slow"
    inner = LocalStore(StoreSpec("file")) if name == "local" else KINDS.get(name, MemoryStore)()
    table = TablePlaces(str(tmp_path / "table"))
    table_on(inner, table)
    gate = threading.Barrier(jobs)

    def pay(call: StoreCall) -> None:
        if slow:
            threading.Event().wait(0.005)

    def work(number: int) -> None:
        store = WrappedStore(inner, before=pay)
        gate.wait()
        version = claimed(store, claim_of(f"job_{number}"), table)
        decide(store, table, commit_of(version))

    at_once([lambda number=number: work(number) for number in range(jobs)])
    entries = read_entries(inner, table)
    assert [version for version, _ in entries] == list(range(1, 2 * jobs + 1))
    claims = {version: one for version, one in entries if isinstance(one, TableClaim)}
    assert {one.job_id for one in claims.values()} == {f"job_{number}" for number in range(jobs)}
    assert {one.claim for _, one in entries if not isinstance(one, TableClaim)} == set(claims)
    assert inner.list_files(table.temporaries) == []
    if slow:
        assert files(inner, table) < len(entries)


def test_a_store_that_fails_puts_nothing_of_others():
    memory = begun()
    post(memory, OTHERS[0], 1)
    with pytest.raises(PermissionError):
        claimed(WrappedStore(memory, before=at("rename", PermissionError())), claim_of("own"))
    assert logged(memory) == ["before"]
