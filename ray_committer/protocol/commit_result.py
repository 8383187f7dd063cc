"""The result of one run of a commit, as a value."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from ray_committer.protocol.statistic_names import RENAME_FILES


class Outcome(StrEnum):
    """How a run ended."""

    COMMITTED = "committed"
    """All files are in place; this run or an earlier one moved them."""
    ALREADY_COMMITTED = "already committed"
    """An earlier run had committed the job; this one did nothing, or ended the clean-up."""
    RECORDED = "recorded"
    """The commit record is written; a later commit does the rest."""
    FAILED = "failed"
    """The run ended with an error. `on_report` gets such a report, no call returns it."""


class CommitResult(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a commit: files, bytes and directories as counts, durations in seconds.

    `destination` is a URL, or a local path. `files` counts the files of the whole job. This run moved
    `moved` of them, and proved that `proved` of them, by kind of proof, had been moved before. Of the
    `directories` of the output that hold no other one, `whole` were put in place by one rename each,
    with `whole_files` files. All other files were moved one by one: `by_file` counts the other ones of
    the `directories`, by the reason. Both are empty in a run that failed before all were tried.
    `resumed` shows that an earlier run had begun the commit. The old files `changed` were to be replaced
    but are kept, because they have changed since they were listed. If the destination is a table with a
    log, `table_version` is the version of the table with this job's files. `run_id` is the job's run id;
    if its work was committed before by another job, `committed_by` is that job.
    If the job's options name a table of a catalog, `partitions` are the directories in which this run
    has moved or removed files, relative to the destination; None if it did not load the job.
    The store refused `throttled` of the `requests` because there were too many; `lowest_rate` is the
    limit to which the commit then went down, in requests per second. `retries` requests were repeated
    because no answer came. `dashboard` is the URL at which Ray shows the work of the commit's driver.
    A run that failed can have committed the job, for example if only the clean-up failed; then
    `committed_anyway` is True. It is None if it is not known whether the job is committed.
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
    whole: int = 0
    whole_files: int = 0
    by_file: dict[str, int] = {}
    moved: int = 0
    proved: dict[str, int] = {}
    replaced: int = 0
    changed: list[str] = []
    validated: int = 0
    table_version: int | None = None
    run_id: str | None = None
    committed_by: str | None = None
    partitions: list[str] | None = None
    requests: int = 0
    throttled: int = 0
    lowest_rate: float | None = None
    retries: int = 0
    seconds: float = 0.0
    stage_seconds: dict[str, float] = {}
    notices: list[str] = []
    error: str | None = None
    committed_anyway: bool | None = False

    @property
    def committed(self) -> bool | None:
        """Whether the job is committed; None if that is not known."""
        if self.outcome is Outcome.FAILED:
            return self.committed_anyway
        return self.outcome is not Outcome.RECORDED

    @property
    def renames_per_second(self) -> float:
        """Files moved per second of the rename stage; 0 if none were."""
        seconds = self.stage_seconds.get(RENAME_FILES, 0.0)
        return self.moved / seconds if seconds else 0.0
