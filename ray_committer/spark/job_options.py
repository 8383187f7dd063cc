"""The options of one job from all who may say something of them.

`options=` of `install` come first, then ``spark.ray_committer.*``, then Hadoop's committer settings,
then the defaults. All are read when the job begins, so what is set between two writes counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from ray_committer.errors import SettingsError
from ray_committer.executors.choose import ExecutorName
from ray_committer.options import CommitOptions
from ray_committer.protocol.uri import parse_uri
from ray_committer.spark.hadoop_keys import hadoop_options

EXECUTOR_KEY = "spark.ray_committer.executor"


def job_options(settings: Mapping[str, str], given: CommitOptions) -> CommitOptions:
    """The options by a job's settings; a value of `given` that is not the default wins."""
    hadoop = CommitOptions(**hadoop_options(settings))
    return given.over(CommitOptions.from_spark_conf(settings, defaults=hadoop))


def job_executor(settings: Mapping[str, str], given: ExecutorName) -> ExecutorName:
    """Where the job is committed: what was given, if that is not "auto", else what the settings say."""
    name: Any = settings.get(EXECUTOR_KEY, given)
    if name not in get_args(ExecutorName):
        known = ", ".join(get_args(ExecutorName))
        raise SettingsError(f"{EXECUTOR_KEY}={name}: is not one of {known}; set it to one")
    executor: ExecutorName = name if given == "auto" else given
    return executor


def on_destination(options: CommitOptions, destination: str) -> CommitOptions:
    """`options` with the summary's directory as a path of the destination's store."""
    if options.summary_directory is None:
        return options
    summary, own = parse_uri(options.summary_directory), parse_uri(destination)
    if summary.scheme and (summary.scheme, summary.authority) != (own.scheme, own.authority):
        raise SettingsError(
            f"{options.summary_directory}: summaries are written by the commit, so their directory must "
            f"be on the destination's store; {destination} is not"
        )
    return replace(options, summary_directory=summary.path)
