"""Packs are written once, under names that were never used, and read once in a process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from ray_committer.errors import PackChangedError, StoreUnavailableError
from ray_committer.protocol.actions import Rename
from ray_committer.protocol.pack import Entry, Pack, encode_section
from ray_committer.protocol.recovery import Expectation
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore
from ray_committer.work import packs as packs_module
from ray_committer.work.packs import Cache, PackReader, PackWriter, save_pack
from tests.stages.support import JOB, calls_of, requests, set_up
from tests.threads import at_once


def entries(first: int, number: int) -> list[Entry]:
    return [
        Rename(f"{JOB.tasks}/a/{n}", f"/table/{n}", Expectation(n)) for n in range(first, first + number)
    ]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs_module, "MOST_ENTRIES", 10)
    monkeypatch.setattr(packs_module, "SECTION_ENTRIES", 4)


@pytest.fixture
def saved() -> tuple[MemoryStore, Pack]:
    store = set_up(JOB)
    return store, save_pack(store, JOB, encode_section(entries(0, 9), JOB.tasks).pack())


def written(groups: list[int], *, saves: bool = True) -> tuple[MemoryStore, PackWriter]:
    store = set_up(JOB)
    writer, first = PackWriter(store, JOB, saves=saves), 0
    for number in groups:
        writer.add(entries(first, number), ["/table/empty"])
        first += number
    return store, writer


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("groups", [[], [1], [10], [11], [4, 4, 4], [25], [1] * 25, [3, 20, 2]])
def test_every_entry_is_in_one_pack_or_in_the_rest(groups: list[int]):
    store, writer = written(groups)
    rest = writer.rest()
    packs = [*writer.packs, *([rest.pack()] if rest.data else [])]
    found = [entry for pack in packs for entry in PackReader(store, JOB).entries(pack)]
    assert found == entries(0, sum(groups))
    assert all(0 < pack.files <= 10 for pack in packs)
    assert writer.rest().data == b""
    directories = {
        path
        for pack in packs
        for part in PackReader(store, JOB).sections(pack)
        for path in part.directories
    }
    assert directories == ({"/table", "/table/empty"} if groups else set())


@pytest.mark.usefixtures("small")
def test_what_is_full_is_saved_and_the_rest_is_not():
    store, writer = written([25])
    assert len(store.files(JOB.packs)) == len(writer.packs) == 2
    assert all(pack.data is None for pack in writer.packs)


@pytest.mark.usefixtures("small")
def test_who_saves_nothing_keeps_all_in_memory():
    store, writer = written([25], saves=False)
    assert store.files(JOB.packs) == {}
    assert [pack.ref.name for pack in writer.packs] == ["", ""]
    assert [len(list(PackReader(store, JOB).entries(pack))) for pack in writer.packs] == [8, 8]


@pytest.mark.usefixtures("small")
def test_the_rests_of_others_are_joined_without_being_read():
    store = set_up(JOB)
    writer = PackWriter(store, JOB)
    for first in range(0, 30, 3):
        writer.join(encode_section(entries(first, 3), JOB.tasks))
    assert [pack.files for pack in writer.packs] == [9, 9, 9]
    assert writer.rest().files == 3


@pytest.mark.usefixtures("small")
def test_directories_without_a_file_are_in_the_rest():
    store = set_up(JOB)
    writer = PackWriter(store, JOB)
    writer.add([], ["/table/p=1"])
    (section,) = PackReader(store, JOB).sections(writer.rest().pack())
    assert list(section.directories) == ["/table/p=1"]


def test_two_writers_of_equal_packs_write_two_files(saved):
    store, pack = saved
    again = save_pack(store, JOB, encode_section(entries(0, 9), JOB.tasks).pack())
    assert again.ref.digest == pack.ref.digest
    assert len(store.files(JOB.packs)) == 2


def test_a_write_without_an_answer_is_not_repeated_under_its_name(no_pauses):
    """It may still be carried out, and would empty a pack that the record names by then."""
    store, lost = set_up(JOB), iter([StoreUnavailableError("/", "no answer")])

    def lose(call: StoreCall) -> None:
        for error in lost:
            raise error

    calls = calls_of(
        WrappedStore(store, after=lose),
        lambda one: save_pack(one, JOB, encode_section(entries(0, 1), JOB.tasks).pack()),
    )
    paths = [call.paths[0] for call in calls if call.paths[0].startswith(JOB.packs)]
    assert len({*paths}) == len(paths) == 2


def test_a_pack_is_read_once_for_all_threads(saved):
    store, pack = saved
    calls: list[StoreCall] = []
    reader = PackReader(WrappedStore(store, before=calls.append), JOB)
    found: list[list[Entry]] = []
    at_once([lambda: found.append(list(reader.entries(pack)))] * 8)
    assert found == [entries(0, 9)] * 8
    assert Counter(call.operation for call in calls) == Counter(read=1)


@pytest.mark.parametrize(("low", "high"), [(0, None), (0, 9), (3, 5), (4, 4), (8, 99), (0, 1)])
@pytest.mark.usefixtures("small")
def test_a_range_is_that_part_of_all_entries(low: int, high: int | None):
    store, writer = written([9])
    pack = writer.rest().pack()
    assert list(PackReader(store, JOB).entries(pack, low, high)) == entries(0, 9)[low:high]


@pytest.mark.usefixtures("small")
def test_entries_have_their_sources_where_the_files_of_tasks_are_now():
    store, writer = written([9])
    pack, elsewhere = writer.rest().pack(), "/table/_temporary/job_1/00/frozen-tasks-1"
    reader = PackReader(store, JOB)
    sources = [entry.source for entry in reader.entries(pack, 3, 6, tasks=elsewhere)]
    assert sources == [f"{elsewhere}/a/{n}" for n in (3, 4, 5)]
    # What is remembered of a pack is the same for each place.
    assert list(reader.entries(pack)) == entries(0, 9)


@pytest.mark.usefixtures("small")
def test_entries_can_be_read_without_those_of_some_directories():
    store, writer = written([6])
    writer.add([Rename(f"{JOB.tasks}/b/{n}", f"/table/b{n}", Expectation(n)) for n in range(3)])
    pack, reader = writer.rest().pack(), PackReader(store, JOB)
    assert list(reader.entries(pack, without={"b"})) == entries(0, 6)
    assert [entry.dest for entry in reader.entries(pack, 5, without={"a"})] == [
        "/table/b0",
        "/table/b1",
        "/table/b2",
    ]
    assert list(reader.entries(pack, without={"a", "b"})) == []


def test_what_is_in_memory_is_not_read(saved):
    store, _ = saved
    pack = encode_section(entries(0, 3), JOB.tasks).pack()
    assert requests(store, lambda one: list(PackReader(one, JOB).entries(pack))) == Counter()


@pytest.mark.parametrize("data", [None, b"", b"another"])
def test_what_the_record_does_not_name_is_not_believed(saved, data: bytes | None):
    store, pack = saved
    path = f"{JOB.packs}/{pack.ref.name}"
    store.delete_file(path)
    if data is not None:
        store.write(path, data)
    with pytest.raises(PackChangedError, match=path):
        list(PackReader(store, JOB).entries(pack))


@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_read_that_fails_is_not_remembered(saved, error: type[OSError]):
    store, pack = saved
    failures: Iterator[OSError] = iter([error("simulated")])

    def fail_once(_call: StoreCall) -> None:
        for failure in failures:
            raise failure

    reader = PackReader(WrappedStore(store, before=fail_once), JOB)
    with pytest.raises(error):
        list(reader.entries(pack))
    assert list(reader.entries(pack)) == entries(0, 9)


def test_a_cache_holds_what_was_used_last_within_its_limit_and_always_one():
    cache: Cache[str] = Cache(10)
    for key, weight in (("a", 4), ("b", 4)):
        cache.put(key, key.upper(), weight)
    assert cache.get("a") == "A"
    cache.put("c", "C", 4)
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]
    cache.put("large", "L", 99)
    assert [cache.get(key) for key in ("a", "c", "large")] == [None, None, "L"]


def test_a_cache_counts_a_value_once_that_is_put_twice():
    cache: Cache[str] = Cache(10)
    for _ in range(5):
        cache.put("a", "A", 4)
    cache.put("b", "B", 4)
    assert [cache.get("a"), cache.get("b")] == ["A", "B"]
