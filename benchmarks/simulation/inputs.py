"""What is estimated: a job, and where it is committed."""

from __future__ import annotations

from dataclasses import dataclass

from .stores import Store


@dataclass(frozen=True, slots=True)
class Job:
    """The output of a job: `files` of `manifests` tasks, into `partitions`, which are leaf directories.

    Each task has its files in `task_directories`; Spark's tasks have them in one. All partitions
    `go_whole` if none exists before, what tasks wrote for one lies together, and the store moves
    directories.
    """

    files: int
    manifests: int
    partitions: int = 1
    task_directories: int = 1
    go_whole: bool = False

    @property
    def files_a_manifest(self) -> float:
        return self.files / self.manifests


@dataclass(frozen=True, slots=True)
class Setup:
    """Where a job is committed: `workers` on Ray with `in_flight` requests each, or as many threads of
    the driver without `workers`.

    `latency` is in seconds per request. Workers that are `warm` have started before. All processes share
    `cores`; without them, each worker has one of its own. All that is computed takes `busy` times as
    long, because other programs use the processors. `slow` workers take `slowness` times as long for
    each request, and `lost` ones die when half of the files are moved. The output is validated where
    listings are cheap, unless `validates` decides it. The process `is_driver` of the job: it has set the
    job up, and has loaded what its tasks have committed, whose files lie together by partition.
    """

    store: Store
    latency: float
    in_flight: int
    workers: int | None = None
    warm: bool = False
    validates: bool | None = None
    cores: float | None = None
    busy: float = 1.0
    slow: int = 0
    slowness: float = 8.0
    lost: int = 0
    is_driver: bool = False

    @property
    def lanes(self) -> int:
        """What gets calls: workers, or single threads. Local renames need one."""
        if self.store.is_local:
            return 1
        return self.workers or self.in_flight

    @property
    def threads(self) -> int:
        """The requests of a lane at once."""
        return self.in_flight if self.workers else 1
