"""``--help``: groups of options, examples to copy; and what is said about a name that is not known."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest

from ray_committer.cli.help import EXAMPLES
from ray_committer.cli.main import main
from tests.cli.commands import run


def every_command(
    command: click.Command = main, name: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """All commands with their full names, groups too."""
    if name:
        yield " ".join(name), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for one in command.list_commands(context):
            found = command.get_command(context, one)
            assert found is not None
            yield from every_command(found, (*name, one))


COMMANDS = {name: found for name, found in every_command() if not name.startswith("spark-job")}
LINES = [line for lines in EXAMPLES.values() for line in lines]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_and_each_of_its_options_has_help(name: str):
    assert COMMANDS[name].help
    options = [option for option in COMMANDS[name].params if isinstance(option, click.Option)]
    assert [option.name for option in options if not option.help] == []
    shown = run(*name.split(), "--help")
    assert shown.exit_code == 0
    assert [option.opts[0] for option in options if option.opts[0] not in shown.stdout] == []


def test_every_command_has_examples():
    groups = {name for name, one in COMMANDS.items() if isinstance(one, click.Group)}
    assert EXAMPLES.keys() | groups == COMMANDS.keys()


@pytest.mark.parametrize("line", LINES)
def test_an_example_is_a_command_with_such_options(line: str):
    program, *words = shlex.split(line)
    assert program == "ray-committer"
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None
        command, context = found, click.Context(found, parent=context, info_name=name)
    command.parse_args(context, words)


def test_help_shows_common_options_first_and_examples_last():
    text = run("commit", "--help").stdout
    titles = [line for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == ["Options:", "Safety:", "Tuning:", "Storage:", "Examples:"]
    assert text.index("--job-id") < text.index("Safety:") < text.index("--dry-run")
    assert text.index("Tuning:") < text.index("--threads") < text.index("Storage:")
    assert text.endswith("ray-committer commit hdfs://nn/table --job-id job_1 --dry-run\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["comit", "/x"], "no such command 'comit'; did you mean commit?"),
        (["status", "--exct", "/x"], "no such option --exct; did you mean --exact?"),
        (["xyz"], "no such command 'xyz'"),
        (["status", "--qqqq", "/x"], "no such option --qqqq"),
    ],
)
def test_a_name_that_is_like_a_known_one_is_shown(words: list[str], says: str):
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == f"ray-committer: {says}"


@pytest.mark.parametrize(
    "words", [["-vv", "status", "/x"], ["status", "-vv", "/x"], ["-v", "status", "/x", "-v"]]
)
def test_verbose_is_taken_before_and_after_the_name_of_the_command(words: list[str]):
    assert "Traceback" in run(*words).stderr
    assert "Traceback" not in run("-v", "status", "/x").stderr


@pytest.mark.parametrize("command", ["status", "vacuum", "abort", "commit"])
@pytest.mark.parametrize("destination", ["", " "])
def test_an_empty_destination_is_refused_and_is_not_the_current_directory(
    command: str, destination: str
):
    result = run(command, destination)
    assert result.exit_code == 2
    assert "the destination is empty" in result.stderr
