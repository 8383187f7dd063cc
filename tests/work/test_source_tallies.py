"""The sums of the files of tasks: as packs name them, and as listings show them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import pytest

from ray_committer.protocol.actions import CompleteUpload, Rename
from ray_committer.protocol.pack import Entry, encode_section, joined
from ray_committer.protocol.paths import parent
from ray_committer.protocol.recovery import Expectation
from ray_committer.protocol.whole import BY_ETAG, BY_SIZE, BY_TIME, SEVERAL, Tally, goal_of
from ray_committer.stores.base import FileStatus
from ray_committer.testing import Identity, MemoryStore
from ray_committer.work.source_tallies import packed_tallies, tally_of
from tests.stages.support import JOB, context

SHARED = f"in/{32 * 'a'}"


def entry(
    source: str, dest: str, size: int = 1, time: int | None = 5, etag: str | None = None
) -> Rename:
    return Rename(f"{JOB.tasks}/{source}", f"/table/{dest}", Expectation(size, etag, time))


def packed(
    entries: Sequence[Entry], section: int = 4, identity: Identity = Identity.MODIFICATION_TIME
) -> dict[str, Tally]:
    parts = [entries[low : low + section] for low in range(0, len(entries), section)]
    pack = joined([encode_section(part, JOB.tasks) for part in parts]).pack()
    (tallies,) = context(MemoryStore(identity=identity)).run(packed_tallies, [pack])
    return tallies


def listed(entries: list[Rename]) -> Iterator[tuple[str, list[FileStatus]]]:
    """What listings show if the files are as the entries say, by directory."""
    found = defaultdict[str, list[FileStatus]](list)
    for one in entries:
        its = one.expected
        status = FileStatus(
            one.source,
            is_directory=False,
            size=its.size,
            modified_milliseconds=its.modified_milliseconds,
            etag=its.etag,
        )
        found[parent(one.source).removeprefix(f"{JOB.tasks}/")].append(status)
    yield from found.items()


ENTRIES = [
    entry(f"in/{n % 3:032x}/f{n}", f"p={n % 3}/f{n}", size=n, time=1000 + n, etag=f"e{n}")
    for n in range(20)
]


@pytest.mark.parametrize("section", [1, 4, 7, 100])
@pytest.mark.parametrize(
    ("identity", "proof"), [(Identity.MODIFICATION_TIME, BY_TIME), (Identity.ETAG, BY_ETAG)]
)
def test_a_pack_sums_up_to_what_the_listings_of_its_sources_show(
    section: int, identity: Identity, proof: int
):
    tallies = packed(ENTRIES, section, identity)
    assert len(tallies) == 3
    for source, statuses in listed(ENTRIES):
        tally, found = tallies[source], tally_of(statuses, proof)
        assert tally == found._replace(goals=tally.goals)
        assert tally.goals == goal_of(f"/table/p={int(source[3:], 16)}", "/table")
        assert not tally.shows(tally_of(statuses[1:], proof))


P, Q = goal_of("/table/p=1", "/table"), goal_of("/table/p=2", "/table")


@pytest.mark.parametrize(
    ("entries", "goals"),
    [
        ([("a", "p=1/a")], {P}),
        ([("a", "p=1/a"), ("b", "p=1/b"), ("c", "p=1/c")], {P}),
        ([("a", "p=1/a"), ("b", "p=2/b")], {P, Q}),
        ([("a", "p=1/a"), ("b", "p=2/b"), ("c", "p=1/c")], {P, Q}),
        ([("a", "p=1/other")], {P, SEVERAL}),
        ([("a", "p=1/a"), ("b", "p=1/other"), ("c", "p=2/c")], {P, Q, SEVERAL}),
    ],
)
@pytest.mark.parametrize("section", [1, 2, 100])
def test_the_goals_of_a_source_are_the_directories_to_which_it_goes_and_whether_under_other_names(
    entries: list[tuple[str, str]], goals: set[bytes], section: int
):
    named = [entry(f"{SHARED}/{source}", dest) for source, dest in entries]
    (found,) = packed(named, section).items()
    assert found == (SHARED, found[1]._replace(goals=b"".join(sorted(goals))))


def test_a_tally_says_by_what_its_files_are_identified():
    named = [entry(f"{n}/f", f"f{n}", time=time) for n, time in enumerate([None, 7])]
    named += [entry("2/a", "a", time=None), entry("2/b", "b")]
    assert {source: tally.proof for source, tally in packed(named).items()} == {
        "0": BY_SIZE,
        "1": BY_TIME,
        "2": BY_SIZE | BY_TIME,
    }


def test_what_is_no_file_of_a_task_is_counted_apart():
    names = {
        "part-0": {},
        "link": {"is_link": True},
        "directory": {"is_directory": True},
        "fifo": {"is_special": True},
        ".hidden": {},
        "_under": {},
    }
    statuses = [
        FileStatus(
            f"/x/{name}", **{"is_directory": False, "size": 2, "modified_milliseconds": 5} | fields
        )
        for name, fields in names.items()
    ]
    tally = tally_of(statuses, BY_TIME)
    # A link to a file can be committed from where it is, but not with its directory.
    assert (tally.files, tally.size, tally.others) == (2, 4, 5)


def test_an_upload_has_no_source():
    upload = CompleteUpload("/table/a", "id", ("1",), "etag", None, None, None, 3)
    assert packed([upload]) == {}
