"""``ray-committer``: the group of commands, and the options that all of them share."""

from __future__ import annotations

import logging
import sys

import click

from ray_committer.cli.command import Group
from ray_committer.version import __version__

_COMMANDS = {
    "abort": "Delete the output of a job's tasks.",
    "commit": "Move the files of a job's successful tasks to their final paths below DEST.",
    "demo": "Show a commit that is killed in the middle, and the same command that finishes it.",
    "doctor": "Check what a commit to DEST depends on, and report what to fix.",
    "estimate": "Estimate how long a commit takes, its requests, and how many workers are worth it.",
    "explain": "Explain an error: what it means, whether the data is safe, and what to run next.",
    "history": "List the past commits of DEST, the newest first.",
    "partitions": "Tell a catalog which partitions at DEST have files, or print the statements for it.",
    "records": "Finish or give up jobs whose rows go into a table of a database.",
    "show": "Show the _SUCCESS, summary report, task manifest or commit record at PATH, or its writer.",
    "spark-conf": "Print the settings that make ray-committer commit a Spark driver's writes.",
    "spark-job": "Set up, commit or abort a job; run by Spark drivers without Python.",
    "status": "Show the state of DEST: its last commit, its jobs, and leftovers.",
    "table": "Make DEST a table with a log, show its log, and repair it.",
    "vacuum": "Remove the leftovers of dead jobs from DEST/_temporary.",
    "validate": "Compare the files at DEST with the job's manifests, or with its _SUCCESS file.",
}
_ELSEWHERE = {"records": "ray_committer.records.cli"}
"""The modules of commands that are not in this package."""


@click.group(cls=Group, summaries=_COMMANDS, modules=_ELSEWHERE)
@click.version_option(__version__)
def main() -> None:
    """Commit the output of Spark jobs.

    Results go to standard output. Progress and errors go to standard error. Each error shows what is
    wrong and what to do. You can also set every option by an environment variable.

    Exit codes: 0 done; 1 nothing visible was changed; 2 usage error; 3 partial, unknown or cancelled:
    run the same command again; 4 conflict, or another committer at work; 5 validation found a
    difference.
    """
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
