"""What other committers leave at a destination, by the names of their directories.

Sources: Hadoop ``FileOutputCommitter`` (``_temporary/$appAttempt/task_*``), Spark
``HadoopMapReduceCommitProtocol`` (``.spark-staging-$jobId``), Hive ``Context`` and ``FileUtils``
(``.hive-staging_hive_*``).
"""

from __future__ import annotations

from enum import StrEnum

from ray_committer.protocol.paths import attempt_number


class LeftBy(StrEnum):
    """Who has left a directory, or is at work in it."""

    FILE_OUTPUT_COMMITTER = "FileOutputCommitter"
    SPARK_STAGING = "Spark's dynamic partition overwrite"
    HIVE_STAGING = "Hive"
    CLEAN_UP = "a clean-up of ray_committer"
    MISLAID = "a process that was paused"
    """A job whose commit has begun and not ended, in the place of one that has ended."""
    UPLOADS = "uploads"
    NOTHING = "empty"
    """A directory in the place of a job that is empty."""
    UNKNOWN = "unknown"


TASK_PREFIX = "task_"
"""How the directories of committed tasks begin, in `FileOutputCommitter`'s directory."""


def left_at_destination(name: str) -> LeftBy | None:
    """Who makes a directory with this name in a destination; None for any other."""
    if name.startswith(".spark-staging-"):
        return LeftBy.SPARK_STAGING
    return LeftBy.HIVE_STAGING if name.startswith(".hive-staging") else None


def left_in_temporary(name: str, *, is_empty: bool) -> LeftBy:
    """Who makes a directory with this name in ``_temporary`` that holds no job attempt."""
    if attempt_number(name) is not None:
        return LeftBy.FILE_OUTPUT_COMMITTER
    return LeftBy.NOTHING if is_empty else LeftBy.UNKNOWN
