"""Jobs on a bucket: written by tasks of ours, or as Hadoop's committer writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.harness import commit_attempt, set_up_attempt

Tasks = Mapping[int, Mapping[str, bytes]]


def tasks_of(files: int, *, tasks: int = 4, partitions: int = 7) -> dict[int, dict[str, bytes]]:
    """Files with content of their own, over tasks and partitions."""
    return {
        task: {
            f"p={number % partitions}/part-{task:05d}-{number}": b"content of %d" % number
            for number in range(task, files, tasks)
        }
        for task in range(tasks)
    }


def all_of(tasks: Tasks) -> dict[str, bytes]:
    return {name: data for files in tasks.values() for name, data in files.items()}


def write_job(store: StoreOperations, job: JobAttempt, tasks: Tasks) -> None:
    """A job whose tasks are committed."""
    setup_job(store, job)
    for task, files in tasks.items():
        attempt_id = set_up_attempt(store, job, task, 0)
        write_files(store, job.task_attempt(attempt_id), files)
        commit_attempt(store, job, task, attempt_id)


def write_hadoop_job(store: StoreOperations, job: JobAttempt, tasks: Tasks) -> None:
    """A job as Hadoop's manifest committer leaves it: neither etags nor times in its manifests."""
    setup_job(store, job)
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
            "taskAttemptDir": base + directory,
            "files": [
                {
                    "s": base + join(directory, name),
                    "d": base + join(job.destination, name),
                    "z": len(data),
                }
                for name, data in files.items()
            ],
            "directories": [],
            "extraData": {},
        }
        path = job.manifest(f"task_{job.job_id}_m_{task:06d}")
        store.write(path, json.dumps(manifest).encode())


def write_files(store: StoreOperations, directory: str, files: Mapping[str, bytes]) -> None:
    """Write files some at a time, as a task's connector does: without directories above them."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: store.write(join(directory, name), files[name]), files))
