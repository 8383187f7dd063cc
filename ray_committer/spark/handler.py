"""Answer the requests of Spark's driver: when a job begins, when its tasks are done, when it has failed.

Requests and answers are JSON text. An error is returned, not raised: exceptions that cross Py4J arrive
as a traceback, and the user of a failed ``df.write`` should read one sentence.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from ray_committer.errors import CommitRecordExistsError, RayCommitterError, StoreRefusedError, mark
from ray_committer.events import CancelToken, EventSink
from ray_committer.job_files.set_up_here import is_random
from ray_committer.jobs.commit import abort_job, run_commit, set_up
from ray_committer.jobs.open_job import open_to_load
from ray_committer.options import CommitOptions
from ray_committer.protocol.commit_result import Outcome
from ray_committer.report.commit_report import CommitReport
from ray_committer.report.heartbeat import heartbeat
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.hadoop.keys import ignored_keys
from ray_committer.spark.hadoop.stores import storage_options
from ray_committer.spark.job_settings import HandlerSettings, job_options
from ray_committer.spark.requests import Request, TasksRequest, commit_options, setup_options
from ray_committer.spark.tasks_ahead import TasksAhead
from ray_committer.spark.tell_catalog import catalog_told
from ray_committer.spark.workers_ahead import WorkersAhead
from ray_committer.tables.run_session import in_batch, jobs_of_spark
from ray_committer.work.load_ahead import LoadAhead

_log = logging.getLogger(__name__)

DEFERRED = "deferred"
_HIVE_STAGING = "/.hive-staging"


class CommitHandler:
    """The Python side of an ``io.raycommitter.JobCommitHandler``; can commit jobs concurrently."""

    def __init__(self, settings: HandlerSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._running: set[CancelToken] = set()
        self._said: set[str] = set()
        self._ahead = WorkersAhead(settings.executor)
        self._tasks_ahead = TasksAhead()
        self.last_report: CommitReport | None = None
        self.last_error: Exception | None = None
        self.commits = 0

    def setupJob(self, request_json: str) -> str:  # noqa: N802 - the name in Java
        """Set up the job on this driver's store, before any task runs; the answer has its stamp."""
        return self._answer(self._setup, request_json)

    def startWorkers(self, request_json: str) -> str:  # noqa: N802 - the name in Java
        """Start workers for the commit of a job whose tasks still run; returns at once."""
        job_id = msgspec.json.decode(request_json, type=Request).job_id
        threading.Thread(target=self._ahead.start, args=(job_id,), daemon=True).start()
        return "{}"

    def loadTasks(self, request_json: str) -> str:  # noqa: N802 - the name in Java
        """Load what tasks have committed while others still run. What fails is left to the commit; after
        an error, Spark's driver sends the same again with it."""
        try:
            request = msgspec.json.decode(request_json, type=TasksRequest)
            tasks = [task.committed() for task in request.tasks]
            if self._tasks_ahead.load(request.job_id, tasks):
                return "{}"
        except Exception:  # noqa: BLE001 - the commit reports what is wrong
            _log.info("tasks that have committed are left to the commit", exc_info=True)
        return msgspec.json.encode({"error": "tasks are loaded at the commit"}).decode()

    def commitJob(self, request_json: str) -> str:  # noqa: N802 - the name in Java
        """Commit the job, or only record it if its commit is deferred."""
        self.commits += 1
        return self._answer(self._commit, request_json)

    def abortJob(self, request_json: str) -> str:  # noqa: N802 - the name in Java
        """Abort the job, unless its commit is recorded: then the answer shows how to finish it.
        `last_error` keeps the error that made the job fail."""
        # Spark aborts a job after its commit failed: the user wants the error of the commit.
        failure = self.last_error
        answer = self._answer(self._abort, request_json)
        self.last_error = failure or self.last_error
        return answer

    def cancel(self) -> None:
        with self._lock:
            running = list(self._running)
        for token in running:
            token.cancel()

    def release(self) -> None:
        """End the workers of jobs that are not being committed, and forget what is known of their tasks;
        another handler can commit them."""
        self._ahead.end_all()
        self._tasks_ahead.end_all()

    def _answer(self, action: Callable[[Request], dict[str, Any]], request_json: str) -> str:
        try:
            answer = action(msgspec.json.decode(request_json, type=Request))
        except Exception as e:  # noqa: BLE001 - every error is the answer
            _log_failure(e)
            self.last_error = e
            return msgspec.json.encode({"error": str(e) or type(e).__name__}).decode()
        self.last_error = None
        return msgspec.json.encode(answer).decode()

    def _setup(self, request: Request) -> dict[str, Any]:
        # Before the set-up: a job whose commit cannot run must not let its tasks work for hours.
        self._settings.check_ready()
        # Hive would move the files of a job that is not committed, `_temporary` included.
        if request.commit == DEFERRED and _HIVE_STAGING in request.dest:
            raise StoreRefusedError(
                f"{mark(request.dest)}: is a staging directory that Hive moves when the write returns, "
                "so its commit cannot be deferred",
                "write this table with commit='ray'",
            )
        conf = self._settings.configuration(request.job_id)
        self._say_once(ignored_keys(conf.settings))
        stamps: list[str] = []
        options = self._options(request, conf)
        of_store = storage_options(request.dest, conf, self._settings.storage_options)
        set_up(
            request.dest,
            request.job_id,
            is_new_id=is_random(request.job_id),  # drawn by Spark
            options=setup_options(request, options),
            storage_options=of_store,
            on_warning=lambda text: _log.warning("%s", text),
            on_stamp=stamps.append,
        )
        numbered = options.changed(job_attempt=request.job_attempt)
        opened = partial(open_to_load, request.dest, request.job_id, numbered, of_store)
        self._tasks_ahead.expect(request.job_id, LoadAhead(opened, stamps[0]))
        answer: dict[str, Any] = {"stamp": stamps[0]}
        answer |= {} if options.run_id is None else {"runId": options.run_id}
        if request.commit != DEFERRED:
            files = self._ahead.expect(request.job_id, request.dest, options)
            answer |= {} if files is None else {"workersFrom": files}
        return answer

    def _commit(self, request: Request) -> dict[str, Any]:
        conf = self._settings.configuration(request.job_id)
        common: dict[str, Any] = {
            "options": commit_options(request, self._options(request, conf)),
            "storage_options": storage_options(request.dest, conf, self._settings.storage_options),
        }
        ahead = self._tasks_ahead.take(request.job_id)
        files = sum(task.files for task in request.tasks)
        with self._progress(request) as on_event, self._ahead.of(request.job_id, files) as executor:
            arguments = common | {"on_event": on_event, "executor": executor, "ahead": ahead}
            report = self._record_or_commit(request, arguments)
        run_id = common["options"].run_id
        if run_id is not None:
            done_jobs = {request.job_id, report.committed_by or request.job_id}
            jobs_of_spark(request.session, request.batch, run_id).update(done_jobs)
        if report.committed_by is not None:
            _log.warning("%s", report.notices[-1])
        else:
            self._tell_catalog(request, report, common)
        return {} if report.committed_by is None else {"committedBy": report.committed_by}

    def _tell_catalog(self, request: Request, report: CommitReport, common: dict[str, Any]) -> None:
        open_table = self._settings.open_table
        if open_table is None or common["options"].catalog_table is None:
            return
        # A deferred job has no visible partition yet; `ray-committer commit` then names the command.
        if report.outcome is not Outcome.RECORDED:
            self.last_report = catalog_told(report, open_table, request.dest, **common)

    def _abort(self, request: Request) -> dict[str, Any]:
        self._ahead.end(request.job_id)  # never fails
        self._tasks_ahead.take(request.job_id)
        conf = self._settings.configuration(request.job_id)
        try:
            abort_job(
                request.dest,
                request.job_id,
                options=replace(self._options(request, conf), job_attempt=request.job_attempt),
                storage_options=storage_options(request.dest, conf, self._settings.storage_options),
            )
        # Spark aborts after each failure. A recorded job is kept; the answer says how to finish it.
        except CommitRecordExistsError as e:
            return {"kept": str(e)}
        return {}

    def _record_or_commit(self, request: Request, common: dict[str, Any]) -> CommitReport:
        if request.commit == DEFERRED:
            self.last_report = run_commit(request.dest, request.job_id, **common, record_only=True)
            return self.last_report
        token = CancelToken()
        with self._lock:
            self._running.add(token)
        try:
            return run_commit(request.dest, request.job_id, cancel=token, on_report=self._note, **common)
        finally:
            with self._lock:
                # In any case: a token of a commit that is over would keep its events and its report.
                self._running.discard(token)

    def _progress(self, request: Request) -> AbstractContextManager[EventSink]:
        """Print the commit's progress at intervals; ``df.write`` shows nothing else of the commit."""
        settings = self._settings
        if not settings.progress_seconds:
            return nullcontext(settings.on_event)

        def say(line: str) -> None:
            _say(f"ray_committer: {request.dest}: {line}")
            settings.show(request.job_id, line)

        return heartbeat("", settings.on_event, say, every=settings.progress_seconds)

    def _options(self, request: Request, conf: HadoopConf) -> CommitOptions:
        options = job_options(conf, self._settings.options)
        if options.run_id is not None:
            options = options.changed(run_id=in_batch(options.run_id, request.batch))
        if _HIVE_STAGING in request.dest:  # Hive moves the files, and adds the partitions
            return options.changed(catalog_table=None)
        return options

    def _say_once(self, texts: list[str]) -> None:
        """Log each warning once, not at each write."""
        with self._lock:
            new = [text for text in texts if text not in self._said]
            self._said.update(new)
        for text in new:
            _log.warning("%s", text)

    def _note(self, report: CommitReport) -> None:
        self.last_report = report


def _log_failure(error: Exception) -> None:
    """Log one line; its traceback only helps if the error is a bug, or at level DEBUG."""
    is_expected = isinstance(error, RayCommitterError) or (
        isinstance(error, OSError) and error.filename is not None
    )
    _log.warning("Spark's request failed: %s: %s", type(error).__name__, error, exc_info=not is_expected)
    if is_expected:
        _log.debug("the traceback of that", exc_info=True)


def _say(text: str) -> None:
    with suppress(OSError):  # the reader may be gone; the commit must still go on
        print(text, file=sys.stderr, flush=True)
