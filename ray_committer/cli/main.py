"""``ray-committer``: the group of commands, and what all of them share."""

from __future__ import annotations

import logging
import sys

import click

from ray_committer.cli.abort import abort
from ray_committer.cli.command import Group
from ray_committer.cli.commit import commit
from ray_committer.cli.doctor import doctor
from ray_committer.cli.show import show
from ray_committer.cli.spark_conf import spark_conf
from ray_committer.cli.spark_job import spark_job
from ray_committer.cli.status import status
from ray_committer.cli.vacuum import vacuum
from ray_committer.cli.validate import validate
from ray_committer.version import __version__

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


@click.group(cls=Group)
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


for command in (commit, status, show, validate, abort, vacuum, doctor, spark_conf, spark_job):
    main.add_command(command)
