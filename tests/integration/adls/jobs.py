"""Jobs for the tests on an account: as our tasks write them, and as Hadoop's do."""

from __future__ import annotations

from collections.abc import Mapping

from ray_committer.protocol.manifest import DirEntry, FileEntry, TaskManifest, encode_manifest
from ray_committer.protocol.paths import JobAttempt, join, parent
from ray_committer.protocol.uri import quote_path
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.harness import put_file
from tests.integration.adls.conftest import CONTAINER
from tests.integration.store_jobs import set_up_as_hadoop
from tests.servers.dfs import ACCOUNT


def files_of(tasks: int, files: int) -> dict[int, dict[str, bytes]]:
    """The files of each task by name, each with content of its own."""
    return {
        task: {f"p={n % 7}/part-{task:05d}-{n}": b"%d" % n for n in range(task, files, tasks)}
        for task in range(tasks)
    }


def all_of(tasks: Mapping[int, Mapping[str, bytes]]) -> dict[str, bytes]:
    return {name: data for files in tasks.values() for name, data in files.items()}


def write_as_hadoop(
    store: StoreOperations,
    job: JobAttempt,
    tasks: Mapping[int, Mapping[str, bytes]],
    *,
    etags: bool,
    scheme: str = "abfss",
) -> None:
    """Write a job as Hadoop's manifest committer does over its ABFS client.

    Its URIs name the account, with ``abfss``; it notes an etag a file, unless that is switched off.
    """
    root = f"{scheme}://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"
    set_up_as_hadoop(store, job)
    for task, files in tasks.items():
        attempt = job.task_attempt(f"attempt_{job.job_id}_m_{task:06d}_0")
        entries = []
        for name, data in files.items():
            path = join(attempt, name)
            put_file(store, path, data)
            status = store.get_status(path)
            assert status is not None
            source, dest = quote_path(path), quote_path(join(job.destination, name))
            etag = status.etag if etags else None
            entries.append(FileEntry(s=root + source, d=root + dest, z=len(data), e=etag))
        directories = {parent(join(job.destination, name)) for name in files}
        manifest = TaskManifest(
            job_id=job.job_id,
            task_id=f"task_{job.job_id}_m_{task:06d}",
            task_attempt_id=f"attempt_{job.job_id}_m_{task:06d}_0",
            task_attempt_dir=root + quote_path(attempt),
            files=entries,
            directories=[DirEntry(root + quote_path(path), l=1) for path in sorted(directories)],
        )
        put_file(store, job.manifest(f"task_{job.job_id}_m_{task:06d}"), encode_manifest(manifest))
