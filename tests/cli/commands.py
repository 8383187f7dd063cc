"""Run ``ray-committer`` in this process, as at a terminal of 80 columns that has no colours."""

from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner, Result

from ray_committer.cli.main import main
from ray_committer.errors import shown

TERMINAL = {"COLUMNS": "80", "NO_COLOR": "1"}
HADOOP = Path(__file__).parents[1] / "data" / "hadoop"


def command_of(name: str) -> click.Command:
    """The command called `name`."""
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


COMMANDS = {name: command_of(name) for name in main.list_commands(click.Context(main))}


def run(*arguments: str, **environment: str) -> Result:
    runner = CliRunner(env={**TERMINAL, **environment})
    result = runner.invoke(main, arguments, prog_name="ray-committer")
    assert shown(result.output) == result.output, "a path is marked, but not shown"
    return result


def error_lines(result: Result) -> list[str]:
    """The last three lines of a command that failed: what, the advice, the page. The verdict of a commit
    that began is below them."""
    printed = result.stderr.splitlines()
    return printed[-4:-1] if printed[-1].startswith("NOT committed: ") else printed[-3:]


def snapshot(root: Path) -> dict[str, bytes | None]:
    """All that is below a directory: the content of files, None for directories."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }
