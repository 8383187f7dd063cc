"""Run a commit on a given store object, in this process: what the API does with a URL."""

from __future__ import annotations

from ray_committer.commit_report import CommitReport
from ray_committer.executors.base import WorkExecutor
from ray_committer.executors.inline import InlineExecutor
from ray_committer.options import CommitOptions
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stages.commit_job import commit_job
from ray_committer.stages.context import JobContext
from ray_committer.stages.find_job import read_attempt_state
from ray_committer.stages.worker import Worker
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.guarded import GuardedStore


def run_commit(
    store: StoreOperations,
    job: JobAttempt,
    options: CommitOptions | None = None,
    *,
    executor: WorkExecutor | None = None,
    nonce: str = "nonce-of-the-test",
) -> CommitReport:
    """Commit `job` on `store`, by default inline, so that the order of the calls is fixed."""
    options = options or CommitOptions()
    executor = executor or InlineExecutor(lambda: Worker(store, job, in_driver=True))
    context = JobContext(GuardedStore(store, executor.permits), job, options, executor)
    return commit_job(
        context,
        read_attempt_state(store, job),
        nonce=nonce,
        replaced_roots=options.replaced_roots,
        allowed_roots=options.allowed_roots,
    )
