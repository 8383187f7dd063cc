"""How one job is committed: its options from all places that can set them.

`options=` of `install` come first, then ``spark.ray_committer.*``, then Hadoop's committer settings,
then the defaults. All are read when the job begins, so a setting that changes between two writes counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec

from ray_committer.errors import SettingsError, SparkDriverError
from ray_committer.events import EventSink, ignore
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.options import CommitOptions
from ray_committer.options.settings import Where
from ray_committer.protocol.prepared import prepare
from ray_committer.report.heartbeat import EVERY_SECONDS
from ray_committer.spark.driver import JAR_PROTOCOL_VERSION
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.hadoop.keys import HADOOP_KEYS, hadoop_options
from ray_committer.spark.settings import EXECUTOR_KEY
from ray_committer.spark.tell_catalog import OpenTable


def job_options(conf: HadoopConf, given: CommitOptions) -> CommitOptions:
    """Return the options from a job's settings; those that were `given` win, but for Hadoop's setting
    that leaves out ``_SUCCESS``. `SettingsError` also if a session or a write has set where reports go:
    stores that are reached there get the driver's credentials."""
    # Read only for its check: who may set it.
    for row in CommitOptions.settable(Where.DRIVER).values():
        conf.get(row.spark_key, *(key.name for key in HADOOP_KEYS if key.option == row.name))
    hadoop = CommitOptions(**hadoop_options(conf.settings))
    chosen = given.over(CommitOptions.from_spark_conf(conf.settings, defaults=hadoop))
    return chosen if hadoop.mark_success else chosen.changed(mark_success=False)


def job_executor(settings: Mapping[str, str], given: ExecutorName | None = None) -> ExecutorName:
    """Return where a job is committed: `given`, else the executor in the settings, else "auto"."""
    executor: Any = "auto"
    for name in (settings.get(EXECUTOR_KEY), given):
        if name is not None and name not in get_args(ExecutorName):
            known = ", ".join(get_args(ExecutorName))
            raise SettingsError(
                f"{EXECUTOR_KEY}={name}: is not one of {known}", "set it to one of these"
            )
        executor = name or executor
    chosen: ExecutorName = executor
    return chosen


@dataclass(frozen=True, slots=True)
class HandlerSettings:
    """How the jobs of a session are committed. `configuration` returns Hadoop's settings for a job id,
    over which these take precedence. `show` gets a job id and a line of its progress. `open_table` opens
    a table in the session's catalog; without it, only the report says how that is told."""

    executor: ExecutorName | CommitPool = "auto"
    options: CommitOptions = field(default_factory=CommitOptions)
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    on_event: EventSink = ignore
    progress_seconds: float = EVERY_SECONDS
    check_ready: Callable[[], None] = lambda: None
    configuration: Callable[[str], HadoopConf] = lambda _: HadoopConf()
    show: Callable[[str, str], None] = lambda *_: None
    open_table: OpenTable | None = None


class _Request(msgspec.Struct, frozen=True):
    version: int
    conf: dict[str, str] = {}
    given: frozenset[str] = frozenset()


prepare(_Request)


def settings_of(request_json: str, on_event: EventSink) -> HandlerSettings:
    """Return the settings that the driver sent with a request; `SparkDriverError` names a wrong one."""
    try:
        request = msgspec.json.decode(request_json, type=_Request)
    except msgspec.DecodeError as e:
        raise SparkDriverError(
            f"the request does not come from a Spark driver ({e})",
            "only Spark drivers use this command, run `ray-committer commit DEST` instead",
        ) from e
    if request.version != JAR_PROTOCOL_VERSION:
        raise SparkDriverError(
            f"the driver's jar uses protocol version {request.version}, but this ray-committer uses "
            f"{JAR_PROTOCOL_VERSION}",
            "give Spark the jar of this package",
        )
    conf = HadoopConf(request.conf, given=request.given)
    job_options(conf, CommitOptions())  # finds a wrong setting before anything is done
    conf.get(EXECUTOR_KEY)
    return HandlerSettings(
        executor=job_executor(conf.settings),
        on_event=on_event,
        progress_seconds=0,
        configuration=lambda _: conf,
    )
