"""Clean up behind the return of a commit whose driver lives on.

A job that is committed and not cleaned up is what a commit leaves that dies there: others pass it, and
the same command finishes it. So nothing waits for this clean-up.
"""

from __future__ import annotations

import logging
import threading
from functools import partial

from ray_committer.executors.inline import InlineExecutor
from ray_committer.job_files.job_state import Seen
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.protocol.record import CommitRecord
from ray_committer.stages.cleanup_job import cleanup_job
from ray_committer.stages.context import JobContext
from ray_committer.stores.guarded import GuardedStore
from ray_committer.work.worker import Worker

LATER = "later"
_log = logging.getLogger(__name__)


def cleanup_later(
    context: JobContext, committed: Seen, record: CommitRecord, *, has_random_id: bool
) -> None:
    """Begin to remove the directory of a committed job; the interpreter ends only after that."""
    clean_up = partial(_clean_up, context, committed, record, has_random_id=has_random_id)
    threading.Thread(target=clean_up, name="ray-committer-cleanup", daemon=False).start()


def _clean_up(
    context: JobContext, committed: Seen, record: CommitRecord, *, has_random_id: bool
) -> None:
    store, job, options = context.store.unguarded, context.job, context.options
    # The workers of the commit end when it returns; and an interpreter that ends starts no thread.
    executor = InlineExecutor(
        lambda permits: Worker(store, job, permits, in_driver=True),
        RateLimit(options.max_requests_per_second),
    )
    guarded = GuardedStore(store, executor.permits, retry_seconds=options.retry_seconds)
    later = JobContext(guarded, job, options, executor, is_adopted=context.is_adopted)
    try:
        cleanup_job(later, committed, record, has_random_id=has_random_id)
    except Exception:  # noqa: BLE001 - nobody waits for this thread
        _log.warning("%s: the clean-up of the committed job has failed", context.url, exc_info=True)
    finally:
        executor.close()
    for notice in later.journal.notices:
        _log.warning("%s", notice)
