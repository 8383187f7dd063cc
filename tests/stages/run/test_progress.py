"""The result of a run says how far it came, whatever became of it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest

from ray_committer.limits.ratelimit import LimitStatistics
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.iostatistics import count
from ray_committer.protocol.recovery import Proof
from ray_committer.stages.run.commit_progress import CommitProgress
from ray_committer.stages.run.renamed import Renamed
from ray_committer.testing import MemoryStore
from tests.stages.support import context, pack_of, record_of

RECORD = record_of([pack_of(2, 20), pack_of(3, 30)], tasks=7)


@pytest.mark.parametrize(
    ("record", "resumed", "decided"),
    [(None, False, False), (RECORD, False, True), (None, True, True), (RECORD, True, True)],
)
def test_a_run_has_decided_once_a_record_stands(record, resumed: bool, decided: bool):
    assert CommitProgress(record=record, resumed=resumed).is_decided is decided


def test_a_run_that_came_nowhere_reports_nothing_but_its_failure():
    failure = ValueError("why")
    result = CommitProgress().result(context(MemoryStore()), failure, LimitStatistics())
    assert (result.outcome, result.error) == (Outcome.FAILED, "why")
    assert (result.manifests, result.files, result.bytes, result.moved) == (0, 0, 0, 0)


def test_the_result_counts_by_the_record_and_by_what_this_run_did():
    found = context(MemoryStore())
    found.journal.add(count(names.STORE_IO_RETRY, 4))
    found.notice("look at this")
    renamed = Renamed(moved=4, proved=Counter({Proof.ETAG: 1}))
    progress = CommitProgress(RECORD, outcome=Outcome.COMMITTED, directories=2, renamed=renamed)
    result = progress.result(found, None, LimitStatistics(9, 3, lowest=7.0))
    assert (result.manifests, result.files, result.bytes) == (7, 5, 50)
    assert (result.moved, result.proved, result.directories) == (4, {"etag": 1}, 2)
    assert (result.requests, result.throttled, result.lowest_rate, result.retries) == (9, 3, 7.0, 4)
    assert (result.outcome, result.error, result.notices) == (Outcome.COMMITTED, None, ["look at this"])


def test_a_failure_after_the_commit_point_is_reported_as_a_failure():
    progress = CommitProgress(RECORD, outcome=Outcome.COMMITTED)
    result = progress.result(context(MemoryStore()), ValueError("why"), LimitStatistics())
    assert (result.outcome, result.files) == (Outcome.FAILED, 5)


def test_the_time_of_a_run_counts_from_the_begin_of_its_operation():
    found = replace(context(MemoryStore()), began=time.monotonic() - 60)
    assert 60 <= CommitProgress().result(found, None, LimitStatistics()).seconds < 120
