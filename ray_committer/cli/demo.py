"""``ray-committer demo``: a commit that is killed, and the same command that finishes it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ray_committer.cli.command import Command
from ray_committer.errors import RayCommitterError, mark
from ray_committer.jobs.commit import setup_job
from ray_committer.jobs.task_attempts import task_attempt
from ray_committer.limits import waiting

TASKS, FILES_OF_A_TASK, DAYS = 40, 50, 20
FILES = TASKS * FILES_OF_A_TASK
REQUESTS_PER_SECOND = 1_000
"""A real store limits requests; without a limit a local commit would be over before it can be killed."""
JOB = "flights-2013"
WATCH_SECONDS = 0.02


@click.command(cls=Command)
@click.argument("directory", metavar="[DIRECTORY]", default="commit-demo")
def demo(directory: str) -> None:
    """Show a commit that is killed in the middle, and the same command that finishes it.

    It takes about ten seconds, and needs neither Spark nor Java. It writes only to DIRECTORY, which must
    not exist yet (default: commit-demo).
    """
    root = Path(directory)
    try:
        root.mkdir(parents=True)
    except FileExistsError as e:
        raise click.UsageError(f"{directory}: is there already; name a directory that is not") from e
    except OSError as e:
        why = f"{directory}: cannot be made ({e.strerror}); name another directory"
        raise click.UsageError(why) from e
    table, page = str(root / "flights"), str(root / "report.html")
    commit = ["commit", table, "--expect-tasks", str(TASKS), "--html", page]
    commit += ["--max-requests-per-second", str(REQUESTS_PER_SECOND)]

    _say(f"{TASKS} tasks write {FILES:,} files below {table}/_temporary, where no reader looks.")
    _write_job(table)
    _run("status", table)
    _say("A commit moves them to their places. It is killed (SIGKILL) once half of them are there.")
    kill_in_the_middle(commit, table)
    _run("status", table)
    _say("The same command finishes it.")
    _run(*commit)
    _say(check(table))
    click.echo(f"The report: {page}\nAll of it can be deleted: rm -r {shlex.quote(directory)}")


def _write_job(table: str) -> None:
    job = setup_job(table, JOB)
    for task in range(TASKS):
        with task_attempt(table, job, task) as attempt:
            for number in range(FILES_OF_A_TASK):
                name = f"day={number % DAYS:02d}/part-{task:02d}-{number:02d}.csv"
                with attempt.open(name) as file:
                    file.write(content(name))


def content(name: str) -> bytes:
    """The content of the file with this name below the table."""
    return f"origin,dest\nEWR,IAH\n# {name}\n".encode()


def _run(*arguments: str) -> None:
    """Run a command of ray-committer to its end, and show it; `RayCommitterError` if it fails."""
    process = _start(arguments)
    if process.wait():
        raise RayCommitterError(
            f"the command ended with exit code {process.returncode}", "look at what it printed above"
        )


def kill_in_the_middle(arguments: list[str], table: str) -> None:
    """Kill a commit once half of its files are in place; `RayCommitterError` if it ended before."""
    process = _start(arguments)
    while process.poll() is None and len(list(_visible(table))) < FILES / 2:
        waiting.sleep(WATCH_SECONDS)
    process.kill()
    if process.wait() >= 0:
        raise RayCommitterError(
            "the commit ended before it could be killed", "look at what it printed above"
        )
    moved = len(list(_visible(table)))
    click.echo(f"\nkilled: {moved:,} of {FILES:,} files are in their places")


def _start(arguments: list[str] | tuple[str, ...]) -> subprocess.Popen[bytes]:
    click.secho(f"\n$ ray-committer {shlex.join(arguments)}", bold=True)
    sys.stdout.flush()
    return subprocess.Popen([sys.executable, "-m", "ray_committer.cli", *arguments])


def _visible(table: str) -> Iterator[Path]:
    return Path(table).glob("day=*/*")


def check(table: str) -> str:
    """What was found; `RayCommitterError` if a file is missing, is another, or was not to be there."""
    contents = {os.path.relpath(path, table): path.read_bytes() for path in _visible(table)}
    wrong = [name for name, data in contents.items() if data != content(name)]
    if wrong or len(contents) != FILES or Path(table, "_temporary").exists():
        raise RayCommitterError(
            f"{mark(table)}: has {len(contents):,} of {FILES:,} files, {len(wrong)} of them with other "
            f"content",
            "please report this, with what was printed above",
        )
    return f"Checked: each of the {FILES:,} files is there once with its content, and nothing else."


def _say(text: str) -> None:
    click.secho(f"\n{text}", fg="green")
