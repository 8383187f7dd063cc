"""Combine the options of one job from all their sources.

`options=` of `install` come first, then ``spark.ray_committer.*``, then Hadoop's committer settings,
then the defaults. All are read when the job begins, so a change between two writes takes effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from ray_committer.errors import SettingsError
from ray_committer.executors.choose import ExecutorName
from ray_committer.options import CommitOptions
from ray_committer.protocol.uri import parse_uri
from ray_committer.spark.hadoop.keys import hadoop_options

EXECUTOR_KEY = "spark.ray_committer.executor"


def job_options(settings: Mapping[str, str], given: CommitOptions) -> CommitOptions:
    """Return the options from a job's settings; values of `given` that are not the default win."""
    hadoop = CommitOptions(**hadoop_options(settings))
    return given.over(CommitOptions.from_spark_conf(settings, defaults=hadoop))


def job_executor(settings: Mapping[str, str], given: ExecutorName) -> ExecutorName:
    """Return where the job is committed: `given`, or if that is "auto", the executor in the settings."""
    name: Any = settings.get(EXECUTOR_KEY, given)
    if name not in get_args(ExecutorName):
        known = ", ".join(get_args(ExecutorName))
        raise SettingsError(f"{EXECUTOR_KEY}={name}: is not one of {known}; set it to one of these")
    executor: ExecutorName = name if given == "auto" else given
    return executor


def on_destination(options: CommitOptions, destination: str) -> CommitOptions:
    """Return `options` with the summary directory as a path on the destination's store."""
    if options.summary_directory is None:
        return options
    summary, own = parse_uri(options.summary_directory), parse_uri(destination)
    if summary.scheme and (summary.scheme, summary.authority) != (own.scheme, own.authority):
        raise SettingsError(
            f"{options.summary_directory}: is not on the same store as {destination}; the commit writes "
            f"the summary, so choose a directory on the destination's store"
        )
    return replace(options, summary_directory=summary.path)
