"""Write ``summary-$jobId.json`` after a commit or an abort, to any store, in the format of ``_SUCCESS``.

If it cannot be written, that is a notice. Source: Hadoop ``ManifestCommitter.maybeSaveSummary``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ray_committer.errors import mark
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import RateLimit
from ray_committer.places.choose import own_files_of
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.paths import join
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.success import COMMITTED, DESTINATION, encode_success
from ray_committer.stages.context import JobContext
from ray_committer.stages.save_success_file import success_data
from ray_committer.stores.addresses import without_password
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.guarded import GuardedStore
from ray_committer.stores.registry import is_url, open_store, resolve_destination, shown_url

RETRY_SECONDS = 30.0
"""How long to repeat a request to another store than the destination's."""


def save_summary_report(
    context: JobContext,
    record: CommitRecord | None,
    filenames: Sequence[str],
    failure: Exception | None,
    *,
    committed: bool | None = False,
    of_abort: bool = False,
) -> None:
    """Write the report of a commit if its directory was given; it replaces the report of an earlier run.
    After a `failure`, the job can be `committed` in spite of it; None if that is not known."""
    directory = context.options.summary_directory
    if directory is None:
        return
    stage = names.ABORT if of_abort else context.journal.failed_stage or names.COMMIT_JOB
    success = failure is None and not of_abort
    name = f"summary-{context.job.job_id}.json"
    data = success_data(context, record, filenames, success=success, stage=stage)
    if data.diagnostics is not None:
        data.diagnostics[DESTINATION] = context.url
        if failure is not None:
            data.diagnostics["exception"] = f"{type(failure).__name__}: {failure}"
            data.diagnostics[COMMITTED] = "unknown" if committed is None else str(committed).lower()
    try:
        store, within = _place(context, directory)
        path = join(within, name)
        if stage == names.ABORT and store.get_status(path) is not None:
            return
        store.mkdirs(within)
        # The name is the same for all runs of a job: the last run has the most to say.
        own_files_of(store).put(path, encode_success(data), temporary=f"{path}.tmp")
        context.journal.summary = shown_url(store.spec, path)
    except Exception as e:  # noqa: BLE001 - whatever it is, the job has ended as it has ended
        path = join(without_password(directory), name)
        context.notice(f"{mark(path)}: the summary report could not be written: {e}")


def save_abort_report(context: JobContext, failure: Exception | None) -> None:
    """Write the report of an abort, unless one is there: the report of the commit says why it failed."""
    save_summary_report(context, None, [], failure, committed=None, of_abort=True)


def _place(context: JobContext, directory: str) -> tuple[StoreOperations, str]:
    """The store of the directory and its path there. A text that is not a URL is a path on the
    destination's store; another store of the same kind gets the same storage options."""
    destination_spec = context.store.spec
    if not is_url(directory):
        return context.store, directory
    spec, path = resolve_destination(directory)
    if spec.scheme == destination_spec.scheme:
        spec, path = resolve_destination(directory, destination_spec.storage_options)
    if (spec.scheme, spec.authority) == (destination_spec.scheme, destination_spec.authority):
        return context.store, path
    store = open_store(spec, retry_seconds=RETRY_SECONDS)
    permits = Permits(RateLimit(), "here", is_here=True)
    return GuardedStore(store, permits, retry_seconds=RETRY_SECONDS), path
