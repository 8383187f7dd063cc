"""Publish a recorded job: move its new files into place, remove old files, then commit the job.

Each step is idempotent and does not depend on the process that does it, so several committers have the
same effect as one.
Source: Hadoop CreateOutputDirectoriesStage, RenameFilesStage, ValidateRenamedFilesStage.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ray_committer.errors import CommitStateUnknownError
from ray_committer.job_files.job_state import Seen, advance
from ray_committer.job_files.others import has_content
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.state import Phase, new_nonce
from ray_committer.stages.commit_progress import CommitProgress
from ray_committer.stages.context import JobContext
from ray_committer.stages.coordinator_loss import with_coordinator
from ray_committer.stages.create_output_directories import create_output_directories
from ray_committer.stages.keep_replaced_files import keep_replaced_files, make_places_of_kept
from ray_committer.stages.load_manifests import LoadedManifests
from ray_committer.stages.old_files_aside import end_removal, sync_aside
from ray_committer.stages.old_success import put_old_success_aside
from ray_committer.stages.remove_replaced_files import (
    refuse_left,
    remove_emptied_directories,
    remove_replaced_files,
)
from ray_committer.stages.rename_files import Pass, reconcile, rename_files
from ray_committer.stages.save_commit_record import sync_state
from ray_committer.stages.save_success_file import WrittenSuccess, write_success_file
from ray_committer.stages.sync_to_disk import sync_destinations, sync_replaced
from ray_committer.stages.validate_renamed_files import validate_renamed_files
from ray_committer.work.worker import Worker


def move_files(
    context: JobContext,
    progress: CommitProgress,
    record: CommitRecord,
    loaded: LoadedManifests,
    reload: Callable[[], object],
    *,
    is_sealed: bool = False,
) -> None:
    """Move every new file into place, except those that replace old files; then validate them."""
    with context.stage(names.CREATE_DIRECTORIES):
        context.executor.admit_workers(prove_same_store, record.nonce)
        make = partial(with_coordinator, context, lambda: create_output_directories(context), reload)
        steps: list[Callable[[], Any]] = [make, partial(put_old_success_aside, context, record)]
        progress.directories, *_ = context.at_once(lambda step: step(), steps[: 1 if is_sealed else 2])
    with context.stage(names.RENAME_FILES):
        rename_files(context, record, loaded, progress.renamed, Pass.ALL if is_sealed else Pass.NEW)
        reconcile(context, record, progress.renamed)
    if context.syncs:
        with context.stage(names.SYNC):
            with_coordinator(context, lambda: sync_destinations(context), reload)
    if _validates(context):
        old = [file.path for file in record.overwritten]
        held = [path for path in old if path in progress.renamed.held] if is_sealed else old
        with context.stage(names.VALIDATE):
            progress.validated = with_coordinator(
                context, lambda: validate_renamed_files(context, record.manifests, held), reload
            )


def seal(context: JobContext, seen: Seen, record: CommitRecord) -> Seen:
    """Change the job from recorded to sealed: from now on, old files may be gone."""
    nonce = new_nonce()
    if record.keeps:
        make_places_of_kept(context, record, nonce)
    sealed = advance(context.store, context.job, seen, Phase.SEALED, nonce)
    sync_state(context)
    return sealed


def keep_old_files(
    context: JobContext, progress: CommitProgress, sealed: Seen, record: CommitRecord
) -> None:
    """Move the old files that are to be kept, before new files get the names of some of them.

    The new namesakes of those that cannot be moved are held back.
    """
    if record.keeps:
        with context.stage(names.REMOVE_REPLACED):
            progress.removal = keep_replaced_files(context, record, sealed.state.nonce)
            progress.renamed.held.update(progress.removal.left)


def replace_old_files(
    context: JobContext,
    progress: CommitProgress,
    record: CommitRecord,
    loaded: LoadedManifests,
    which: Pass | None,
) -> None:
    """Remove the old files that are not kept, after all new files are in place.

    `CommitStateUnknownError`, when all others are gone, if old files could not be removed.
    """
    if which is not None and record.overwritten:
        with context.stage(names.RENAME_FILES):
            progress.renamed.held_by_manifest.clear()
            rename_files(context, record, loaded, progress.renamed, which)
            reconcile(context, record, progress.renamed)
    with context.stage(names.REMOVE_REPLACED):
        if not record.keeps:
            progress.removal = remove_replaced_files(context, record)
        sync_aside(context, record)
        sync_replaced(context, record)
        remove_emptied_directories(context, record)
        refuse_left(context, record, {**progress.renamed.held, **dict(progress.removal.left)})
        end_removal(context, record)


def decide_committed(
    context: JobContext, progress: CommitProgress, seen: Seen, record: CommitRecord
) -> tuple[Seen, WrittenSuccess | None]:
    """Commit the job and, in parallel, write ``_SUCCESS`` under a temporary name.

    Returns the committed state and the written file.
    """
    steps: list[Callable[[], Any]] = [
        partial(advance, context.store, context.job, seen, Phase.COMMITTED)
    ]
    if record.mark_success:
        version, sample = progress.table_version, progress.renamed.sample
        steps.append(partial(write_success_file, context, record, sample, table_version=version))
    committed, *written = context.at_once(lambda step: step(), steps)
    sync_state(context)
    return committed, written[0] if written else None


def prove_same_store(worker: Worker, nonce: str) -> None:
    """Work: find the commit record on another node, which proves that the node sees the same store.

    The record's name was never used before, so its content, which can be long, is not read. A worker
    that replaces another one during clean-up finds the record in the directory to which the job was
    moved.
    """
    if worker.in_driver:
        return
    cause: OSError | None = None
    try:
        if has_content(worker.store, worker.job, nonce):
            return
    except OSError as e:
        cause = e
    raise CommitStateUnknownError(
        f"{worker.job.content(nonce)}: cannot be read on a worker's node ({cause or 'is not there'})",
        "that worker moved nothing: all nodes must see the same file system or store, with the same "
        "permissions",
    ) from cause


def _validates(context: JobContext) -> bool:
    if context.options.validate is None:
        return context.store.capabilities.listing_is_cheap
    return context.options.validate
