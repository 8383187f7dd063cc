"""A job's rows are in its table all at once, once, or never: modes, attempts, two jobs, late tasks."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest

from ray_committer.errors import (
    CommitAbortedError,
    CommitConflictError,
    CommitRecordExistsError,
    CommitStateUnknownError,
    DatabaseRefusedError,
    DatabaseUnavailableError,
    IncompleteJobError,
    StagingChangedError,
    TaskCommitError,
)
from ray_committer.records import session as session_module
from ray_committer.records.commit import commit_job, finish_job
from ray_committer.records.connect import connect
from ray_committer.records.end import abort_job
from ray_committer.records.job import RecordJob, start_job
from ray_committer.records.report import RecordOutcome, RecordReport
from ray_committer.records.session import sessions
from ray_committer.records.task import write_attempt
from tests.records.places import (
    SCHEMA,
    Announcing,
    Followed,
    Place,
    count_statements,
    open_job,
    rows,
    write,
)
from tests.servers.postgresql import PASSWORD, Postgresql
from tests.servers.postgresql_gate import PostgresqlGate

pytestmark = [pytest.mark.xdist_group("postgresql"), pytest.mark.alternate]


class Stopped(BaseException):
    """The end of a driver whose process goes on."""


def recorded(place: Place, *ids: int) -> RecordJob:
    """A job whose driver stopped when the record was there."""
    job = open_job(place)
    attempts = [write_attempt(job, [rows(*ids)])]

    def stop(_number: int) -> None:
        if followed.texts.count("COMMIT") == 1 and followed.texts[-1].startswith("BEGIN"):
            raise Stopped

    followed = Followed(stop)
    with pytest.raises(Stopped):
        commit_job(job, attempts, connect=followed)
    assert place.states()[-1] == (job.write_id, "recorded")
    return job


def test_only_the_attempts_that_the_driver_names_are_in_the_table(place: Place):
    job = open_job(place)
    kept = [write_attempt(job, [rows(1, 2), rows(3)]), write_attempt(job, [rows(4)])]
    write_attempt(job, [rows(1, 2), rows(3)])  # a speculative one
    with pytest.raises(ZeroDivisionError):
        write_attempt(job, (rows(1 // number) for number in (1, 0)))
    assert len(place.staging()) == 3  # the one that failed dropped its own
    assert place.ids() == []
    report = commit_job(job, kept)
    assert (report.outcome, report.write_id, report.rows, report.attempts) == ("committed", 1, 4, 2)
    assert place.ids() == [1, 2, 3, 4]
    assert place.staging() == []
    assert PASSWORD not in repr((job, report))


def test_a_task_without_its_result_commits_nothing(place: Place):
    job = open_job(place)
    with pytest.raises(IncompleteJobError, match="1 of 2 write tasks"):
        commit_job(job, [write_attempt(job, [rows(1)]), None])
    assert place.ids() == []


@pytest.mark.parametrize(
    ("mode", "expected"), [("append", [1, 2]), ("overwrite", [2]), ("error", None), ("ignore", None)]
)
def test_a_mode_decides_about_the_rows_that_are_there(place: Place, mode: str, expected: list[int]):
    write(place, [rows(1)])
    if expected is not None:
        assert write(place, [rows(2)], mode=mode).write_id == 2
        assert place.ids() == expected
    elif mode == "error":
        with pytest.raises(CommitConflictError, match="has rows"):
            start_job(place.url, place.table, mode=mode)
    else:
        assert start_job(place.url, place.table, mode=mode) is None
    assert len(place.states()) == (2 if expected else 1)


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_rows_that_come_while_a_job_runs_count_as_well(place: Place, mode: str):
    job = open_job(place, mode=mode)
    attempts = [write_attempt(job, [rows(2)])]
    write(place, [rows(1)])
    if mode == "ignore":
        assert commit_job(job, attempts).outcome is RecordOutcome.IGNORED
        assert place.states() == [(1, "aborted"), (2, "committed")]
        assert place.staging() == []
    else:
        with pytest.raises(CommitConflictError, match="came while the job ran"):
            commit_job(job, attempts)
        assert place.states() == [(1, "recorded"), (2, "committed")]
        place.abort(job, undo=True)
    assert place.ids() == [1]


def test_a_job_without_rows_makes_the_table_that_its_schema_names(place: Place):
    job = open_job(place, schema=SCHEMA)
    assert commit_job(job, [write_attempt(job, [])]).rows == 0
    assert place.query("SELECT count(*) FROM {t}") == [(0,)]
    write(place, [rows(1)], mode="error")
    write(place, mode="overwrite")
    assert place.ids() == []


def test_write_ids_and_ledgers_are_made_once_by_many_at_once(place: Place):
    barrier = threading.Barrier(4)

    def one(number: int) -> int:
        barrier.wait()
        return write(place, [rows(number)]).write_id

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(one, range(4))) == [1, 2, 3, 4]
    assert place.ids() == [0, 1, 2, 3]


def test_of_two_overwrites_at_once_one_replaces_the_other(place: Place):
    write(place, [rows(0)])
    barrier = threading.Barrier(2)

    def one(number: int) -> None:
        job = open_job(place, mode="overwrite")
        attempts = [write_attempt(job, [rows(number)])]
        barrier.wait()
        commit_job(job, attempts)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, (1, 2)))
    assert place.ids() in ([1], [2])


def test_an_overwrite_that_has_deleted_keeps_another_out(place: Place):
    """The second one begins when the first has deleted, and must not miss the rows of the first."""
    write(place, [rows(0)])
    first, second = (open_job(place, mode="overwrite") for _ in range(2))
    of_first = [write_attempt(first, [rows(1)])]
    of_second = [write_attempt(second, [rows(2)])]
    others: list[Future[RecordReport]] = []
    announcing = Announcing("LOCK", "DELETE", "BEGIN IMMEDIATE")

    def begin_second(_number: int) -> None:
        if followed.texts[-1].startswith("INSERT"):
            others.append(pool.submit(commit_job, second, of_second, connect=announcing))
            announcing.wait()

    followed = Followed(begin_second)
    with ThreadPoolExecutor(1) as pool:
        commit_job(first, of_first, connect=followed)
    assert others[0].result().outcome is RecordOutcome.COMMITTED
    assert place.ids() == [2]


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_a_task_that_is_late_leaves_nothing(place: Place, ends: str):
    job = open_job(place)
    attempts = [write_attempt(job, [rows(1)])]

    def tables():
        yield rows(8)
        if ends == "commit":
            commit_job(job, attempts)
        else:
            place.abort(job)
        yield rows(9)

    with pytest.raises(DatabaseRefusedError):  # its staging table is gone
        write_attempt(job, tables())
    with pytest.raises(TaskCommitError, match="too late"):
        write_attempt(job, [rows(9)])
    assert place.staging() == []
    assert place.ids() == ([1] if ends == "commit" else [])
    with pytest.raises((CommitAbortedError, CommitRecordExistsError)):
        commit_job(job, [])


def test_a_recorded_job_is_finished_once_by_anyone(place: Place):
    job = recorded(place, 1, 2)
    assert place.ids() == []
    with pytest.raises(CommitRecordExistsError, match="is recorded"):
        place.abort(job)
    assert place.abort_old(seconds=0) == []
    others: list[Future[RecordReport]] = []
    announcing = Announcing("INSERT")

    def begin_second(_number: int) -> None:
        if followed.texts[-1].startswith("INSERT"):
            others.append(pool.submit(place.finish, job, announcing))
            announcing.wait(2.0)

    followed = Followed(begin_second)
    with ThreadPoolExecutor(1) as pool, sessions(place.database, followed) as found:
        reports = [finish_job(found, job.table, job.write_id)]
    reports.append(others[0].result())
    assert [report.outcome for report in reports] == ["committed", "already committed"]
    assert {report.rows for report in reports} == {2}
    assert place.ids() == [1, 2]
    assert place.staging() == []


def test_a_recorded_job_can_be_given_up(place: Place):
    job = recorded(place, 1)
    assert place.abort(job, undo=True).dropped == 1
    assert not place.abort(job, undo=True).ended
    with pytest.raises(CommitAbortedError, match="was aborted"):
        place.finish(job)
    assert (place.ids(), place.staging()) == ([], [])


@pytest.mark.parametrize("change", ["DROP TABLE {s}", "DELETE FROM {s}"])
def test_a_staging_table_that_was_changed_commits_nothing(place: Place, change: str):
    job = recorded(place, 1, 2)
    place.query(change.replace("{s}", job.table.beside(place.staging()[0])))
    with pytest.raises(StagingChangedError, match="staging table _ray_committer_"):
        place.finish(job)
    assert place.states() == [(1, "recorded")]
    assert place.ids() == []


def test_a_constraint_that_refuses_a_row_lets_no_other_row_in(place: Place):
    place.query("CREATE TABLE {t} (id bigint NOT NULL UNIQUE, text text)")
    job = open_job(place)
    with pytest.raises(DatabaseRefusedError, match=r"(?i)unique") as caught:
        commit_job(job, [write_attempt(job, [rows(1)]), write_attempt(job, [rows(1)])])
    assert f" {job.write_id} --undo" in caught.value.advice
    assert "(1)" not in str(caught.value)  # no value of a row
    assert place.ids() == []


def test_rows_without_a_schema_of_the_job_may_differ_in_columns(place: Place):
    job = open_job(place)
    nothing = pa.table({"id": pa.array([2], pa.int64()), "text": pa.nulls(1)})
    more = pa.table({"id": pa.array([3], pa.int64()), "more": [1.5]})
    attempts = [write_attempt(job, [nothing, more]), write_attempt(job, [rows(1)])]
    assert commit_job(job, attempts).rows == 3
    found = place.query("SELECT id, text, more FROM {t} ORDER BY id")
    assert found == [(1, "row 1", None), (2, None, None), (3, None, 1.5)]


def test_a_commit_and_an_abort_at_any_moment_agree(place: Place):
    """At each statement of a commit, another process begins to give the job up."""
    total = count_statements(lambda follow: commit_job(open_job(place), [], connect=follow))
    for number in range(1, total + 1, 5):
        job = open_job(place)
        attempts = [write_attempt(job, [rows(number)])]
        results: list[object] = []

        def give_up(job: RecordJob = job, results: list[object] = results) -> None:
            try:
                with sessions(place.database, connect) as found:
                    results.append(abort_job(found, job.table, job.write_id, undo=True))
            except CommitRecordExistsError as e:
                results.append(e)

        other = threading.Thread(target=give_up)

        def begin(now: int, other: threading.Thread = other, number: int = number) -> None:
            if now == number:
                other.start()
                other.join(0.1)  # it may have to wait for this commit

        try:
            commit_job(job, attempts, connect=Followed(begin))
            is_committed = True
        except CommitAbortedError:
            is_committed = False
        other.join()
        assert isinstance(results[0], CommitRecordExistsError) is is_committed
        assert (number in place.ids()) is is_committed
        assert place.staging() == []


@pytest.mark.server
@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_a_lost_answer_of_a_commit_is_read_from_the_ledger(
    postgresql: Postgresql, postgres_place: Place, monkeypatch: pytest.MonkeyPatch, lost: int
):
    """The four transactions: the job, the staging table, the record, the rows."""
    monkeypatch.setattr(session_module, "REPETITIONS", 1)
    place = postgres_place
    write(place)  # makes the ledger
    with PostgresqlGate(postgresql.port, {lost}) as gate:
        there = replace(place, url=postgresql.url(port=gate.port))
        job = open_job(there)
        if lost == 2:
            with pytest.raises(DatabaseUnavailableError):
                write_attempt(job, [rows(1)])
        attempts = [write_attempt(job, [rows(1)])]
        assert commit_job(job, attempts).rows == 1
        assert gate.commits > lost
    assert place.ids() == [1]
    assert place.states()[-1] == (job.write_id, "committed")
    assert len(place.states()) == 2
    assert place.staging() == []


@pytest.mark.server
def test_a_database_that_stays_away_leaves_a_job_to_finish(
    postgresql: Postgresql, postgres_place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session_module, "REPETITIONS", 0)
    write(postgres_place)
    with PostgresqlGate(postgresql.port, {4}) as gate:
        there = replace(postgres_place, url=postgresql.url(port=gate.port))
        job = open_job(there)
        with pytest.raises(CommitStateUnknownError, match="ray-committer records commit") as caught:
            commit_job(job, [write_attempt(job, [rows(1)])])
    assert PASSWORD not in str(caught.value)
    report = postgres_place.finish(job)
    assert report.outcome is RecordOutcome.ALREADY_COMMITTED
    assert (postgres_place.ids(), postgres_place.staging()) == ([1], [])


@pytest.mark.server
def test_a_reader_sees_all_rows_or_the_old_ones_while_a_job_is_admitted(postgres_place: Place):
    write(postgres_place, [rows(0)])
    seen: list[list[int]] = []
    followed = Followed(lambda _number: seen.append(postgres_place.ids()))
    write(postgres_place, [rows(1)], [rows(2)], mode="overwrite", connect=followed)
    assert [each for number, each in enumerate(seen) if each not in seen[:number]] == [[0], [1, 2]]


def test_old_jobs_are_ended_and_what_is_left_is_dropped(place: Place):
    dead, ended = open_job(place), open_job(place)
    write_attempt(dead, [rows(1)])
    place.abort(ended)
    left = ended.table.beside(ended.table.new_staging(ended.write_id))
    place.query(f"CREATE TABLE {left} (id bigint)")  # as if its DROP had failed
    kept = place.abort_old(seconds=3600)
    assert [(job.write_id, job.ended, job.dropped) for job in kept] == [(2, False, 1)]
    gone = place.abort_old(seconds=0)
    assert [(job.write_id, job.ended, job.dropped) for job in gone] == [(1, True, 1)]
    assert (place.states(), place.staging()) == ([(1, "aborted"), (2, "aborted")], [])


@pytest.mark.wide
def test_a_million_rows_are_there_once(place: Place):
    """Ten tasks of ten blocks; two tasks run twice."""
    blocks = [rows(*range(start, start + 10_000)) for start in range(0, 1_000_000, 10_000)]
    job = open_job(place, schema=SCHEMA)
    attempts = [write_attempt(job, blocks[task::10]) for task in (*range(10), 3, 7)]
    report = commit_job(job, attempts[:10])
    assert (report.rows, report.attempts, report.notices) == (1_000_000, 10, [])
    found = place.query("SELECT count(*), count(DISTINCT id), min(id), max(id) FROM {t}")
    assert found == [(1_000_000, 1_000_000, 0, 999_999)]
    assert place.staging() == []
