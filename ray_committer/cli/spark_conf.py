"""``ray-committer spark-conf``: print the settings that make this package commit a driver's writes."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import click

from ray_committer.cli import options as shared
from ray_committer.cli.command import Command
from ray_committer.cli.print import print_result
from ray_committer.spark.settings import CommitMode, DriverName, driver_conf

_NAME = "ray-committer"


@click.command("spark-conf", cls=Command)
@click.argument("destination", metavar="[DEST]", required=False)
@click.option(
    "--driver",
    type=click.Choice(get_args(DriverName)),
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
    help="defaults: lines of spark-defaults.conf; conf: --conf arguments.",
)
@shared.executor_option
@click.option(
    "--commit",
    type=click.Choice(get_args(CommitMode)),
    default="ray",
    show_default=True,
    help="deferred: a write only saves the commit record; spark: Spark's own committer.",
)
@click.option("--command", metavar="LINE", help="The command that a JVM driver runs; default: this one.")
@shared.output_option
def spark_conf(
    destination: str | None,
    driver: DriverName,
    format: str,  # noqa: A002 - the name of the option and of its variable
    executor: str,
    commit: str,
    command: str | None,
    output: str,
) -> None:
    """Print the settings that make ray-committer commit a Spark driver's writes.

    With DEST, they include the settings that tasks need to write there. No credentials are printed,
    because the commit takes them from the driver's Hadoop settings.
    """
    conf = driver_conf(
        destination, driver=driver, executor=executor, commit=commit, command=command or _own_command()
    )
    lines = _arguments(conf) if format == "conf" else _defaults(conf)
    print_result(output, {"settings": conf}, lines)


def _defaults(conf: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, conf))
    return (f"{key:<{width}}  {value}" for key, value in conf.items())


def _arguments(conf: Mapping[str, str]) -> Iterator[str]:
    """One argument per line, so that all can be pasted into a shell command."""
    lines = [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in conf.items()]
    return (line if line == lines[-1] else f"{line} \\" for line in lines)


def _own_command() -> str:
    """The path of this command: beside this Python, or else on the PATH."""
    beside = Path(sys.executable).with_name(_NAME)
    return str(beside) if beside.is_file() else shutil.which(_NAME) or _NAME
