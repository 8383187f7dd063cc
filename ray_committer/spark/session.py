"""Install the commit of Spark's file writes in a session; the session can be running already.

The jar is added to the class loader of the running driver and to the executors. The JVM calls back
through Py4J's callback server, as for ``foreachBatch``. One setting does the rest.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from ray_committer.errors import RayNotAvailableError, SparkDriverError
from ray_committer.events import EventSink, ignore
from ray_committer.executors.base import CommitPool
from ray_committer.executors.choose import ExecutorName
from ray_committer.options import CommitOptions
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.heartbeat import EVERY_SECONDS
from ray_committer.spark.callback import callback, new_secret
from ray_committer.spark.catalog import SparkTable
from ray_committer.spark.driver import require_driver, require_own_version
from ray_committer.spark.hadoop.conf import job_configuration, session_configuration
from ray_committer.spark.handler import DEFERRED, CommitHandler
from ray_committer.spark.job_settings import HandlerSettings, job_executor, job_options
from ray_committer.spark.settings import MODE_KEY, SESSION_KEY, CommitMode
from ray_committer.version import PROTOCOL_CLASS, PROTOCOL_KEY, jar_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Installation:
    """The result of `install` in one session. `token` names the session in its settings; who knows it
    can commit with the session's options."""

    spark: SparkSession
    handler: CommitHandler
    previous: Mapping[str, str | None]
    restore_signal: Callable[[], None]
    token: str = field(repr=False)

    @property
    def last_report(self) -> CommitReport | None:
        """The report of the last commit, a failed one included."""
        return self.handler.last_report

    @property
    def last_error(self) -> Exception | None:
        """The last error as an exception; Spark shows only its text."""
        return self.handler.last_error

    def cancel(self) -> None:
        """Cancel the running commits; ``ray-committer commit DEST`` finishes them, as after a crash."""
        self.handler.cancel()


_log = logging.getLogger(__name__)
installed: dict[str, Installation] = {}
"""What is installed in each session, by the id that the JVM has given the session."""


def install(
    spark: SparkSession,
    *,
    commit: CommitMode = "ray",
    executor: ExecutorName | CommitPool | None = None,
    options: CommitOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
    on_event: EventSink = ignore,
    progress_seconds: float = EVERY_SECONDS,
) -> Installation:
    """Commit the file writes of this session with ray_committer; idempotent, the last call wins.

    commit: "ray" commits in ``df.write``; "deferred" only writes the commit record there, and
        ``ray-committer commit DEST`` does the rest; "spark" is Spark's own committer.
    executor: where the commit runs. If it is not given, ``spark.ray_committer.executor`` counts, or
        "auto" if that is not set. "ray" needs a connected Ray or RAY_ADDRESS, because no Ray is started
        from inside a job. The workers of a `ray_committer.commit_pool` serve all writes of the session.
    progress_seconds: how often to print a line with the progress on standard error while a write waits
        for its commit, and to offer it to Spark's UI; 0 does neither.
    options: those that are given take precedence over the session's ``spark.ray_committer.*``.
    storage_options: take precedence over Hadoop's settings for the destination's store.

    If called in the main thread, it also makes Ctrl-C cancel a running commit. Each session of a driver
    has its own settings; the settings of the last `install` apply to the sessions that have none.
    """
    require_driver(spark)
    load_jar(spark)
    conf = session_configuration(spark)
    job_options(conf, options or CommitOptions())
    if executor is None or isinstance(executor, str):
        executor = job_executor(conf.settings, executor)
    settings = HandlerSettings(
        executor=executor,
        options=options or CommitOptions(),
        storage_options=storage_options or {},
        on_event=on_event,
        progress_seconds=progress_seconds,
        check_ready=_readiness(executor) if commit != DEFERRED else lambda: None,
        configuration=lambda job_id: job_configuration(spark, job_id),
        show=partial(_show, spark),
        open_table=partial(SparkTable, spark),
    )
    handler = CommitHandler(settings)
    earlier = installed.pop(_id(spark), None)
    # The token stays the same below, so jobs that are being written go on with the new handler.
    if earlier is not None:
        earlier.restore_signal()
        earlier.handler.release()
    previous = earlier.previous if earlier else _settings(spark)
    token = earlier.token if earlier else new_secret()
    offer(spark, token, handler)
    spark.conf.set(SESSION_KEY, token)
    spark.conf.set(MODE_KEY, commit)
    spark.conf.set(PROTOCOL_KEY, PROTOCOL_CLASS)
    installation = Installation(spark, handler, previous, _cancel_on_interrupt(handler), token)
    installed[_id(spark)] = installation
    return installation


def uninstall(spark: SparkSession) -> None:
    """Restore the committer that the session had before `install`; idempotent."""
    installation = installed.pop(_id(spark), None)
    if installation is None:
        return
    installation.restore_signal()
    installation.handler.release()
    if spark.sparkContext._jsc is None:  # stopped
        return
    bridge(spark).removeHandler(installation.token)
    for key, value in installation.previous.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


def _id(spark: SparkSession) -> str:
    """The same for each Python object of one session; a clone of it, as of a stream, has its own."""
    return str(spark._jsparkSession.sessionUUID())  # type: ignore[attr-defined,unused-ignore]


def _settings(spark: SparkSession) -> dict[str, str | None]:
    return {key: spark.conf.get(key, None) for key in (PROTOCOL_KEY, MODE_KEY, SESSION_KEY)}


def load_jar(spark: SparkSession) -> None:
    """Make the jar's classes visible to the driver and the executors, and to callbacks."""
    from pyspark.java_gateway import ensure_callback_server_started

    context = spark.sparkContext
    if not _has_bridge(spark):
        path = jar_path()
        context._jsc.addJar(path)
        loader = context._jvm.Thread.currentThread().getContextClassLoader()
        # `addJar` is for the executors only. The driver's own class loader takes a URL while it runs.
        loader.addURL(context._jvm.java.io.File(path).toURI().toURL())
        if not _has_bridge(spark):
            raise SparkDriverError(
                f"{path}: could not be loaded into the running driver",
                "add it with spark.jars (ray_committer.spark.spark_conf()) when you build the session",
            )
    require_own_version(context._jvm)
    ensure_callback_server_started(context._gateway)


def offer(spark: SparkSession, token: str, handler: CommitHandler) -> None:
    """Connect the JVM to the handler of a session, with a new secret that only the JVM gets."""
    secret = new_secret()
    bridge(spark).setHandler(token, callback(handler, secret), secret)


def _show(spark: SparkSession, job_id: str, line: str) -> None:
    """Show a line of a commit's progress in Spark's UI, if the JVM can do so."""
    try:
        bridge(spark).say(job_id, line)
    except Exception:  # noqa: BLE001 - the commit does not depend on what the UI shows
        _log.debug("the progress of a commit is not shown in Spark's UI", exc_info=True)


def bridge(spark: SparkSession) -> Any:
    """The class of the jar that calls back."""
    return spark.sparkContext._jvm.io.raycommitter.Bridge


def _has_bridge(spark: SparkSession) -> bool:
    from py4j.java_gateway import JavaClass

    return isinstance(bridge(spark), JavaClass)


def _readiness(executor: ExecutorName | CommitPool) -> Callable[[], None]:
    """Return a check that refuses a job before its tasks run if its commit could not run."""
    if isinstance(executor, str):
        return _require_ray if executor == "ray" else lambda: None

    def ready() -> None:
        executor.require_open()
        _require_ray()

    return ready


def _require_ray() -> None:
    """Refuse a job before its tasks run if its commit could not run on Ray."""
    import ray

    from ray_committer.executors.ray.cluster import refuse_client

    refuse_client()
    if not ray.is_initialized() and "RAY_ADDRESS" not in os.environ:
        raise RayNotAvailableError(
            "this session commits on Ray (executor='ray') but Ray is not connected in this driver "
            f"(process {os.getpid()})",
            "call ray.init() before the write",
        )


def _cancel_on_interrupt(handler: CommitHandler) -> Callable[[], None]:
    """Make Ctrl-C cancel running commits before its earlier action; return a function to undo this."""
    if threading.current_thread() is not threading.main_thread():
        return lambda: None
    previous = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        # First the commits: the earlier action can raise, and then nobody would cancel them.
        handler.cancel()
        if callable(previous):
            previous(number, frame)

    def restore() -> None:
        # Somebody may have put another handler over this one, and would lose it.
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, interrupt)
    return restore
