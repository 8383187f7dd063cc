"""Actions on jobs, each done on a store and at once recorded in the model of the destination."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from msgspec import structs

from ray_committer.errors import RayCommitterError
from ray_committer.options import CommitOptions
from ray_committer.protocol import plan
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.manifest import decode_manifest, encode_manifest
from ray_committer.protocol.paths import MANIFEST_SUFFIX, join, parent
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.staging import is_staged, token_of
from ray_committer.stages import rename_files
from ray_committer.stages.abort_task import abort_task
from ray_committer.stores.base import StoreOperations
from ray_committer.testing.chaos_executor import Chaos
from ray_committer.testing.faults import SimulatedCrash
from ray_committer.testing.harness import (
    all_files,
    chaos_executor,
    commit_attempt,
    load_ahead,
    put_file,
    run_commit,
    set_up_attempt,
    source_of,
    write_attempt,
)
from ray_committer.work import packs
from tests.machines.fault_schedule import FaultSchedule
from tests.machines.job_model import DestinationModel, ModelAttempt, ModelJob

COMMIT_CALLS = 60
PARTITIONS = ("p=1", "p=2")


class JobActions:
    """Operations on jobs at one `destination` of a store; `numbers` make names unique."""

    destination = "/bucket/table"
    store: StoreOperations
    model: DestinationModel
    numbers: Iterator[int]

    def commit(
        self, job: ModelJob, faults: int | None, chaos: int | None, kinds: tuple[Chaos, ...]
    ) -> CommitResult | BaseException:
        """Commit the job, as a driver that knows its tasks, with drawn faults and chaos if given; return
        the result or the exception. In two of three calls it has the results of the tasks, and has
        loaded them before, with or without the manifests in them."""
        store = self.faulty_store(faults, COMMIT_CALLS)
        number, results = next(self.numbers), [one.result for one in job.winners.values() if one.result]
        results = [replace(one, text=one.text if number % 3 else None) for one in results]
        is_told = bool(results) and number % 3 < 2
        options = CommitOptions(
            mode=ConflictMode.APPEND if job.root is None else ConflictMode.OVERWRITE,
            replaced_roots=(self.path(job.root),) if job.root else (),
            conflict_wait_seconds=0.0,
            expected_tasks=len(job.winners) or None,
            unfinished="refuse",
            committed_tasks=tuple(results) if is_told else None,
        )
        executor = None if chaos is None else chaos_executor(store, job.job, chaos, kinds=kinds)
        try:
            with (
                patch.object(rename_files, "ATTEMPTS", 1),
                patch.object(plan, "SMALLEST_SHARD", 2),
                patch.object(plan, "LARGEST_SHARD", 2),
                patch.object(packs, "MOST_ENTRIES", 3),
            ):
                ahead = load_ahead(store, job.job, results) if is_told else None
                return run_commit(store, job.job, options, executor=executor, ahead=ahead)
        except (RayCommitterError, OSError, SimulatedCrash) as e:
            return e

    def faulty_store(self, faults: int | None, calls: int) -> StoreOperations:
        """Return the store, with a schedule of faults drawn from the seed `faults` if there is one."""
        if faults is None:
            return self.store
        return FaultSchedule.from_seed(faults, calls).wrap(self.store, sleep=lambda _: None)

    def run_attempt(self, job: ModelJob, task: int, names: list[str], *, same: bool) -> ModelAttempt:
        """Let a new attempt write; with `same` also the file name that all replacing jobs write."""
        job.attempts += 1
        attempt_id = set_up_attempt(self.store, job.job, task, job.attempts)
        files = {self.name_for(attempt_id, name, "part"): self.data() for name in names}
        if same and job.root is not None:
            files["p=1/same"] = self.data()
        write_attempt(self.store, job.job, attempt_id, files)
        attempt = ModelAttempt(task, attempt_id, files)
        job.running.append(attempt)
        return attempt

    def succeed(self, job: ModelJob, attempt: ModelAttempt) -> None:
        """Commit a task attempt of an open job, on a healthy store."""
        attempt.result = commit_attempt(
            self.store, job.job, attempt.task, attempt.task_attempt_id, files=attempt.files
        )
        job.running.remove(attempt)
        job.winners[attempt.task] = attempt

    def retry(self, job: ModelJob, failed: ModelAttempt) -> None:
        """Clean up after a failed attempt and run another one, as a scheduler does."""
        self.give_up(job, failed)
        self.succeed(job, self.run_attempt(job, failed.task, list(PARTITIONS), same=False))

    def give_up(self, job: ModelJob, attempt: ModelAttempt) -> None:
        """Delete what an attempt has written."""
        sources = {source_of(job.job, attempt.task_attempt_id, name) for name in attempt.files}
        staged = {path for path in sources if is_staged(parent(path), job.job.tasks)}
        abort_task(self.store, job.job, attempt.task_attempt_id, staged)

    def name_for(self, task_attempt_id: str, directory: str, stem: str) -> str:
        """A new name for a file of an attempt: each second one is staged."""
        number = next(self.numbers)
        token = f"-{token_of(task_attempt_id)}" if number % 2 else ""
        return f"{directory}/{stem}-{number}{token}"

    def replace_manifest(self, job: ModelJob, attempt: ModelAttempt) -> None:
        """Replace the saved manifest of an attempt's task by one with other destinations."""
        path = job.job.manifest(_task_id(attempt))
        copies = self._manifests(job, attempt).items()
        saved = next(data for name, data in copies if name.endswith(MANIFEST_SUFFIX))
        manifest = decode_manifest(saved, path)
        files = [structs.replace(file, d=f"{file.d}-zombie") for file in manifest.files]
        put_file(self.store, path, encode_manifest(structs.replace(manifest, files=files)))

    @contextmanager
    def torn_packs(self, job: ModelJob) -> Iterator[None]:
        """Tear the packs of a decided job in the block."""
        saved = all_files(self.store, job.job.packs)
        for path, data in saved.items():
            self.store.write(path, data[: len(data) // 2])
        yield
        for path, data in saved.items():
            self.store.write(path, data)

    def _manifests(self, job: ModelJob, attempt: ModelAttempt) -> dict[str, bytes]:
        """All copies of the manifest of an attempt's task."""
        found = {**all_files(self.store, job.job.manifests), **all_files(self.store, job.job.frozen)}
        name = _task_id(attempt)
        return {path: data for path, data in found.items() if path.rpartition("/")[2].startswith(name)}

    def put_foreign(self, name: str, data: bytes) -> None:
        """Write a visible file that belongs to no job."""
        put_file(self.store, self.path(name), data)
        self.model.settled[name] = data

    def move_away(self, names: Iterable[str]) -> None:
        """Remove files of others that block a job, as a user does after reading the error."""
        for name in names:
            data = self.model.settled.pop(name)
            assert self.store.read(self.path(name)) == data, f"{name}: of others was changed"
            self.store.delete_file(self.path(name))

    def path(self, name: str) -> str:
        """The path of a name at the destination; for an empty name, the destination itself."""
        return join(self.destination, name) if name else self.destination

    def data(self) -> bytes:
        """Content that differs from all other files, also in length: some stores report only that."""
        number = next(self.numbers)
        return b"x" * number + b"-%d" % number


def _task_id(attempt: ModelAttempt) -> str:
    stem = attempt.task_attempt_id.removeprefix("attempt_").rpartition("_")[0]
    return f"task_{stem}"
