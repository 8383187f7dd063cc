"""Decide a job: declare it, look for other jobs, list the files that it replaces, and record it.

Nothing is binding before the record: after any error the declaration is withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial

from ray_committer.errors import RayCommitterError
from ray_committer.job_files.job_state import Seen, advance_if_unchanged
from ray_committer.job_files.read_job import read_other
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.paths import parent
from ray_committer.protocol.record import CommitRecord
from ray_committer.protocol.state import Phase
from ray_committer.stages.context import JobContext
from ray_committer.stages.hold_tasks import freeze_and_declare
from ray_committer.stages.load_manifests import (
    LoadedManifests,
    name_packs,
    save_packs,
)
from ray_committer.stages.look_until_free import look_until_free
from ray_committer.stages.note_new_directories import note_new_directories
from ray_committer.stages.old_data.old_files_aside import make_places_aside
from ray_committer.stages.old_data.old_success import make_place_of_success
from ray_committer.stages.plan_moves import with_same_rights
from ray_committer.stages.preflight import OldFiles
from ray_committer.stages.run.commit_run import CommitRun
from ray_committer.stages.run.decision import Decision, prepare
from ray_committer.stages.save_commit_record import save_commit_record, write_commit_record
from ray_committer.stages.save_success_file import WrittenSuccess, write_small_success
from ray_committer.stages.sync_to_disk import sync_packs


def record_job(run: CommitRun, last: Seen, loaded: LoadedManifests) -> Seen:
    """Decide an open job; return the recorded state. `RunCommittedError` if another job has done the
    work of the run id. `CommitConflictError` if another job is in the way for too long, or if data is in
    the way. `StateChangedError` if another process decides the job. `ManifestsChangedError` if a task
    has committed since the manifests were loaded; the job is then open again."""
    context = run.context
    with context.stage(names.SAVE_RECORD):
        try:
            recorded, record, saved = _decide(prepare(run, last, loaded), last)
        except Exception:
            _withdraw_own(context, run.name)
            raise
    run.note_record(record, is_own=True)
    run.note_loaded(record, saved)
    return recorded


def _decide(decision: Decision, current: Seen) -> tuple[Seen, CommitRecord, LoadedManifests]:
    """Declare, look, list, record: in rounds, until one finds nobody in the way. So of jobs that must
    not be committed at the same time, only one is recorded, whatever they do between any two requests.

    1. *Declared before it looks.* A job looks at the others while its own declaration stands. Each of
       two jobs has declared before it looks, so the one that looks last sees the other.
    2. *Looked before it lists.* Old files are listed after a look that found nobody, and after the job's
       turn in the log has come. Otherwise a file that another job puts in place meanwhile is not listed,
       and its rows stay beside those that replace them.
    3. *Recorded from the declaration that looked.* The record consumes the declared state that stood
       during the look and the listing. If that was withdrawn, by whomever, others may have passed since.
    """
    run = decision.run
    planned = name_packs(decision.loaded)
    # What a job that replaces nothing records does not depend on what the looks find. No process reads a
    # pack or a record before a state names the record, so they are written beside all of this.
    record = decision.record(planned, current, OldFiles())
    write = partial(_write_known, decision, record, planned)
    with ExitStack() as noting:  # what it notes is there before anything is moved
        with run.context.beside(partial(_save, decision, planned), write) as written:
            current = freeze_and_declare(decision, current)
            current, old, is_first = look_until_free(decision, current)
            note = partial(note_new_directories, run.context, directories=_note_missing(run, old))
            if decision.is_known:
                noting.enter_context(run.context.beside(partial(note, record)))
        saved, success = written
        # Only now is it known which old files there are; after the record it is too late to refuse (D5).
        decision.turn.refuse_what_cannot_be_kept(old)
        notes: list[Callable[[], object]] = []
        is_as_planned = decision.is_known and is_first and old.success is None
        if not is_as_planned or saved.packs != planned.packs:
            # With a new nonce: no state ever names the one that was written beside the declaration.
            record, success = decision.record(saved, current, old), None
            # The places aside are made before the record, and never again by a late process.
            writes = [write_commit_record, make_place_of_success, make_places_aside]
            run.context.at_once(lambda write: write(run.context, record), writes)
            notes.append(partial(note, record))
        return _save_record(run, current, record, old, notes, success), record, saved


def _save_record(
    run: CommitRun,
    current: Seen,
    record: CommitRecord,
    old: OldFiles,
    notes: Sequence[Callable[[], object]],
    success: WrittenSuccess | None,
) -> Seen:
    """Change the job to recorded, and take the `notes`; what is written of ``_SUCCESS`` can be used if
    all is moved at the same time."""
    context = run.context
    recorded: Seen
    # The one binding request: it consumes the declared state of this very round (D1).
    recorded, run.plan, *_ = context.do_at_once(
        partial(save_commit_record, context, current, record),
        # By now this run has written files, by which a store shows who its user is.
        partial(with_same_rights, context, run.plan, old.missing),
        *notes,
    )
    # Not before: if another process records the job, its record counts. If more is moved than was to be,
    # it is written again with what that took.
    if context.moves_at_once(record.files - run.plan.files + len(run.plan.moves)):
        run.progress.success = success
    return recorded


def _note_missing(run: CommitRun, old: OldFiles) -> list[str]:
    """Note which directories the look has found, and return those that it has found missing."""
    run.there, moves = old.there, run.plan.moves
    run.missing = old.missing.intersection(parent(move.dest) for move in moves)
    return [*run.missing, *old.missing.intersection(move.dest for move in moves)]


def _save(decision: Decision, planned: LoadedManifests) -> LoadedManifests:
    """Save the packs under their names, and force them to disk, if the commit must be durable."""
    saved = save_packs(decision.context, decision.loaded, planned)
    sync_packs(decision.context, saved.packs)
    return saved


def _write_known(
    decision: Decision, record: CommitRecord, planned: LoadedManifests
) -> WrittenSuccess | None:
    """Write a record that is known before the look, and perhaps ``_SUCCESS`` under a temporary name."""
    if not decision.is_known:
        return None
    context = decision.context
    write = partial(write_commit_record, context, record)
    success: WrittenSuccess | None
    _, success = context.do_at_once(write, partial(write_small_success, context, record, planned.packs))
    return success


def _withdraw_own(context: JobContext, run: str) -> None:
    """Withdraw this run's declaration if it is still there; otherwise the next run counts it as dead."""
    with suppress(OSError, RayCommitterError):
        status = read_other(context.store, context.job, context.now_milliseconds())
        if status is not None and status.phase is Phase.DECLARED and status.declaration.owner.run == run:
            advance_if_unchanged(context.store, context.job, status.known, Phase.OPEN)
