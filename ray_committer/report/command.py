"""The command that runs a commit again, as a user types it."""

from __future__ import annotations

import shlex

from ray_committer.options import CommitOptions
from ray_committer.options.settings import Repeat
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.partitions import is_partition
from ray_committer.stores.addresses import without_password

MOST_NAMED = 100
"""The most partitions that a command names."""


def repeat_command(result: CommitResult, options: CommitOptions) -> str:
    """The command for the job, without storage options and passwords in URLs, which are secret."""
    words = ["ray-committer", "commit", result.destination, "--job-id", result.job_id]
    if result.job_attempt or options.job_attempt is not None:  # attempt 0 was named beside others
        words += ["--attempt", str(result.job_attempt)]
    if not result.manifests:  # no commit record says that all tasks are done
        words += _completeness(options)
    if result.executor == "ray":
        words += ["--executor", "ray"]
    still = {Repeat.ALWAYS} if result.manifests else {Repeat.ALWAYS, Repeat.UNTIL_RECORDED}
    for row in options.rows.values():
        value = getattr(options, row.name)
        if row.repeat in still and value != row.default:
            words += row.words(value, without_password)
    return shlex.join(words)


def catalog_command(result: CommitResult, table: str | None) -> str:
    """The command that prints what a catalog must know of a committed job; empty if there is nothing.

    In a table with a log, the log names the partitions. Elsewhere the command names them, if they are
    not too many; without names it is about all partitions.
    """
    if table is None or result.outcome not in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED):
        return ""
    if result.partitions == []:
        return ""
    words = ["ray-committer", "partitions", result.destination, "--table", table]
    if result.table_version is not None:
        words += ["--since", str(result.table_version - 1)]
    elif result.partitions is not None and len(result.partitions) <= MOST_NAMED:
        named = [path for path in result.partitions if is_partition(path)]
        words += [word for path in named for word in ("--partition", path)]
    return shlex.join(words)


def _completeness(options: CommitOptions) -> list[str]:
    if options.committed_tasks is not None:
        return ["--expect-tasks", str(len(options.committed_tasks))]
    if options.expected_tasks is not None:
        return ["--expect-tasks", str(options.expected_tasks)]
    return ["--assume-complete"] if options.assume_complete else []
