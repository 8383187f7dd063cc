"""Mistakes in who decides what becomes of a job."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from unittest.mock import ANY

from ray_committer.errors import JobNotFoundError
from ray_committer.job_files.job_state import Seen, StateChangedError, advance, read_state
from ray_committer.job_files.others import destinations_above, until_certain
from ray_committer.job_files.owners import Life, life_of
from ray_committer.job_files.read_job import last_sign
from ray_committer.job_files.success import is_noted, success_if_told
from ray_committer.places.old_files import can_have_two_names, return_stranger
from ray_committer.protocol.claims import judge
from ray_committer.protocol.manifest import stamp_of
from ray_committer.protocol.paths import CURRENT, TEMPORARY, JobAttempt, join
from ray_committer.protocol.record import Claim
from ray_committer.protocol.state import TRANSITIONS, JobState, Phase, new_nonce
from ray_committer.stages.abort_job import refuse_decided
from ray_committer.stages.checks.known_directories import KnownDirectories, look_at_parents
from ray_committer.stages.declare_job import declare_job, look_around, withdraw
from ray_committer.stages.freeze_manifests import are_current, freeze_manifests
from ray_committer.stages.old_data.list_replaced_files import list_replaced_files
from ray_committer.stages.other_jobs.ended_jobs import (
    by_another_process,
    not_found,
    refuse_committed,
    say_what_became,
    unknown_end,
)
from ray_committer.stages.other_jobs.other_attempts import (
    abort_older_attempts,
    abort_other_attempts,
    refuse_other_attempts,
)
from ray_committer.stages.preflight import look_at_data
from ray_committer.stages.run.failure import look_again
from ray_committer.stages.run.heartbeat import signing_off
from ray_committer.stages.save_task_manifest import save_task_manifest
from ray_committer.stages.take_back import take_back_entry, take_from_destination
from ray_committer.stores.base import (
    FileStatus,
    StoredState,
    StoreOperations,
)
from ray_committer.stores.forwarding import ForwardingStore
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_renames import link_and_unlink
from ray_committer.stores.state_names import read_state_name, state_rename
from ray_committer.tables.append import append, decide
from ray_committer.tables.jobs_in_log import what_became
from ray_committer.work.directory import list_after_jobs
from ray_committer.work.end_upload import Ended, end_upload
from tests.mutants.swap import Swaps


def a_state_is_changed_whatever_it_has_become() -> Swaps:
    """A process that slept through a decision takes it back."""

    def broken(
        store: StoreOperations,
        job: JobAttempt,
        last: Seen,
        phase: Phase,
        nonce: str | None = None,
        *,
        content: str = "",
        since: int | None = None,
    ) -> Seen:
        now = read_state(store, job) or last
        return advance(store, job, now, phase, nonce, content=content, since=since)

    yield advance, broken


def a_change_without_an_answer_is_taken_for_a_failure() -> Swaps:
    """A job that was decided is reported as failed, or as decided by somebody else."""

    def broken(
        store: StoreOperations,
        job: JobAttempt,
        last: Seen,
        phase: Phase,
        nonce: str | None = None,
        *,
        content: str = "",
        since: int | None = None,
    ) -> Seen:
        moves = store.has(StoreOperations.move_directory)
        path = job.state if moves else join(job.state, CURRENT)
        new = last.state.to(phase, nonce or new_nonce(), since)
        try:
            text = f"{new.token}\n{content}" if content else new.token
            return Seen(new, store.advance(path, last.stored, text))
        except OSError as e:
            raise StateChangedError(read_state(store, job), last) from e

    yield advance, broken


def a_state_is_changed_by_a_link_and_an_unlink() -> Swaps:
    """Two processes decide one job, each another thing, since each makes its own second name."""

    def broken(self: LocalStore, path: str, old: StoredState | None, text: str) -> StoredState:
        link_and_unlink(*state_rename(path, old, text))
        return StoredState(text)

    yield LocalStore.advance, broken


def a_state_that_is_unclear_is_no_state() -> Swaps:
    """A listing that was made while the state changed lets a job be set up, or decided, anew."""

    def broken(
        list_status: Callable[[str], list[FileStatus]], path: str, *, looks: int = 1
    ) -> StoredState | None:
        try:
            return read_state_name(list_status, path, looks=1)
        except OSError:
            return None

    yield read_state_name, broken


def a_task_commits_to_a_later_job_of_its_id() -> Swaps:
    """A task that slept through the end of its job replaces a manifest of the next one."""

    def broken(store, job, *arguments, stamp, **options):
        seen = read_state(store, job)
        now = seen.state.stamp if seen else stamp
        return save_task_manifest(store, job, *arguments, stamp=now, **options)

    yield save_task_manifest, broken


def a_manifest_of_an_earlier_job_of_the_id_is_taken() -> Swaps:
    """A task that slept puts its rows into the job that was set up under the id of its own."""
    yield stamp_of, lambda manifest: ANY


def a_job_does_not_look_at_others() -> Swaps:
    """Two overwrites are both told committed, and a half of each is there."""
    yield look_around, lambda context, claim, below=(), choose=None: []


def a_job_looks_at_others_before_it_declares_itself() -> Swaps:
    """Of two jobs that replace each other's data neither sees the other."""
    found = []

    def declare(context, last, claim, run, run_id=None, *, prepared=None):
        found[:] = look_around(context, claim)
        return declare_job(context, last, claim, run, run_id, prepared=prepared)

    yield declare_job, declare
    yield look_around, lambda context, claim, below=(), choose=None: found


def old_files_are_listed_before_the_look_at_others() -> Swaps:
    """An overwrite leaves the rows of a commit that ended between its two looks beside its own."""
    early = []

    def look(context, claim, below=(), choose=None):
        early[:] = [list_replaced_files(context, claim.excludes)]
        return look_around(context, claim, below, choose)

    yield look_around, look
    yield list_replaced_files, lambda context, roots: early[0]


def jobs_that_were_set_up_above_are_not_looked_at() -> Swaps:
    """An overwrite of a partition deletes files that a job of the whole table moves there."""
    yield destinations_above, lambda paths: set()


def jobs_that_were_set_up_below_are_not_looked_at() -> Swaps:
    """An overwrite of a table deletes files that a job of one partition moves there."""

    def broken(*arguments, **named):
        found = look_at_data(*arguments, **named)
        return dataclasses.replace(found, destinations=())

    yield look_at_data, broken


def a_partition_of_several_pages_is_not_asked_for_jobs_before_it_is_listed() -> Swaps:
    """An overwrite misses a file that another job puts into the part that was listed first."""

    def broken(store, path):
        listed = store.list_anew(path)
        return listed, any(status.name == TEMPORARY for status in listed)

    yield list_after_jobs, broken


def a_partition_is_listed_before_its_parents_are_asked_for_jobs() -> Swaps:
    """An overwrite misses the files of a job of the parent that ends between the two."""
    yield look_at_parents, lambda context, directories: KnownDirectories()


def only_jobs_of_the_same_directory_hinder_each_other() -> Swaps:
    """A job on one partition is committed beside an overwrite of the table."""

    def broken(self: Claim, other: Claim) -> bool:
        return bool({*self.excludes} & {*other.writes} or {*other.excludes} & {*self.writes})

    yield Claim.hinders, broken


def who_waits_for_another_job_stays_declared() -> Swaps:
    """Two jobs wait for each other, and an append hinders all others while it waits."""
    yield withdraw, lambda context, declared: declared


def states_are_read_as_this_machine_remembers_them() -> Swaps:
    """On a network file system an overwrite misses an append that another machine has recorded."""
    yield StoreOperations.list_anew, lambda self, path: self.list_status(path)


def claims_are_not_judged() -> Swaps:
    """In a table with a log, two jobs replace the same files, and rows are there twice."""
    yield judge, lambda claim, ended, in_flight, isolation: None


def a_claim_is_decided_twice() -> Swaps:
    """One person commits a claim, another gives it up, and both remove files."""
    yield decide, lambda store, table, entry: (append(store, table, entry, entry.claim), entry)


def a_job_is_recorded_without_freezing_its_manifests() -> Swaps:
    """A late task's manifest is saved, and its task told so, in a job that is committed without it."""
    yield freeze_manifests, lambda context, loaded: None
    yield are_current, lambda context, loaded, tree=None: True


def what_was_frozen_is_not_listed_again() -> Swaps:
    """Rows of a task that committed while the manifests were loaded are missing without a word."""

    def broken(context, loaded, tree=None):
        return context.places.frozen(context.job) is not None or are_current(context, loaded, tree)

    yield are_current, broken


def manifests_that_are_packed_are_not_listed_again() -> Swaps:
    """Where directories cannot be renamed, rows of such a task are missing without a word."""

    def broken(context, loaded, tree=None):
        return context.places.frozen(context.job) is None or are_current(context, loaded, tree)

    yield are_current, broken


def an_older_attempt_is_left_to_itself() -> Swaps:
    """Two attempts of one job are committed, and its rows are there twice."""
    yield abort_older_attempts, lambda store, job, tree=None: None


def a_committed_attempt_leaves_another_that_could_be_committed() -> Swaps:
    """A newer attempt, set up just before the record, is committed too, later."""
    yield abort_other_attempts, lambda store, job, tree=None: None


def an_attempt_is_set_up_beside_one_that_was_recorded() -> Swaps:
    """Its tasks run for hours, and its rows can never be committed."""
    yield refuse_other_attempts, lambda store, job, tree=None: None


def the_marker_of_another_job_answers_for_this_one() -> Swaps:
    """A job whose manifests are lost is reported as committed."""
    yield is_noted, lambda store, job: success_if_told(store, job.destination) is not None


def a_job_of_which_nothing_is_left_has_changed_nothing() -> Swaps:
    """A script starts an application again whose job was committed before another one was."""
    yield not_found, lambda store, destination, job_id: JobNotFoundError(f"{destination}: holds no job")


def the_log_is_not_asked_for_a_job_that_is_gone() -> Swaps:
    """A script starts an application again whose job the log of its table names as committed."""
    yield what_became, lambda store, destination, job_id, number: None


def a_job_that_is_gone_was_committed() -> Swaps:
    """A commit says that a job is committed that another process has aborted."""
    yield say_what_became, lambda context, last, nonce: by_another_process(context)


def a_loser_does_not_say_what_became_of_the_job() -> Swaps:
    """A job that another process has committed is reported as unknown."""

    def broken(context, last, nonce):
        raise unknown_end(context.job)

    yield say_what_became, broken


def nobody_is_alive() -> Swaps:
    """A commit that is at work is continued, or given up, by another process."""
    yield life_of, lambda owner, last_sign_milliseconds, now_milliseconds: Life.DEAD


def everybody_is_alive() -> Swaps:
    """Nobody ever finishes a commit whose process has died."""
    yield life_of, lambda owner, last_sign_milliseconds, now_milliseconds: Life.ALIVE


def a_declaration_is_as_old_as_its_text() -> Swaps:
    """A commit whose declaration was written while its tasks ran is taken for dead, and held up."""
    to = JobState.to
    yield JobState.to, lambda self, phase, nonce, since=None: to(self, phase, nonce)


def a_sign_from_the_future_is_believed() -> Swaps:
    """A process that has died keeps everybody waiting for hours, because its clock was ahead."""

    def broken(owner, last_sign_milliseconds, now_milliseconds):
        return life_of(owner, min(last_sign_milliseconds, now_milliseconds), now_milliseconds)

    yield life_of, broken


def a_doubtful_committer_is_not_watched() -> Swaps:
    """One look decides about a process whose clock is ahead."""
    yield until_certain, lambda look, *, pause=None, clock=None: list(look())


def a_run_that_fails_does_not_say_that_it_is_over() -> Swaps:
    """A notebook whose commit has failed keeps everybody waiting."""
    yield signing_off, lambda context, run: nullcontext()


def a_silent_committer_is_not_watched() -> Swaps:
    """A job whose machine has another clock is given up in the middle of its commit."""
    yield last_sign, lambda store, job: (None, None)


def an_abort_does_not_look_at_the_record() -> Swaps:
    """An abort deletes files of a job whose commit has begun, and nobody can finish it."""
    after = TRANSITIONS[Phase.RECORDED] | {Phase.ABORTED}
    yield refuse_decided, lambda context, phase: None
    yield TRANSITIONS, {**TRANSITIONS, Phase.RECORDED: after, Phase.SEALED: after}


def a_committed_job_is_aborted() -> Swaps:
    """A script is told that nothing of a job is visible, and all of it is."""
    yield refuse_committed, lambda context, last: None


def a_failure_is_reported_without_a_look_at_the_job() -> Swaps:
    """A job that another process has committed is reported as failed, with nothing changed."""
    yield look_again, lambda context, known, error: False


def an_undo_leaves_the_sources() -> Swaps:
    """A committer that slept moves a file of a job that was given up."""

    def broken(store, place, overwritten, numbered, *, is_taken=False):
        number, entry = numbered
        return take_from_destination(store, f"{place}/{number}-moved", entry, None)

    yield take_back_entry, broken


def an_abort_of_what_was_left_is_one_of_the_job() -> Swaps:
    """A committed job is said to be aborted after an abort of what a late task had left was killed."""
    yield JobState.may_be_nobodys, property(lambda self: False)


def a_directory_that_is_listed_is_there() -> Swaps:
    """On a server that keeps objects as files, a job that has ended looks as if it were running."""
    yield ForwardingStore.list_exact, lambda self, path: self.list_anew(path)


def an_abort_proves_that_nothing_was_completed() -> Swaps:
    """On S3 the completed files of a job that was given up stay, since an abort is always confirmed."""

    def broken(store, path, upload, before=None):
        store.abort_upload(path, upload)
        return Ended(True, None)

    yield end_upload, broken


def an_undo_does_not_look_for_a_second_name() -> Swaps:
    """A file that a dying committer had linked to its place stays there."""

    yield can_have_two_names, lambda store: False


def an_undo_keeps_what_it_takes_by_mistake() -> Swaps:
    """A file that a later job has written is deleted with the job that is undone."""
    yield return_stranger, lambda store, place, path: None


def an_undo_leaves_what_was_moved() -> Swaps:
    """A half of a job that was given up is there."""
    yield take_from_destination, lambda store, back, entry, source: None
