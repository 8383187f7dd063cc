"""Record a real run on the command line as ``terminal.svg``: a commit that stops, and its second run.

A job of 2,000 files is committed by ``ray-committer``; once its files move, another program writes one
in the place of one of them, so the commit stops and says so, and the same command then finishes it. The
text is what was printed, but for the scratch directory's name.
"""

from __future__ import annotations

import html
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import ray_committer

PICTURE = Path(__file__).with_name("terminal.svg")
TASKS, FILES_A_TASK, DAYS = 40, 50, 20
SHOWN = "/shared/flights"
BLOCKED = "day=07/part-03-07.csv"
OTHER_PROGRAM = f"""
import sys
from pathlib import Path
import ray_committer.jobs.open_job as open_job
from ray_committer.cli.main import main
from ray_committer.testing import WrappedStore

blocked = Path(sys.argv[2]) / {BLOCKED!r}

def write(call):
    if call.operation == "rename" and call.paths[1] == str(blocked):
        blocked.write_text("of another program")

opened = open_job.open_store
open_job.open_store = lambda spec, **_: WrappedStore(opened(spec), before=write)
main(sys.argv[1:], prog_name="ray-committer")
"""
"""``ray-committer``, and another program that writes a file just before one is moved to its place."""
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"


def main() -> None:
    """Write the picture."""
    PICTURE.write_text(draw(record()))


def record() -> list[str]:
    """The lines of the terminal: commands after a dollar, and what they printed."""
    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch) / "flights"
        write_job(table)
        commit = ("ray-committer", "commit", SHOWN, "--expect-tasks", str(TASKS))
        lines = run("ray-committer", "status", SHOWN, table=table)
        lines += ["", *run(*commit, table=table, program=("-c", OTHER_PROGRAM))]
        lines += ["", *run("rm", f"{SHOWN}/{BLOCKED}", table=table)]
        return [*lines, *run("ray-committer", "commit", SHOWN, table=table)]


def write_job(table: Path) -> None:
    """Forty tasks of fifty files each."""
    job = ray_committer.setup_job(str(table), "flights-2013")
    for task in range(TASKS):
        with ray_committer.task_attempt(str(table), job, task) as attempt:
            for number in range(FILES_A_TASK):
                name = f"day={number % DAYS:02d}/part-{task:02d}-{number:02d}.csv"
                Path(attempt.path(name)).write_text("origin,dest\nEWR,IAH\n")


def run(*command: str, table: Path, program: tuple[str, ...] = ("-m", "ray_committer.cli")) -> list[str]:
    """Run a command; its line, what it printed on both streams, and its exit code if that is not 0."""
    real = [word.replace(SHOWN, str(table)) for word in command]
    if real[0] == "ray-committer":
        real = [sys.executable, *program, *real[1:]]
    result = subprocess.run(
        real,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
    )
    printed = result.stdout.replace(str(table), SHOWN).splitlines()
    code = [f"[exit code {result.returncode}]"] if result.returncode else []
    return [f"$ {shlex.join(command)}", *printed, *code]


def draw(lines: list[str]) -> str:
    """The lines as SVG, cut at 108 columns."""
    width, height = 920, 18 * len(lines) + 52
    rows = "\n".join(_row(line, 44 + 18 * number) for number, line in enumerate(lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'role="img" '
        'aria-label="A commit that stops, and the same command that finishes it">\n'
        f"<style>text{{font:13px {FONT};fill:#d0d7de;white-space:pre}}.command{{fill:#ffffff;"
        "font-weight:600}.code{fill:#ff938a}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>\n'
        '<circle cx="22" cy="18" r="5" fill="#ff5f57"/><circle cx="40" cy="18" r="5" fill="#febc2e"/>'
        '<circle cx="58" cy="18" r="5" fill="#28c840"/>\n'
        f"{rows}\n</svg>\n"
    )


def _row(line: str, y: int) -> str:
    kind = "command" if line.startswith("$ ") else "code" if line.startswith("[exit") else "line"
    text = html.escape(line if len(line) <= 108 else f"{line[:107]}…", quote=False)
    return f'<text x="20" y="{y}" class="{kind}" xml:space="preserve">{text}</text>'


if __name__ == "__main__":
    main()
