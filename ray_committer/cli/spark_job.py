"""``ray-committer spark-job``: run by Spark drivers without Python, as a child process or as a Ray job.

The request is JSON from the driver's jar. The answer is one line of JSON on standard output: ``{}``, or
an object with the job's ``stamp``, the reason why it was ``kept``, or an ``error``. Progress and the
report go to standard error, which goes to the driver's log.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import sys
from collections.abc import Callable

import click
import msgspec

from ray_committer.cli.cancel import cancel_on_signals
from ray_committer.cli.document import decide
from ray_committer.cli.errors import exit_code
from ray_committer.cli.lines import lines, tell
from ray_committer.errors import RayCommitterError
from ray_committer.jobs.commit import read_text
from ray_committer.report.text import report_lines, verdict_line
from ray_committer.spark.handler import CommitHandler
from ray_committer.spark.job_settings import settings_of

Action = Callable[[CommitHandler, str], str]


@click.group("spark-job")
def spark_job() -> None:
    """Set up, commit or abort a job; run by Spark drivers without Python."""
    decide(click.get_current_context())  # no document: the answer is one line, also with a variable


_inline = click.option(
    "--inline", metavar="TEXT", help="The request, compressed; default: standard input."
)


@spark_job.command()
@_inline
def setup(inline: str | None) -> None:
    """Set up a job before its tasks run."""
    _run(lambda handler, text: handler.setupJob(text), _small_request(inline))


@spark_job.command()
@_inline
def abort(inline: str | None) -> None:
    """Abort a job that has failed, unless its commit is recorded."""
    _run(lambda handler, text: handler.abortJob(text), _small_request(inline))


@spark_job.command()
@click.option("--request", metavar="URL", help="The file with the request; default: standard input.")
def commit(request: str | None) -> None:
    """Commit a job whose tasks are done."""
    read = _stdin if request is None else lambda: read_text(request)
    _run(lambda handler, text: handler.commitJob(text), read)


def _small_request(inline: str | None) -> Callable[[], str]:
    return _stdin if inline is None else lambda: _decompressed(inline)


def _stdin() -> str:
    return sys.stdin.buffer.read().decode()


def _decompressed(text: str) -> str:
    try:
        return gzip.decompress(base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, OSError, EOFError, UnicodeDecodeError) as e:
        raise click.UsageError(f"--inline: is not base64-encoded gzip ({e})") from e


def _run(action: Action, read: Callable[[], str]) -> None:
    """Run a request, print its result, and exit with the error's code."""
    with lines() as shown:
        try:
            request = read()
            handler = CommitHandler(settings_of(request, shown.event))
        except (RayCommitterError, OSError) as e:
            click.echo(msgspec.json.encode({"error": str(e)}).decode())
            sys.exit(exit_code(e, "spark-job"))
        with cancel_on_signals(handler.cancel):
            answer = action(handler, request)
    if handler.last_report is not None:
        for line in report_lines(msgspec.structs.replace(handler.last_report, error=None)):
            tell(line)
        tell(verdict_line(handler.last_report))
    click.echo(answer)
    if handler.last_error is not None:
        sys.exit(exit_code(handler.last_error, "spark-job"))
