"""Jobs on a bucket as Hadoop's committer writes them."""

from __future__ import annotations

import json

from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.uri import quote_path
from ray_committer.stores.base import StoreOperations
from tests.integration.store_jobs import Tasks, set_up_as_hadoop, write_files


def write_hadoop_job(store: StoreOperations, job: JobAttempt, tasks: Tasks) -> None:
    """A job as Hadoop's manifest committer leaves it: neither etags nor times in its manifests."""
    set_up_as_hadoop(store, job)
    base = f"gs://{store.spec.authority}"
    for task, files in tasks.items():
        attempt_id = f"attempt_{job.job_id}_m_{task:06d}_0"
        directory = job.task_attempt(attempt_id)
        write_files(store, directory, files)
        manifest = {
            "type": "org.apache.hadoop.mapreduce.lib.output.committer.manifest.files.TaskManifest/1",
            "version": 1,
            "jobId": job.job_id,
            "jobAttemptNumber": job.number,
            "taskID": f"task_{job.job_id}_m_{task:06d}",
            "taskAttemptID": attempt_id,
            "taskAttemptDir": base + quote_path(directory),
            "files": [
                {
                    "s": base + quote_path(join(directory, name)),
                    "d": base + quote_path(join(job.destination, name)),
                    "z": len(data),
                }
                for name, data in files.items()
            ],
            "directories": [],
            "extraData": {},
        }
        path = job.manifest(f"task_{job.job_id}_m_{task:06d}")
        store.write(path, json.dumps(manifest).encode())
