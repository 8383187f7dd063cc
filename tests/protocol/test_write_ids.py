"""Write ids: which jobs a list shows, which list is more recent, and how Hive prints it.

The vectors are facts of Hive's ``TestTxnIdUtils`` and ``TestValidReaderWriteIdList``. Open and aborted
ids of Hive are both exceptions here.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.protocol.write_ids import WriteIds, compare

LISTS = {
    "id1": WriteIds(5, (1, 2, 3, 4, 5)),
    "id2": WriteIds(8, (1, 2, 3, 4, 5, 6, 7, 8)),
    "id3": WriteIds(8, (2, 3, 4, 5, 6, 7, 8)),
    "id4": WriteIds(8, (1, 2, 3, 4, 6, 7, 8)),
    "id5": WriteIds(8, (1, 2, 3, 4, 6, 7)),
    "id7": WriteIds(105, (100, 101, 105)),
    "id8": WriteIds(0),
    "a1": WriteIds(5),
    "a2": WriteIds(6, (6,)),
    "a3": WriteIds(7, (6, 7)),
    "a4": WriteIds(8, (6, 7, 8)),
    "a5": WriteIds(8),
}
lists = st.builds(
    lambda highest, exceptions: WriteIds(highest, tuple(sorted(x for x in exceptions if x <= highest))),
    st.integers(0, 9),
    st.sets(st.integers(1, 9)),
)


@pytest.mark.parametrize(
    ("a", "b", "is_equivalent"),
    [
        ("id1", "id1", True),
        ("id1", "id2", True),
        ("id2", "id1", True),
        ("id1", "id3", False),
        ("id3", "id2", False),
        ("id1", "id4", False),
        ("id4", "id2", False),
        ("id1", "id5", False),
        ("id5", "id2", False),
        ("id1", "id7", False),
        ("id1", "id8", True),
        ("id8", "id2", True),
        ("id8", "id3", False),
        ("a1", "a2", True),
        ("a2", "a3", True),
        ("a1", "a4", True),
        ("a4", "a5", False),
    ],
)
def test_lists_that_show_the_same_jobs_are_equivalent(a: str, b: str, is_equivalent: bool):
    assert (compare(LISTS[a], LISTS[b]) == 0) is is_equivalent


@pytest.mark.parametrize(
    ("a", "b", "more_recent"),
    [
        (WriteIds(5), WriteIds(5), 0),
        (WriteIds(4), WriteIds(5), -1),
        (WriteIds(5, (1, 2, 4, 5)), WriteIds(5, (1, 2, 3, 4, 5)), 1),
        (WriteIds(6, (2, 4, 5)), WriteIds(5, (2, 4, 5)), 1),
        (WriteIds(3, (1, 2, 3)), WriteIds(5, (1, 2, 3, 4, 5)), 0),
        (WriteIds(9, (1, 2, 3)), WriteIds(11, (1, 2, 3, 10, 11)), 0),
        (WriteIds(1, (1,)), WriteIds(1), -1),
        (WriteIds(1), WriteIds(1, (1,)), 1),
    ],
)
def test_the_list_that_shows_more_is_more_recent(a: WriteIds, b: WriteIds, more_recent: int):
    assert compare(a, b) == more_recent
    assert compare(b, a) == -more_recent


@pytest.mark.parametrize(
    ("ids", "shown", "hidden"),
    [
        (WriteIds(1), [1], [2]),
        (WriteIds(5, (2, 4)), [1, 3, 5], [2, 4, 6]),
        (WriteIds(2000, tuple(range(100, 1100))), [0, 99, 1100, 2000], [100, 1099, 2001]),
        (WriteIds(12, (7, 8, 12)), [1, 2, 3, 4, 5, 6, 9, 10, 11], [7, 8, 12, 13]),
    ],
)
def test_all_ids_up_to_the_highest_are_shown_but_for_the_exceptions(
    ids: WriteIds, shown: list[int], hidden: list[int]
):
    assert [one for one in shown if one not in ids] == []
    assert [one for one in hidden if one in ids] == []


@given(lists, lists)
def test_a_list_covers_another_if_it_shows_all_that_the_other_shows(a: WriteIds, b: WriteIds):
    every = range(1, 12)
    assert a.covers(b) is all(one in a for one in every if one in b)


@pytest.mark.parametrize(
    ("cached", "requested", "is_served"),
    [
        (WriteIds(11, (7, 8)), WriteIds(12, (7, 8, 12)), True),
        (WriteIds(12, (7, 12)), WriteIds(12, (7, 8, 12)), True),
        (WriteIds(12, (7, 8, 12)), WriteIds(12, (7, 12)), False),
        (WriteIds(11, (7, 8)), WriteIds(12, (7, 8)), False),
    ],
)
def test_a_cached_list_serves_a_request_that_it_covers(
    cached: WriteIds, requested: WriteIds, is_served: bool
):
    assert cached.covers(requested) is is_served


def test_a_list_is_printed_in_short_and_as_hive_does():
    assert str(WriteIds(5, (2, 4))) == "5:2,4"
    assert WriteIds(1).hive("t1") == "t1:1:9223372036854775807::"
    assert WriteIds(11, (4, 6, 10)).hive("t1") == "t1:11:4:4,6,10:"
