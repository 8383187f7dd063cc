"""The one place where plain code becomes Ray tasks and actors."""

from __future__ import annotations

import ray

from ray_committer.executors.ray.processes import CommitWorker, Coordinator, answer
from ray_committer.ratelimit import RateLimit

answer_remotely = ray.remote(answer)
CommitWorkerActor = ray.remote(CommitWorker)
CoordinatorActor = ray.remote(Coordinator)
LimitActor = ray.remote(RateLimit)
