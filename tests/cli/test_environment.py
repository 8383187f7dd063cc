"""Every option has one variable, which means the same everywhere; colours and completion."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.cli import options as shared
from ray_committer.cli.main import main
from ray_committer.errors import SettingsError
from ray_committer.options import COMMANDS_ALONE
from ray_committer.options.settings import Where
from tests.cli import commands
from tests.cli.commands import run

COMMANDS = {name: command for name, command in commands.COMMANDS.items() if name != "spark-job"}
SETTINGS = CommitOptions.settable(Where.ENVIRONMENT)
COMMAND = [sys.executable, "-m", "ray_committer.cli"]


def options_of(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and not one.is_eager]


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_every_option_has_a_variable_without_the_commands_name_and_help_shows_it(name: str):
    command = COMMANDS[name] if name else main
    text = " ".join(run(*([name] if name else []), "--help", COLUMNS="200").stdout.split())
    for option in options_of(command):
        assert option.envvar == f"RAY_COMMITTER_{option.name.upper()}"
        assert f"env var: {option.envvar}" in text


def names(command: click.Command) -> set[str]:
    """The names of all options of a command and of the commands below it."""
    found = {str(option.name) for option in command.params if isinstance(option, click.Option)}
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            below = [command.get_command(context, name) for name in command.list_commands(context)]
        found.update(*map(names, filter(None, below)))
    return found


def test_the_options_of_commands_are_those_of_the_table_and_the_others_that_it_names():
    of_table = {row.parameter for row in CommitOptions.settable(Where.COMMAND_LINE).values()}
    assert {*COMMANDS_ALONE} == names(main) - of_table


def test_a_variable_of_any_command_is_known_to_all_and_a_misspelt_one_to_none():
    others = names(main) - SETTINGS.keys()
    assert {"job_id", "isolation", "verbose", "version"} < others
    environment = {f"RAY_COMMITTER_{name.upper()}": "x" for name in others}
    assert CommitOptions.from_env(environment) == CommitOptions()
    with pytest.raises(
        SettingsError, match=r"^RAY_COMMITTER_OUTPT: is not an option; did you mean output\?"
    ):
        CommitOptions.from_env({"RAY_COMMITTER_OUTPT": "json"})


def test_a_library_reads_variables_without_the_command_line():
    code = (
        "import os, sys\n"
        "from ray_committer import CommitOptions\n"
        "CommitOptions.from_env(os.environ)\n"
        "assert not {name for name in sys.modules if name.startswith('ray_committer.cli')}\n"
    )
    environment = {**os.environ, "RAY_COMMITTER_JOB_ID": "x", "RAY_COMMITTER_THREADS": "3"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_the_version_of_an_image_is_no_version_of_a_table(dest: Path):
    dest.mkdir()
    for words in (["status"], ["table", "files"]):
        result = run(*words, str(dest), RAY_COMMITTER_VERSION="1.2")
        assert "VERSION" not in result.output


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_read_alike_from_the_command_line_the_environment_and_spark(name: str):
    row = SETTINGS[name]
    texts = {"summary_directory": "/s", "retry_seconds": "1m", "catalog_table": "db.t"}
    text = texts.get(name, "true" if row.is_flag else "finish" if row.kind.choices else "3")
    expected = CommitOptions.from_env({row.variable: text})
    assert expected == CommitOptions.from_spark_conf({row.spark_key: text})
    arguments = [f"--{row.spelled}"] if row.is_flag else [f"--{row.spelled}", text]
    assert given_options(arguments) == expected
    assert given_options([], **{row.variable: text}) == expected


def given_options(arguments: list[str], **environment: str) -> CommitOptions:
    """What a command makes of its arguments."""
    found: list[CommitOptions] = []

    @click.command()
    @shared.at_store(has_output=False)
    def probe(how: shared.How) -> None:
        found.append(how["options"])

    from click.testing import CliRunner

    from ray_committer.cli.command import name_environment

    name_environment(probe)
    result = CliRunner(env=environment).invoke(probe, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return found[0]


def test_the_command_line_wins_over_the_environment():
    assert given_options(["--threads", "5"], RAY_COMMITTER_THREADS="7").threads == 5
    assert given_options(["--no-cleanup"], RAY_COMMITTER_CLEANUP="true").cleanup is False


def test_what_is_not_decided_can_be_said_in_the_environment():
    assert given_options([], RAY_COMMITTER_VALIDATE="auto").validate is None
    assert given_options([], RAY_COMMITTER_VALIDATE="false").validate is False


def test_a_commit_follows_its_variables(write_job, dest: Path):
    write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"b": "x"}}, job_id="job_2")
    variables = {"JOB_ID": "job_2", "ASSUME_COMPLETE": "1", "OUTPUT": "json", "MARK_SUCCESS": "false"}
    variables |= {"EXECUTOR": "inline", "CLEANUP": "false"}
    result = run(
        "commit", str(dest), **{f"RAY_COMMITTER_{key}": value for key, value in variables.items()}
    )
    report = json.loads(result.stdout)
    assert (report["job_id"], report["executor"], report["outcome"]) == ("job_2", "inline", "committed")
    assert not (dest / "_SUCCESS").exists()
    assert ray_committer.list_jobs(str(dest))[1].state == "committed"


def test_storage_options_are_taken_apart_as_a_shell_does_it():
    option = next(one for one in options_of(COMMANDS["status"]) if one.name == "storage_options")
    with click.Context(COMMANDS["status"]) as context:
        text = option.type.split_envvar_value("a=1 'b=two words' c=x=y")
        assert option.type_cast_value(context, text) == (("a", "1"), ("b", "two words"), ("c", "x=y"))


def test_storage_options_of_the_environment_reach_the_store(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    variable = {"RAY_COMMITTER_STORAGE_OPTIONS": "fs.permissions.umask-mode=037"}
    result = run("commit", str(dest), "--assume-complete", **variable)
    assert result.exit_code == 0, result.output
    assert (dest / "_SUCCESS").stat().st_mode & 0o777 == 0o640


def on_terminal(arguments: list[str], **environment: str) -> str:
    """What a command prints where a person sits."""
    ours, theirs = pty.openpty()
    clean = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**clean, "TERM": "xterm", **environment},
    )
    os.close(theirs)
    read = b""
    try:
        while data := os.read(ours, 4096):
            read += data
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    return read.decode()


def test_colours_are_for_terminals_and_for_those_who_want_them(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    code = f"import ray_committer; ray_committer.record_job({str(dest)!r})"
    subprocess.run([sys.executable, "-c", code], check=True)  # a committer that is dead by now
    red = "\x1b[31m"
    assert red in on_terminal(["status", str(dest)])
    assert red not in on_terminal(["status", str(dest)], NO_COLOR="1")
    assert "\x1b" not in run("status", str(dest), NO_COLOR="").stdout


def test_a_watch_redraws_a_terminal_and_nothing_else(dest: Path):
    dest.mkdir()
    cleared = "\x1b[2J"
    assert cleared in on_terminal(["status", str(dest), "--watch"])
    assert cleared not in run("status", str(dest), "--watch").stdout


def test_the_verdict_is_the_last_line_of_a_terminal_and_coloured_only_there(write_job, dest: Path):
    def last(text: str) -> str:
        return text.splitlines()[-1]

    write_job({0: {"a": "x"}})
    green = "\x1b[32m\x1b[1mcommitted: job job_1, 1 file, 1 byte"
    commit = ["commit", str(dest), "--assume-complete"]
    assert last(on_terminal(commit)).startswith(green)
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert last(on_terminal(commit[:2], **plain)) == "already committed: job job_1"
    assert last(run(*commit[:2], NO_COLOR="").stdout) == "already committed: job job_1"


def test_the_verdict_is_below_an_error_and_its_advice(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    (dest / "a").write_text("another")
    result = run("commit", str(dest), "--assume-complete", NO_COLOR="")
    *_, advice, page, verdict = result.stderr.splitlines()
    assert advice.startswith("  -> ")
    assert page.startswith("  see: ray-committer explain RC-")
    assert verdict.startswith("NOT committed: job job_1, after ")
    assert result.stdout == ""


def test_json_has_no_verdict_below_it(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    result = run("commit", str(dest), "--assume-complete", "--output", "json")
    assert json.loads(result.stdout)["outcome"] == "committed"
    assert "committed: " not in result.stderr


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_reader_that_has_gone_is_not_told_of_as_an_error(dest: Path, output: str):
    dest.mkdir()
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        command = [*COMMAND, "status", str(dest), "--output", output]
        result = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, check=False)
    assert (result.returncode, result.stderr) == (1, b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ray-committer ", {"commit", "status", "vacuum", "spark-conf"}),
        ("ray-committer va", {"vacuum", "validate"}),
        ("ray-committer commit /t --max", {"--max-requests-per-second"}),
        ("ray-committer commit /t --executor ", {"auto", "threads", "ray"}),
        ("ray-committer commit /t --mode over", {"overwrite", "overwrite_partitions"}),
        ("ray-committer commit /t --unfinished ", {"finish", "supersede", "refuse", "auto"}),
    ],
)
def test_a_shell_completes_commands_options_and_choices(words: str, expected: set[str]):
    environment = {
        **os.environ,
        "_RAY_COMMITTER_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    code = "from ray_committer.cli.main import main; main(prog_name='ray-committer')"
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    found = {line.partition(",")[2] for line in result.stdout.splitlines()}
    assert expected <= found, result.stderr


def test_v_logs_our_own_and_not_what_libraries_say(dest: Path, write_job):
    write_job({0: {"a": "x"}})
    code = (
        "import logging\n"
        "from ray_committer.cli import status\n"
        "from ray_committer.cli.main import main\n"
        "listed = status.destination_status\n"
        "def speak(*args, **options):\n"
        "    logging.getLogger('azure.core').info('x-ms-secret: s3cret')\n"
        "    logging.getLogger('ray_committer.x').debug('ours')\n"
        "    return listed(*args, **options)\n"
        "status.destination_status = speak\n"
        f"main(['-vv', 'status', {str(dest)!r}])\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ours" in result.stderr
    assert "s3cret" not in result.stderr + result.stdout
