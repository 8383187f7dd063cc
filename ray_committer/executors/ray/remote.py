"""The only module that turns plain code into Ray tasks and actors."""

from __future__ import annotations

import ray

from ray_committer.executors.ray.processes import CommitHost, CommitWorker, answer
from ray_committer.executors.ray.shared_host import SharedCommitHost

answer_remotely = ray.remote(answer)
CommitHostActor = ray.remote(CommitHost)
SharedCommitHostActor = ray.remote(SharedCommitHost)
CommitWorkerActor = ray.remote(CommitWorker)
