"""Changes since a version: each commit once, in order, also if its claim is older."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from ray_committer.errors import TableLogGoneError, TableVersionGoneError
from ray_committer.protocol.file_list import ListedFile
from ray_committer.protocol.table_entry import WriteMode
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.tables.append import append
from ray_committer.tables.changes import committed_since
from ray_committer.tables.save_checkpoint import save_checkpoint
from tests.stages.support import requests
from tests.tables.support import TABLE, abort_of, append_commit, claim_of, commit_of, done_of, table_on
from tests.threads import at_once


def since(store: StoreOperations, version: int) -> list[tuple[int, str]]:
    found = committed_since(store, TABLE, "id", version)
    return [(one.version, one.claim.job_id) for one in found]


def test_each_commit_after_a_version_is_there_once(kind):
    store = table_on(kind())
    first = append(store, TABLE, claim_of("slow"), 0)
    append_commit(store, "fast")
    aborted = append(store, TABLE, claim_of("aborted"), 0)
    append(store, TABLE, commit_of(first), 0)
    append(store, TABLE, abort_of(aborted), 0)
    append(store, TABLE, claim_of("in flight"), 0)
    wanted = [(3, "fast"), (5, "slow")]
    for is_saved in (False, True):
        for version in range(8):
            assert since(store, version) == [one for one in wanted if one[0] > version]
        if not is_saved:
            save_checkpoint(store, TABLE, "id", 4)


def test_a_consumer_beside_many_writers_sees_each_commit_once(tmp_path: Path):
    store, table = LocalStore(StoreSpec("file")), TablePlaces(str(tmp_path / "table"))
    table_on(store, table)
    seen, ended = list[str](), list[int]()

    def write_jobs(number: int) -> None:
        for job in range(20):
            append_commit(store, f"job_{number}_{job}", table=table)
            if job % 7 == number:
                save_checkpoint(store, table, "id")
        ended.append(number)

    def consume() -> None:
        last, is_over = 0, False
        while not is_over:
            is_over = len(ended) == 4
            for one in committed_since(store, table, "id", last):
                seen.append(one.claim.job_id)
                last = one.version

    at_once([consume, *(partial(write_jobs, number) for number in range(4))])
    assert sorted(seen) == sorted(f"job_{number}_{job}" for number in range(4) for job in range(20))


def test_an_entry_about_a_job_that_has_ended_is_no_change(kind):
    store = table_on(kind())
    overwrite = append(store, TABLE, claim_of("a", mode=WriteMode.OVERWRITE), 0)
    append(store, TABLE, commit_of(overwrite, [ListedFile("day=1/old", 1)]), 0)
    append(store, TABLE, done_of(overwrite), 0)
    store.write(TABLE.entry(4), store.read(TABLE.entry(2)))
    assert [since(store, version) for version in range(5)] == [[(2, "a")]] * 2 + [[]] * 3


def test_the_job_of_one_call_takes_three_requests(kind):
    store = table_on(kind())
    append_commit(store, "a", [ListedFile(f"day=1/{number}", 1) for number in range(1_000)])
    append_commit(store, "b", [ListedFile("day=1/b", 1)])
    for version in (0, 2):
        found = requests(store, lambda one, version=version: since(one, version))
        assert found == Counter(list_status=1, read=4 - version)


def test_a_version_after_the_last_one_is_an_error(kind):
    store = table_on(kind())
    append_commit(store, "a")
    assert since(store, 2) == []
    for version in (3, 1_000, 5_000):
        with pytest.raises(TableVersionGoneError, match=f"has no version {version}, the last one is 2"):
            since(store, version)


def test_a_log_that_is_gone_is_an_error(kind):
    store = table_on(kind())
    append_commit(store, "a")
    store.delete_directory(TABLE.log)
    for version in (0, 2):
        with pytest.raises(TableLogGoneError):
            since(store, version)
