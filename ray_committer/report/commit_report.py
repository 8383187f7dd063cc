"""The report of one run of a commit, as a value."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """How a run ended."""

    COMMITTED = "committed"
    ALREADY_COMMITTED = "already committed"
    RECORDED = "recorded"
    FAILED = "failed"


class StageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stage: its begin in seconds since the commit began (None: not known), its duration and error."""

    stage: str
    began: float | None = None
    seconds: float
    error: str | None = None


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one worker. `busy` seconds count once, however many shards it had at a time;
    `last` is when its last shard ended, in seconds since the commit began."""

    worker: str
    node: str
    process: int
    shards: int = 0
    files: int = 0
    bytes: int = 0
    busy: float = 0.0
    last: float = 0.0
    retries: int = 0
    throttled: int = 0
    lost: bool = False

    @property
    def files_per_second(self) -> float:
        """Files put in place per busy second; 0 if the worker was never busy."""
        return self.files / self.busy if self.busy else 0.0


class ThrottledRow(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which the store throttled, in seconds since the commit began. Rates are in requests per
    second: `before` it, the `lowest`, and at the `end` of the commit. `recovered` is None for never."""

    began: float
    last: float
    refused: int
    before: float
    lowest: float
    end: float
    recovered: float | None = None


class LostWorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that died or was cut off, and when, in seconds since the commit began."""

    worker: str
    node: str
    process: int
    seconds: float
    cause: str


class CommitReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a commit: files, bytes and directories as counts, durations in seconds.

    `destination` is a URL, or a local path. `files` counts the files of the whole job. This run moved
    `moved` of them, and proved that `proved` of them, by kind of proof, had been moved before.
    `resumed` shows that an earlier run had begun the commit. The store refused `throttled` of the
    `requests` because there were too many; `lowest_rate` is the limit to which the commit then went
    down, in requests per second. `retries` requests were repeated because no answer came. `dashboard`
    is the URL at which Ray shows the work of the commit's driver. `command` runs the commit again, with
    the values of these `storage_options`.

    `stages`, `files_at` (pairs of seconds since the begin and files in place), `worker_rows` (slowest
    first), `throttled_spans` and `lost_workers` come from the events, at most a few hundred of each;
    `dropped` counts what was left out, by kind. `findings` are sentences with what a person should know
    about them. `source` and `untold` belong to a report that was read from the file of an old job: they
    name that file, and what it does not contain.
    """

    destination: str
    job_id: str
    job_attempt: int = 0
    outcome: Outcome
    executor: str = ""
    executor_reason: str = ""
    dashboard: str = ""
    workers: int = 0
    resumed: bool = False
    manifests: int = 0
    files: int = 0
    bytes: int = 0
    directories: int = 0
    moved: int = 0
    proved: dict[str, int] = {}
    replaced: int = 0
    validated: int = 0
    requests: int = 0
    throttled: int = 0
    lowest_rate: float | None = None
    retries: int = 0
    seconds: float = 0.0
    stage_seconds: dict[str, float] = {}
    notices: list[str] = []
    error: str | None = None
    findings: list[str] = []
    stages: list[StageRow] = []
    files_at: list[tuple[float, int]] = []
    worker_rows: list[WorkerRow] = []
    throttled_spans: list[ThrottledRow] = []
    lost_workers: list[LostWorkerRow] = []
    shards_requeued: int = 0
    dropped: dict[str, int] = {}
    command: str = ""
    storage_options: list[str] = []
    source: str = ""
    untold: list[str] = []

    @property
    def renames_per_second(self) -> float:
        """Files moved per second of the rename stage; 0 if none were."""
        seconds = self.stage_seconds.get("job_stage_rename_files", 0.0)
        return self.moved / seconds if seconds else 0.0

    def _repr_html_(self) -> str:
        """Return the report as a notebook shows it."""
        from ray_committer.report.html import report_fragment  # only where a notebook asks for it

        return report_fragment(self)
