"""Publish a recorded job: move its new files into place, remove old files, then commit the job.

Each step is idempotent, so several committers have the same effect as one.
Source: Hadoop CreateOutputDirectoriesStage, RenameFilesStage, ValidateRenamedFilesStage.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from ray_committer.errors import CommitStateUnknownError, mark, why
from ray_committer.job_files.job_state import Seen, advance
from ray_committer.job_files.others import has_content
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.state import Phase, new_nonce
from ray_committer.stages.create_output_directories import create_output_directories, make_parents
from ray_committer.stages.keep_replaced_files import keep_replaced_files, make_places_of_kept
from ray_committer.stages.move_directories import move_directories
from ray_committer.stages.old_data.old_files_aside import end_removal, sync_aside
from ray_committer.stages.old_data.old_success import put_old_success_aside
from ray_committer.stages.remove_replaced_files import (
    refuse_left,
    remove_emptied_directories,
    remove_replaced_files,
)
from ray_committer.stages.rename_files import Pass, rename_files
from ray_committer.stages.run.commit_run import RecordedJob
from ray_committer.stages.run.coordinator_loss import with_coordinator
from ray_committer.stages.run.renamed import reconcile
from ray_committer.stages.save_commit_record import sync_state
from ray_committer.stages.save_success_file import sample_of, write_success_file
from ray_committer.stages.sync_to_disk import sync_destinations, sync_replaced
from ray_committer.stages.turns.list_new_files import touched_directories
from ray_committer.stages.validate_renamed_files import validate_renamed_files
from ray_committer.work.worker import Worker


def create_directories(job: RecordedJob, which: Pass) -> None:
    """Make the directories of new files, but for those that are put in place whole, and put an old
    ``_SUCCESS`` aside before any file is moved."""
    context, record = job.context, job.record
    with context.stage(names.CREATE_DIRECTORIES):
        # Before the first file is moved: a worker that sees another store, as a local path on each node
        # is, would find no file and take all of them for lost.
        context.executor.admit_workers(prove_same_store, record.nonce)
        make_parents(context, job.run.missing)
        make = partial(with_coordinator, context, partial(_make_the_rest, job), job.reload)
        put_aside = [partial(put_old_success_aside, context, record)] if which is Pass.NEW else []
        job.run.progress.directories, *_ = context.do_at_once(make, *put_aside)


def _make_the_rest(job: RecordedJob) -> int:
    """Make the directories that do not go whole; return how many leaves there are in all."""
    moves = job.plan.moves
    if moves and not job.plan.by_file:
        return len(moves)
    return create_output_directories(
        job.context, [*(job.run.there or ()), *(move.dest for move in moves)]
    )


def move_files(job: RecordedJob, which: Pass) -> None:
    """Move new files into place, whole directories first, and check that none is missing; held back are
    those that replace old files, if the job is not sealed, or if these cannot give way."""
    context, record, renamed = job.context, job.record, job.run.progress.renamed
    with context.stage(names.RENAME_FILES):
        if which is Pass.NAMESAKES:
            renamed.held_by_pack.clear()
        else:
            move_directories(context, record, job.plan, renamed)
        if renamed.whole_files != record.files:
            rename_files(context, record, job.loaded, renamed, which)
            reconcile(context, job.loaded, renamed)


def validate_files(job: RecordedJob, which: Pass) -> None:
    """Force the new files to disk, if the commit must be durable, and validate those that were moved one
    by one: of a whole directory the look before the record has shown all files."""
    context, progress, reload = job.context, job.run.progress, job.reload
    renamed, packs = progress.renamed, job.loaded.packs
    if context.syncs:
        with context.stage(names.SYNC):
            with_coordinator(context, lambda: sync_destinations(context), reload)
    validates = context.options.validate
    validates = context.store.capabilities.listing_is_cheap if validates is None else validates
    if validates and renamed.whole_files != job.record.files:
        old = [file.path for file in job.record.overwritten]
        held = old if which is Pass.NEW else [path for path in old if path in renamed.held]
        validate = partial(validate_renamed_files, context, packs, held, renamed)
        with context.stage(names.VALIDATE):
            progress.validated = with_coordinator(context, validate, reload)


def seal(job: RecordedJob, recorded: Seen) -> Seen:
    """Change the job from recorded to sealed: from now on, old files may be gone."""
    context, nonce = job.context, new_nonce()
    if job.record.keeps:
        make_places_of_kept(context, job.record, nonce)
    sealed = advance(context.store, context.job, recorded, Phase.SEALED, nonce)
    sync_state(context)
    job.run.progress.sealed = sealed
    return sealed


def keep_old_files(job: RecordedJob, sealed: Seen) -> None:
    """Move the old files that are to be kept, before new files get the names of some of them. The new
    namesakes of those that cannot be moved are held back."""
    if job.record.keeps:
        with job.context.stage(names.REMOVE_REPLACED):
            removal = keep_replaced_files(job.context, job.record, sealed.state.nonce)
            job.run.progress.removal = removal
            job.run.progress.renamed.held.update(removal.left)


def finish_moves(job: RecordedJob, sealed: Seen) -> None:
    """Move the new files that replace old ones of the same names; if another run has moved the others
    and sealed the job, also prove that none of them is missing."""
    if job.run.progress.sealed == sealed:
        if job.record.overwritten:
            move_files(job, Pass.NAMESAKES)
    elif not job.run.turn.ends_with_its_commit:
        create_directories(job, Pass.ALL)
        move_files(job, Pass.ALL)
        validate_files(job, Pass.ALL)


def remove_old_files(job: RecordedJob) -> None:
    """Remove the old files that are not kept, after all new files are in place.
    `CommitStateUnknownError`, when all others are gone, if old files could not be removed."""
    context, record, progress = job.context, job.record, job.run.progress
    if not record.replaces:
        return
    with context.stage(names.REMOVE_REPLACED):
        if not record.keeps:
            # Another machine's change can be in a cache: what is listed there is listed once more.
            is_network = context.store.network_file_system(context.job.destination) is not None
            are_listed = job.run.there is not None and not is_network
            progress.removal = remove_replaced_files(context, record, are_listed=are_listed)
        # First the names aside, then the directories that they left: after a power cut one has them.
        sync_aside(context, record)
        sync_replaced(context, record)
        remove_emptied_directories(context, record)
        refuse_left(context, record, {**progress.renamed.held, **dict(progress.removal.left)})
        end_removal(context, record)


def decide_committed(job: RecordedJob, current: Seen) -> Seen:
    """Commit the job and, in parallel, write ``_SUCCESS`` under a temporary name."""
    context, record, progress = job.context, job.record, job.run.progress
    if context.options.catalog_table is not None:
        note = partial(touched_directories, context, record)
        progress.partitions = with_coordinator(context, note, job.reload)
    context.journal.add(progress.renamed.statistics)
    commit = partial(advance, context.store, context.job, current, Phase.COMMITTED)
    is_to_write = record.mark_success and progress.success is None
    if is_to_write and not progress.renamed.sample:  # all went whole
        progress.renamed.sample = sample_of(context, job.loaded.packs)
    version, sample = progress.table_version, progress.renamed.sample
    write = partial(write_success_file, context, record, sample, table_version=version)
    with context.stage(names.COMMIT_POINT):
        committed, *written = context.do_at_once(commit, *([write] if is_to_write else []))
        sync_state(context)
    progress.success = written[0] if written else progress.success
    return cast("Seen", committed)


def prove_same_store(worker: Worker, nonce: str) -> None:
    """Work: find the commit record on another node, which proves that the node sees the same store. The
    record's name was never used before, so its content, which can be long, is not read. A worker that
    replaces another one during clean-up finds the record in the directory to which the job was moved."""
    if worker.in_driver:
        return
    cause: OSError | None = None
    try:
        if has_content(worker.store, worker.job, nonce):
            return
    except OSError as e:
        cause = e
    raise CommitStateUnknownError(
        f"{mark(worker.job.content(nonce))}: cannot be read on a worker's node "
        f"({why(cause) if cause else 'is not there'})",
        "that worker moved nothing: all nodes must see the same file system or store, with the same "
        "permissions",
    ) from cause
