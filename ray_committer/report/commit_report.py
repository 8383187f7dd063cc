"""The report of one run of a commit: its data, which prints as text and is a page in a notebook."""

from __future__ import annotations

import msgspec

from ray_committer.protocol.commit_result import CommitResult


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


class CommitReport(CommitResult, frozen=True, kw_only=True):
    """One run of a commit: its `CommitResult`, what its events add to that, and sentences about both.

    `started_at` and `ended_at` are times in UTC (ISO 8601, to the second). `options` are those that
    differ from their default values, and `links` URLs or paths of what a person may want to open, by
    what they are. `stages`, `files_at` (seconds since the begin, and the files in place then),
    `worker_rows` (slowest first), `throttled_spans` and `lost_workers` come from the events, at most a
    few hundred of each; `dropped` counts what was left out, by kind. `findings`
    are sentences with what a person should know about them. `command` runs the commit again, with the
    values of these `storage_options`, and `catalog_command` tells a catalog of the job's partitions; it
    is empty if that is not necessary. `source` and `untold` belong to a report that was read from the
    file of an old job: they name that file, and what it does not contain.
    """

    started_at: str = ""
    ended_at: str = ""
    host: str = ""
    user: str = ""
    versions: dict[str, str] = {}
    options: dict[str, str] = {}
    links: dict[str, str] = {}
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
    catalog_command: str = ""
    source: str = ""
    untold: list[str] = []

    def __str__(self) -> str:
        """Return the report as lines of text, as the command line prints it."""
        from ray_committer.report.text import report_text  # which needs this class

        return report_text(self)

    def _repr_html_(self) -> str:
        """Return the report as a notebook shows it."""
        from ray_committer.report.html import report_fragment  # only where a notebook asks for it

        return report_fragment(self)
