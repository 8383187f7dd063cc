"""The data of the report of one run of a commit."""

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
    moves: int = 0
    """Renames: of files, and of whole directories, whose files are among `files`."""

    @property
    def moves_per_second(self) -> float:
        """Renames per busy second; 0 if the worker was never busy."""
        return self.moves / self.busy if self.busy else 0.0

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


class RunData(CommitResult, frozen=True, kw_only=True):
    """All data of a `CommitReport`, which describes its fields."""

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
