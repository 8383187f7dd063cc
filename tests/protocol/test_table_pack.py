"""Which drafts of other processes are put into the log with an own entry."""

from __future__ import annotations

import pytest
from msgspec import structs

from ray_committer.protocol.table_entry import NO_CLAIM, LogEntry, TableClaim, TableCommit, WriteMode
from ray_committer.protocol.table_pack import (
    MOST_ENTRIES,
    OLDEST,
    is_packable,
    key_of,
    may_follow,
    pack_of,
)
from ray_committer.protocol.table_paths import BLOCK, DraftName, TablePlaces, draft_of
from tests.tables.support import abort_of, claim_of, commit_of, done_of

OWN = claim_of("own", partitions=["day=9"])
OVERWRITE = claim_of("over", mode=WriteMode.OVERWRITE)


def of_job(entry: LogEntry, job_id: str) -> LogEntry:
    return structs.replace(entry, job_id=job_id)


def appends(number: int) -> list[TableClaim]:
    return [claim_of(f"job_{one}") for one in range(number)]


@pytest.mark.parametrize(
    "entry", [claim_of("a"), OVERWRITE, claim_of("a", mode=WriteMode.CREATE), commit_of(1), done_of(1)]
)
def test_what_no_entry_since_its_base_can_refuse_is_put_by_anybody(entry: LogEntry):
    assert is_packable(entry)
    assert pack_of(OWN, [(3, entry)], 3, [], 4) == [OWN, entry]


@pytest.mark.parametrize(
    "entry",
    [
        claim_of("a", mode=WriteMode.REPLACE, base=1),
        claim_of("a", reads=["day=2"], base=1),
        claim_of("import", mode=WriteMode.CREATE, is_import=True),
        abort_of(1),
        abort_of(NO_CLAIM),
    ],
)
def test_what_only_its_owner_can_judge_is_put_by_its_owner(entry: LogEntry):
    assert not is_packable(entry)
    assert pack_of(OWN, [(3, entry)], 3, [], 4) == [OWN]


@pytest.mark.parametrize(
    ("seen", "since", "is_packed"),
    [(7, 5, True), (5, 5, True), (4, 5, False), (8, 5, False), (9, 5, False)],
)
def test_a_draft_counts_only_if_all_that_its_owner_has_not_seen_is_known(
    seen: int, since: int, is_packed: bool
):
    draft, known = claim_of("a"), [(6, commit_of(2)), (7, commit_of(3))]
    assert pack_of(OWN, [(seen, draft)], since, known, 8) == ([OWN, draft] if is_packed else [OWN])


@pytest.mark.parametrize(("age", "is_packed"), [(OLDEST, True), (OLDEST + 1, False)])
def test_an_old_draft_does_not_count(age: int, is_packed: bool):
    draft = commit_of(1)
    known = [(one, claim_of(f"job_{one}")) for one in range(1, 301)]
    assert pack_of(OWN, [(300 - age, draft)], 0, known, 301) == ([OWN, draft] if is_packed else [OWN])


@pytest.mark.parametrize("draft", [claim_of("a"), of_job(commit_of(1), "a"), of_job(done_of(1), "a")])
@pytest.mark.parametrize(
    "later",
    [
        claim_of("a"),
        claim_of("a", partitions=["day=5"]),
        claim_of("a", job_attempt=1),
        of_job(commit_of(1), "a"),
        of_job(done_of(1), "a"),
        abort_of(1, "a"),
        abort_of(NO_CLAIM, "a"),
    ],
)
def test_a_draft_does_not_count_after_an_entry_of_its_job(draft: LogEntry, later: LogEntry):
    assert not may_follow(draft, [later])
    assert pack_of(OWN, [(3, draft)], 3, [(4, later)], 5) == [OWN]
    assert pack_of(OWN, [(4, draft)], 3, [(4, later)], 5) == [OWN, draft]
    assert pack_of(later, [(3, draft)], 3, [], 4) == [later]


def test_one_entry_of_a_job_is_in_a_pack():
    drafts = [claim_of("a"), claim_of("a", partitions=["day=2"]), of_job(commit_of(1), "a")]
    assert pack_of(OWN, [(3, one) for one in drafts], 3, [], 4) == [OWN, drafts[0]]


@pytest.mark.parametrize(
    ("first", "second", "are_together"),
    [
        (claim_of("a"), claim_of("b"), True),
        (claim_of("a"), OVERWRITE, False),
        (OVERWRITE, claim_of("a"), False),
        (claim_of("a", partitions=["day=2"]), OVERWRITE, True),
        (claim_of("a", partitions=[""]), OVERWRITE, False),
        (claim_of("a"), claim_of("b", mode=WriteMode.CREATE), False),
        (claim_of("a", partitions=["day=2"], reads=["day=1"], base=0), claim_of("b"), False),
    ],
)
def test_a_claim_counts_only_beside_those_that_it_does_not_wait_for(
    first: TableClaim, second: TableClaim, are_together: bool
):
    wanted = [OWN, second] if are_together else [OWN]
    assert pack_of(OWN, [(3, second)], 3, [(4, first)], 5) == wanted
    assert pack_of(first, [(3, second)], 3, [], 4) == ([first, second] if are_together else [first])
    if is_packable(first):
        both = [OWN, first, second] if are_together else [OWN, first]
        assert pack_of(OWN, [(3, first), (3, second)], 3, [], 4) == both


def test_a_claim_that_has_ended_also_keeps_a_draft_out():
    known = [(4, OVERWRITE), (5, of_job(commit_of(4), "over"))]
    assert pack_of(OWN, [(3, claim_of("a"))], 3, known, 6) == [OWN]


def test_a_pack_is_not_too_large_and_ends_with_its_directory():
    drafts = [(3, one) for one in appends(MOST_ENTRIES + 5)]
    assert len(pack_of(OWN, drafts, 3, [], 4)) == MOST_ENTRIES
    for room in range(1, 4):
        version = 2 * BLOCK - room
        drafts = [(version - 1, one) for one in appends(5)]
        assert len(pack_of(OWN, drafts, version - 1, [], version)) == room


def test_the_key_is_the_same_for_what_says_the_same():
    assert key_of(claim_of("a")) == key_of(claim_of("a", partitions=["day=2"]))
    keys = {
        key_of(one)
        for one in (claim_of("a"), claim_of("b"), claim_of("a", job_attempt=1), commit_of(1), done_of(1))
    }
    assert len(keys) == 5
    assert isinstance(commit_of(1), TableCommit)


def test_the_name_of_a_draft_shows_what_its_owner_has_seen():
    names = [DraftName(seen, "key", "nonce") for seen in (0, 9, 10, 10**12)]
    assert [draft_of(str(one)) for one in names] == names
    assert sorted(map(str, names)) == list(map(str, names))
    assert TablePlaces("/t").draft(names[1]) == f"/t/_ray_committer/tmp/{names[1]}"
    for other in ("nonce", "aside-7", "1-key-nonce", "x-key-nonce.draft", "1-nonce.draft", ".draft"):
        assert draft_of(other) is None
