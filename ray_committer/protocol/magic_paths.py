"""The places of a job of Hadoop's magic committer, relative to its destination.

Hadoop 3.3 puts the jobs of a destination side by side, ``$dest/__magic/job-$uuid/``. Since Hadoop 3.4
each has a directory of its own, ``$dest/__magic_job-$uuid/job-$uuid/%02d/``, with the number of the job
attempt. A task writes below ``tasks/$taskAttemptId/__base/``, and S3A leaves ``.pending`` files there.
Source: Hadoop ``CommitUtilsWithMR`` and ``CommitConstants``; the second layout is from source only.
"""

from __future__ import annotations

from dataclasses import dataclass

from ray_committer.protocol.paths import attempt_number, check_name, is_name, join

MAGIC = "__magic"
MAGIC_PREFIX = "__magic_job-"
PENDINGSET = ".pendingset"
PENDING = ".pending"

_JOB = "job-"
_TASKS = "tasks"
_BASE = "__base"


@dataclass(frozen=True, slots=True)
class PendingPlace:
    """What the path of a file says: the job attempt, and either a task whose pendingset it is, or a task
    attempt that is not committed and one of whose uploads it names."""

    attempt: int
    task_id: str | None = None
    task_attempt_id: str | None = None


@dataclass(frozen=True, slots=True)
class MagicJob:
    """A job that Spark or MapReduce calls `uuid`, at the path `destination` of a bucket."""

    bucket: str
    destination: str
    uuid: str

    def __post_init__(self) -> None:
        check_name(self.uuid, "job id")

    @property
    def prefix(self) -> str:
        """What the keys of the job's files begin with."""
        return f"{self.destination.strip('/')}/".lstrip("/")

    @property
    def directories(self) -> tuple[str, str]:
        """The job's directory of Hadoop 3.3, and the one of Hadoop 3.4; only one of them is there."""
        name = _JOB + self.uuid
        since_hadoop_34 = join(self.destination, MAGIC_PREFIX + self.uuid, name)
        return join(self.destination, MAGIC, name), since_hadoop_34

    def place_of(self, path: str) -> PendingPlace | None:
        """What the file at `path` is to this job; None if it is neither a pendingset nor pending."""
        for directory in self.directories:
            if path.startswith(f"{directory}/"):
                return _place(path.removeprefix(f"{directory}/").split("/"))
        return None


def _place(parts: list[str]) -> PendingPlace | None:
    number = attempt_number(parts[0]) if len(parts) > 1 else None
    rest = parts if number is None else parts[1:]
    if len(rest) == 1 and rest[0].endswith(PENDINGSET) and rest[0] != PENDINGSET:
        return PendingPlace(number or 0, task_id=rest[0].removesuffix(PENDINGSET))
    if len(rest) > 3 and (rest[0], rest[2]) == (_TASKS, _BASE) and rest[-1].endswith(PENDING):
        return PendingPlace(number or 0, task_attempt_id=rest[1])
    return None


def attempt_directory(directory: str, path: str) -> str:
    """The directory of the job attempt whose file is at `path`, if the layout has one for each."""
    return join(directory, path.removeprefix(f"{directory}/").partition("/")[0])


def attempt_of(directory: str, path: str) -> int:
    """The attempt of the job in `directory` whose file is at `path`."""
    return attempt_number(attempt_directory(directory, path).rpartition("/")[2]) or 0


def tasks_directory(directory: str, path: str) -> str | None:
    """The directory of the task attempts of a job that a file is in; None for a pendingset."""
    parts = path.removeprefix(f"{directory}/").split("/")
    depth = 1 if attempt_number(parts[0]) is None else 2
    return join(directory, *parts[:depth]) if len(parts) > depth else None


def magic_job_of(bucket: str, destination: str, path: str) -> MagicJob | None:
    """The job at `destination` in one of whose directories `path` is; None if it is in none."""
    first, second, *_ = *path.removeprefix(join(destination, "")).split("/"), ""
    name = second.removeprefix(_JOB) if first == MAGIC and second.startswith(_JOB) else ""
    name = first.removeprefix(MAGIC_PREFIX) if first.startswith(MAGIC_PREFIX) else name
    return MagicJob(bucket, destination, name) if is_name(name) else None


def is_magic(path: str) -> bool:
    """Whether a relative path leads into a directory of the magic committer."""
    return any(part == MAGIC or part.startswith(MAGIC_PREFIX) for part in path.split("/"))
