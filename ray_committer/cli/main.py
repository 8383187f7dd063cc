"""``ray-committer``: the group of commands, and what all of them share."""

from __future__ import annotations

import logging
import sys
from typing import Any

import click

from ray_committer.cli.abort import abort
from ray_committer.cli.commit import commit
from ray_committer.cli.doctor import doctor
from ray_committer.cli.show import show
from ray_committer.cli.spark_job import spark_job
from ray_committer.cli.status import status
from ray_committer.errors import RayCommitterError
from ray_committer.version import __version__


class _Group(click.Group):
    """A group that turns our errors, and the store's, into one line and an exit code."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except RayCommitterError as e:
            _fail(str(e), e.exit_code)
        except PermissionError as e:
            _fail(f"{e.filename}: no permission ({e.strerror}); grant it and run the same command", 1)
        except NotADirectoryError as e:
            _fail(f"{e.filename}: is not a directory; name the directory that the job wrote to", 1)
        except OSError as e:
            _fail(f"{e.filename}: {e.strerror or e}; mend that and run the same command", 1)
        except KeyboardInterrupt:
            _fail("stopped at once; everything was kept, run the same command to finish", 3)


def _fail(text: str, exit_code: int) -> None:
    click.echo(f"ray-committer: {text}", err=True)
    sys.exit(exit_code)


@click.group(cls=_Group)
@click.version_option(__version__)
@click.option("-v", "--verbose", is_flag=True, help="Log what happens to standard error.")
def main(verbose: bool) -> None:
    """Commit the output of Spark jobs.

    Exit codes: 0 done; 1 nothing visible was changed; 2 usage; 3 partial, unknown or cancelled: run the
    same command again; 4 conflict or another committer at work; 5 validation difference.
    """
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, stream=sys.stderr)


main.add_command(commit)
main.add_command(status)
main.add_command(show)
main.add_command(abort)
main.add_command(doctor)
main.add_command(spark_job)
