"""A whole job in a process that is killed before each of its statements; the commands finish it."""

from __future__ import annotations

import pytest

from ray_committer.errors import CommitRecordExistsError
from ray_committer.records.commit import commit_job
from ray_committer.records.connect import Connect
from ray_committer.records.end import abort_job
from ray_committer.records.session import sessions
from ray_committer.records.task import write_attempt
from tests.cli.commands import run
from tests.records.places import Place, count_statements, killed_before, open_job, rows, write
from tests.servers.postgresql import PASSWORD

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("postgresql")]

MODES = ["append", pytest.param("overwrite", marks=pytest.mark.wide)]


@pytest.fixture(params=[24, pytest.param(1, marks=pytest.mark.wide)])
def stride(request: pytest.FixtureRequest) -> int:
    return request.param


def whole_job(place: Place, mode: str, connect: Connect) -> None:
    """Two tasks, and an attempt that does not count."""
    job = open_job(place, mode=mode, connect=connect)
    attempts = [write_attempt(job, [rows(*ids)], connect=connect) for ids in ((1, 2), (3,), (3,))]
    commit_job(job, attempts[:2], connect=connect)


@pytest.mark.parametrize("mode", MODES)
def test_after_a_kill_at_any_statement_the_commands_leave_all_rows_or_none(
    place: Place, mode: str, stride: int
):
    write(place, [rows(0)])
    total = count_statements(lambda connect: whole_job(place, mode, connect))
    seen: set[str] = set()
    for number in range(1, total + 2, stride):
        place.query("DELETE FROM {t}")
        place.query("INSERT INTO {t} VALUES (0, 'old')")
        known = len(place.states())
        was_killed = killed_before(number, whole_job, place, mode)
        assert was_killed == (number <= total)
        state = place.states()[-1][1] if len(place.states()) > known else "none"
        new = [1, 2, 3] if mode == "overwrite" else [0, 1, 2, 3]
        assert place.ids() == (new if state == "committed" else [0])
        _finish(place, state)
        assert place.ids() == (new if state in ("recorded", "committed") else [0])
        assert place.staging() == []
        assert {state for _, state in place.states()} <= {"committed", "aborted"}
        seen.add(state)
    assert seen == ({"none", "open", "recorded", "committed"} if stride == 1 else seen)


def _finish(place: Place, state: str) -> None:
    """What a person does: the same command, or an abort if nothing is decided."""
    done = run("records", "commit", place.url, place.table)
    if state == "open":
        assert (done.exit_code, "open" in done.stderr) == (1, True), done.output
        number = str(place.states()[-1][0])
        done = run("records", "abort", place.url, place.table, number)
    assert done.exit_code == 0, done.output
    assert PASSWORD not in done.output
    run("records", "abort", place.url, place.table)


def give_up(place: Place, write_id: int, connect: Connect) -> None:
    with sessions(place.database, connect) as found:
        abort_job(found, place.at, write_id)


@pytest.mark.alternate
def test_after_a_kill_in_an_abort_the_same_command_ends_it(place: Place):
    write(place, [rows(0)])

    for number in range(1, 40, 3):
        job = open_job(place)
        write_attempt(job, [rows(1)])
        was_killed = killed_before(number, give_up, place, job.write_id)
        command = ["records", "abort", place.url, place.table, str(job.write_id)]
        assert run(*command).exit_code == 0
        assert (place.ids(), place.staging(), place.states()[-1][1]) == ([0], [], "aborted")
        if not was_killed:
            break


@pytest.mark.alternate
def test_a_committed_job_is_not_aborted(place: Place):
    write(place, [rows(1)])
    job = write(place, [rows(2)])
    number = str(job.write_id)
    done = run("records", "abort", place.url, place.table, number, "--undo")
    assert done.exit_code == CommitRecordExistsError.exit_code
    assert place.ids() == [1, 2]
