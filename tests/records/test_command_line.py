"""The commands for jobs of a table: the same words, exit codes and hints as for jobs of files."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from ray_committer.records.task import write_attempt
from tests.cli.commands import run
from tests.records.places import Place, open_job, rows, write
from tests.records.test_commit import recorded
from tests.servers.postgresql import PASSWORD

LONG_AGO = {"sqlite": "'2001-01-01'", "postgresql": "timestamptz '2001-01-01'"}

pytestmark = [pytest.mark.xdist_group("postgresql"), pytest.mark.alternate]


def again(line: str, place: Place) -> list[str]:
    """The arguments of a printed command, with the URL that has the password."""
    words = shlex.split(line.partition(": ")[2])
    assert words[0] == "ray-committer"
    return [place.url if word == place.database.shown else word for word in words[1:]]


def test_status_prints_the_commands_that_end_each_job(place: Place):
    write(place, [rows(1)])
    dead = open_job(place)
    write_attempt(dead, [rows(2)])
    recorded(place, 3, 4)
    shown = run("records", "status", place.url, place.table)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == f"{place.database.shown} table t: 3 jobs"
    assert "  append, 2 rows of 1 task attempt" in lines
    assert PASSWORD not in shown.output
    for start in ("  finish it: ", "  give it up: "):
        line = next(line for line in lines if line.startswith(start))
        assert run(*again(line, place)).exit_code == 0
    assert place.states() == [(1, "committed"), (2, "aborted"), (3, "committed")]
    assert (place.ids(), place.staging()) == ([1, 3, 4], [])
    found = json.loads(run("records", "status", place.url, place.table, "--output", "json").stdout)
    assert [(job["write_id"], job["state"]) for job in found["jobs"]] == [(3, "committed")]


def test_a_commit_without_a_name_takes_the_only_job_it_can_take(place: Place):
    nothing = run("records", "commit", place.url, place.table)
    assert (nothing.exit_code, "has no ledger" in nothing.stderr) == (1, True)
    write(place, [rows(1)])
    done = run("records", "commit", place.url, place.table)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"{place.database.shown} table t: write id 1 already committed, 1 row of 1 task attempt"
    ]
    jobs = [recorded(place, 2), recorded(place, 3)]
    which = run("records", "commit", place.url, place.table)
    assert (which.exit_code, "write ids 2, 3" in which.stderr) == (2, True)
    for job in jobs:
        number = str(job.write_id)
        assert run("records", "commit", place.url, place.table, number).exit_code == 0
    assert place.ids() == [1, 2, 3]
    gone = run("records", "commit", place.url, place.table, "9")
    assert (gone.exit_code, "no job with write id 9" in gone.stderr) == (1, True)


def test_an_abort_is_refused_after_the_record_unless_it_is_an_undo(place: Place):
    recorded(place, 1)
    abort = ("records", "abort", place.url, place.table, "1")
    refused = run(*abort)
    assert refused.exit_code == 4
    assert "--undo" in refused.stderr
    assert run(*abort, "--undo").exit_code == 0
    again = run(*abort)
    assert (again.exit_code, "had been aborted" in again.stdout) == (0, True)
    late = run("records", "commit", place.url, place.table, "1")
    assert (late.exit_code, "was aborted" in late.stderr) == (1, True)


def test_an_abort_without_a_write_id_gives_up_old_jobs_only(place: Place):
    write_attempt(open_job(place), [rows(1)])
    recorded(place, 2)
    abort = ("records", "abort", place.url, place.table)
    kept = run(*abort)
    assert (kept.exit_code, "no job was aborted" in kept.stdout) == (0, True)
    assert run(*abort, "--older-than", "1s").exit_code == 2
    assert len(place.staging()) == 2
    place.query(f"UPDATE {place.at.ledger} SET opened_at = {LONG_AGO[place.kind]}")
    gone = run(*abort)
    assert gone.stdout.splitlines() == [
        f"{place.database.shown} table t: write id 1 was aborted, 1 staging table dropped"
    ]
    assert place.states() == [(1, "aborted"), (2, "recorded")]


def test_an_undo_needs_the_name_of_its_job(place: Place):
    recorded(place, 1)
    done = run("records", "abort", place.url, place.table, "--undo")
    assert (done.exit_code, "--undo needs a write id" in done.stderr) == (2, True)
    assert place.states() == [(1, "recorded")]


def test_status_prints_the_command_that_drops_what_is_left_of_ended_jobs(place: Place):
    write(place, [rows(1)])
    place.abort(open_job(place))
    for write_id in (1, 2):
        left = place.at.beside(place.at.new_staging(write_id))
        place.query(f"CREATE TABLE {left} (id bigint)")  # as if its DROP had failed
    shown = run("records", "status", place.url, place.table).stdout.splitlines()
    lines = [line for line in shown if line.startswith("  drop them: ")]
    assert [run(*again(line, place)).exit_code for line in lines] == [0, 0]
    assert (place.staging(), place.ids()) == ([], [1])


def test_a_destination_that_is_no_database_is_refused(tmp_path: Path):
    done = run("records", "status", str(tmp_path), "t")
    assert (done.exit_code, "is not the URL of a database" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    "command", ["abort", "commit", "doctor", "show", "status", "vacuum", "validate"]
)
def test_a_command_of_files_refuses_a_database_without_its_password(command: str):
    done = run(command, "postgresql://u:geheim@127.0.0.1/db")
    assert (done.exit_code, "geheim" in done.output) == (1, False)
    assert "use `ray-committer records`" in done.output
