"""``ray-committer spark-job``: a child process of a Spark driver without Python.

The request on standard input is JSON from the driver's jar. The answer is one line of JSON on standard
output: ``{}``, or an object with the job's ``stamp``, the reason why it was ``kept``, or an ``error``.
Progress and the report go to standard error, which goes to the driver's log.
"""

from __future__ import annotations

import sys

import click
import msgspec

from ray_committer.cli.cancel import cancel_on_signals
from ray_committer.cli.document import decide
from ray_committer.cli.errors import exit_code
from ray_committer.cli.lines import lines, tell
from ray_committer.errors import RayCommitterError
from ray_committer.report.text import report_lines, verdict_line
from ray_committer.spark.handler import CommitHandler
from ray_committer.spark.job_settings import settings_of


@click.command("spark-job")
@click.argument("action", type=click.Choice(["setup", "commit", "abort"]))
def spark_job(action: str) -> None:
    """Set up, commit or abort a job; run by Spark drivers without Python."""
    decide(click.get_current_context())  # no document: the answer is one line, also with a variable
    with lines() as shown:
        request = sys.stdin.buffer.read().decode()
        try:
            handler = CommitHandler(settings_of(request, shown.event))
        except RayCommitterError as e:
            click.echo(msgspec.json.encode({"error": str(e)}).decode())
            sys.exit(exit_code(e, "spark-job"))
        with cancel_on_signals(handler.cancel):
            answer = _answer(handler, action, request)
    if handler.last_report is not None:
        for line in report_lines(msgspec.structs.replace(handler.last_report, error=None)):
            tell(line)
        tell(verdict_line(handler.last_report))
    click.echo(answer)
    if handler.last_error is not None:
        sys.exit(exit_code(handler.last_error, "spark-job"))


def _answer(handler: CommitHandler, action: str, request: str) -> str:
    if action == "setup":
        return handler.setupJob(request)
    return handler.commitJob(request) if action == "commit" else handler.abortJob(request)
