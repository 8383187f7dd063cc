"""``ray-committer``: the group of commands, and what all of them share."""

from __future__ import annotations

import logging
import sys

import click

from ray_committer.cli.command import Group
from ray_committer.version import __version__

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
_COMMANDS = {
    "abort": "Delete what the tasks of a job wrote.",
    "commit": "Move every file of the successful tasks of a job to its place below DEST.",
    "doctor": "Try what a commit to DEST rests on, and say what to fix.",
    "show": "Show the _SUCCESS file, summary report, task manifest or commit record at PATH.",
    "spark-conf": "Print the settings with which a Spark driver's writes are committed here.",
    "spark-job": "Set up, commit or abort a job for a Spark driver without Python, which starts it.",
    "status": "List the jobs in DEST/_temporary: tasks, files, bytes, age, and how far each commit got.",
    "vacuum": "Remove what dead jobs left in DEST/_temporary.",
    "validate": "Compare what is at DEST with what its job says must be there.",
}


@click.group(cls=Group, summaries=_COMMANDS)
@click.version_option(__version__)
@click.option("-v", "--verbose", count=True, help="Log what happens; -vv: more, and where errors arose.")
def main(verbose: int) -> None:
    """Commit the output of Spark jobs.

    Standard output is the result, standard error the progress, and errors: what is wrong, and what to
    do. Every option can be given by the environment, too.

    Exit codes: 0 done; 1 nothing visible was changed; 2 usage; 3 partial, unknown or cancelled: run the
    same command again; 4 conflict or another committer at work; 5 validation difference.
    """
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    # Only our own: libraries of stores log requests, and with them what may be a secret.
    logging.getLogger("ray_committer").setLevel(_LEVELS[min(verbose, 2)])
