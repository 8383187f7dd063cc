"""The one place where plain code becomes Ray tasks and actors."""

from __future__ import annotations

import ray

from ray_committer.directories import DirectoryCoordinator
from ray_committer.executors.ray.processes import CommitWorker, run_task

run_task_remotely = ray.remote(run_task)
CommitWorkerActor = ray.remote(CommitWorker)
DirectoryActor = ray.remote(DirectoryCoordinator)
