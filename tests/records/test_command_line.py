"""The commands for jobs of a table: the same words, exit codes and hints as for jobs of files."""

from __future__ import annotations

import json
import shlex

import pytest

from ray_committer.records.task import write_attempt
from tests.cli.commands import run
from tests.records.places import Place, open_job, rows, write
from tests.records.test_commit import recorded
from tests.servers.postgresql import PASSWORD

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
    shown = run("status", place.url, "--table", place.table)
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
    found = json.loads(run("status", place.url, "--table", place.table, "--output", "json").stdout)
    assert [(job["write_id"], job["state"]) for job in found["jobs"]] == [(3, "committed")]


def test_a_commit_without_a_name_takes_the_only_job_it_can_take(place: Place):
    nothing = run("commit", place.url, "--table", place.table)
    assert (nothing.exit_code, "has no ledger" in nothing.stderr) == (1, True)
    write(place, [rows(1)])
    done = run("commit", place.url, "--table", place.table)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"{place.database.shown} table t: write id 1 already committed, 1 row of 1 task attempt"
    ]
    jobs = [recorded(place, 2), recorded(place, 3)]
    which = run("commit", place.url, "--table", place.table)
    assert (which.exit_code, "write ids 2, 3" in which.stderr) == (2, True)
    for option in (("--write-id", "2"), ("--job-id", jobs[1].job_id)):
        assert run("commit", place.url, "--table", place.table, *option).exit_code == 0
    assert place.ids() == [1, 2, 3]
    gone = run("commit", place.url, "--table", place.table, "--write-id", "9")
    assert (gone.exit_code, "no job with write id 9" in gone.stderr) == (1, True)


def test_an_abort_is_refused_after_the_record_unless_it_is_an_undo(place: Place):
    recorded(place, 1)
    refused = run("abort", place.url, "--table", place.table)
    assert refused.exit_code == 4
    assert "--undo" in refused.stderr
    assert run("abort", place.url, "--table", place.table, "--undo").exit_code == 0
    again = run("abort", place.url, "--table", place.table)
    assert (again.exit_code, "nothing was left to abort" in again.stdout) == (0, True)
    late = run("commit", place.url, "--table", place.table, "--write-id", "1")
    assert (late.exit_code, "was aborted" in late.stderr) == (1, True)


def test_vacuum_gives_up_dead_jobs_only(place: Place):
    write_attempt(open_job(place), [rows(1)])
    recorded(place, 2)
    kept = run("vacuum", place.url, "--table", place.table)
    assert "0 jobs aborted, 0 staging tables dropped" in kept.stdout
    assert "write id 2: kept, its commit has begun" in kept.stdout
    assert run("vacuum", place.url, "--table", place.table, "--older-than", "1s").exit_code == 2
    assert len(place.staging()) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["commit", "{url}"], "needs --table"),
        (
            ["commit", "{url}", "--table", "t", "--mode", "overwrite"],
            "--mode does not apply to a database",
        ),
        (["vacuum", "{url}", "--table", "t", "-o", "a=b"], "-o does not apply to a database"),
        (["status", "/nowhere", "--table", "t"], "--table needs the URL of a database"),
        (["abort", "/nowhere", "--write-id", "1"], "--write-id needs the URL of a database"),
    ],
)
def test_an_option_of_the_other_kind_of_destination_is_refused(arguments: list[str], words: str):
    done = run(*(word.format(url="sqlite:///nowhere.db") for word in arguments))
    assert (done.exit_code, words in done.stderr) == (2, True), done.output


def test_variables_of_other_commands_do_not_matter(place: Place):
    write(place, [rows(1)])
    variables = {"RAY_COMMITTER_TABLE": place.table, "RAY_COMMITTER_EXECUTOR": "threads"}
    assert run("commit", place.url, **variables).exit_code == 0


@pytest.mark.parametrize("command", ["doctor", "validate", "show"])
def test_a_command_of_files_refuses_a_database_without_its_password(command: str):
    done = run(command, "postgresql://u:geheim@127.0.0.1/db")
    assert (done.exit_code, "geheim" in done.output) == (1, False)
    assert "postgresql://u@127.0.0.1/db" in done.output
