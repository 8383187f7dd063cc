"""The one place where plain code becomes Ray tasks and actors."""

from __future__ import annotations

import ray

from ray_committer.executors.ray.processes import CommitWorker, Coordinator, answer, run_task
from ray_committer.ratelimit import RateLimit

run_task_remotely = ray.remote(run_task)
answer_remotely = ray.remote(answer)
CommitWorkerActor = ray.remote(CommitWorker)
CoordinatorActor = ray.remote(Coordinator)
LimitActor = ray.remote(RateLimit)
