"""The results of a job's tasks, as its driver has them."""

from __future__ import annotations

from ray_committer.options import CommittedTask
from ray_committer.protocol.manifest import decode_manifest, digest
from ray_committer.protocol.paths import JobAttempt
from ray_committer.stores.base import StoreOperations


def results_of(
    store: StoreOperations, job: JobAttempt, *, with_text: bool = True
) -> list[CommittedTask]:
    """What the tasks of a job have handed out, by task; with their manifests, or only with digests."""
    results = []
    for status in sorted(store.list_status(job.manifests), key=lambda listed: listed.name):
        text = store.read(status.path)
        manifest = decode_manifest(text, status.path)
        result = CommittedTask(
            status.name,
            digest(text),
            manifest.task_attempt_id,
            len(text),
            len(manifest.files),
            text if with_text else None,
        )
        results.append(result)
    return results
