"""``ray-committer spark-conf``: the settings of a Spark driver whose writes shall be committed here."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import print_result
from ray_committer.spark.driver_conf import DriverName, driver_conf

_NAME = "ray-committer"


@click.command("spark-conf", cls=Command)
@click.argument("destination", metavar="[DEST]", required=False)
@click.option(
    "--driver",
    type=click.Choice(["jvm", "pyspark"]),
    default="jvm",
    show_default=True,
    help="jvm: spark-sql, spark-shell, Scala and Java; pyspark: Python calls install().",
)
@click.option(
    "--format",
    "format",
    type=click.Choice(["defaults", "conf"]),
    default="defaults",
    show_default=True,
    help="Lines of spark-defaults.conf, or --conf arguments.",
)
@shared.executor_option
@click.option(
    "--commit",
    type=click.Choice(["ray", "deferred", "spark"]),
    default="ray",
    show_default=True,
    help="deferred: a write only saves the commit record; spark: Spark's own committer.",
)
@click.option("--command", metavar="LINE", help="What a JVM driver starts; default: this command.")
@click.option("--jobs-address", metavar="URL", help="The dashboard of a Ray cluster that commits.")
@shared.output_option
def spark_conf(
    destination: str | None,
    driver: DriverName,
    format: str,  # noqa: A002 - the name of the option and of its variable
    executor: str,
    commit: str,
    command: str | None,
    jobs_address: str | None,
    output: str,
) -> None:
    """Print the settings with which a Spark driver's writes are committed here.

    With DEST, what its tasks need to write there is among them. No credential is printed: the commit
    takes them from the driver's Hadoop settings.
    """
    conf = driver_conf(
        destination,
        driver=driver,
        executor=executor,
        commit=commit,
        command=command or _own_command(),
        jobs_address=jobs_address,
    )
    print_result(output, conf, _arguments(conf) if format == "conf" else _defaults(conf))


def _defaults(conf: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, conf))
    return (f"{key:<{width}}  {value}" for key, value in conf.items())


def _arguments(conf: Mapping[str, str]) -> Iterator[str]:
    """One argument a line, so that all can be pasted into a command of a shell."""
    lines = [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in conf.items()]
    return (line if line == lines[-1] else f"{line} \\" for line in lines)


def _own_command() -> str:
    """Where this command is; beside this Python if it is not on the PATH."""
    beside = Path(sys.executable).with_name(_NAME)
    return str(beside) if beside.is_file() else shutil.which(_NAME) or _NAME
