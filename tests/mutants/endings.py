"""Mistakes at the end of a job, and around it."""

from __future__ import annotations

from ray_committer.cli.errors import exit_code
from ray_committer.executors.choose import CONNECTED, reachable_ray
from ray_committer.job_files.commands import commit_command, vacuum_command
from ray_committer.job_files.success import success_if_told
from ray_committer.jobs.remains import at_work
from ray_committer.protocol.state import new_nonce
from ray_committer.spark.callback import callback
from ray_committer.spark.hadoop.conf import OF_ANY_WRITE
from ray_committer.stages.cleanup_job import cleanup_job
from ray_committer.stages.old_data.old_success import forget_earlier_success
from ray_committer.stages.take_away import is_still, sweep_gone, take_away
from ray_committer.stores.base import StoreOperations
from tests.mutants.swap import Swaps


def a_job_is_deleted_where_it_is() -> Swaps:
    """A process that slept deletes files of the job that was set up under the id of its own."""

    def broken(store, job, expected, *, is_new_id=False):
        if store.has(StoreOperations.move_directory):
            store.delete_directory(job.directory)
            return None
        return job

    yield take_away, broken


def a_set_up_deletes_the_marker_that_is_there() -> Swaps:
    """The ``_SUCCESS`` of a job that was committed meanwhile is gone."""

    def broken(store, job, first):
        success = success_if_told(store, job.destination)
        if success is not None and success.job_id == job.job_id:
            store.delete_file(job.success)

    yield forget_earlier_success, broken


def what_was_taken_away_is_deleted_whosever_it_is() -> Swaps:
    """A process that slept deletes the job that was set up under the id of the one that it ended."""

    def broken(store, job, expected, *, is_new_id=False):
        gone = job.gone(new_nonce())
        store.move_directory(job.directory, gone.directory)
        return gone

    yield take_away, broken


def who_slept_deletes_what_a_later_job_of_the_id_wrote() -> Swaps:
    """Where directories are not renamed, files of a job are lost to the abort of an earlier one."""
    yield is_still, lambda store, job, expected: True


def a_sweep_deletes_what_has_not_ended() -> Swaps:
    """A job that was taken away by mistake is lost."""
    yield sweep_gone, lambda store, gone: store.delete_directory(gone.directory)


def vacuum_is_to_clean_up_a_committed_job() -> Swaps:
    """People run a command that keeps the job, since its commit has begun."""
    yield commit_command, lambda store, job, allowed_roots=(): vacuum_command(store, job.destination)


def clean_up_deletes_the_directory_of_all_jobs() -> Swaps:
    """A job that is committed takes away what other jobs have written."""

    def broken(context, committed, record, *, is_new_id=False):
        return context.store.delete_directory(context.job.temporary)

    yield cleanup_job, broken


def a_commit_in_doubt_exits_as_if_nothing_had_changed() -> Swaps:
    """A script starts the application again, whose rows are visible already."""
    yield exit_code, lambda error, command: 1


def vacuum_removes_a_job_that_is_being_committed() -> Swaps:
    """A commit at work loses its manifests."""
    yield at_work, lambda store, attempt, now_milliseconds: None


def auto_asks_for_ray_where_none_is() -> Swaps:
    """A command on a laptop fails, or starts a Ray of its own, and threads would do."""
    yield reachable_ray, lambda: CONNECTED


def a_session_says_where_credentials_go() -> Swaps:
    """A client of a shared driver sends the driver's credentials to a server of its own."""
    yield OF_ANY_WRITE, ("*",)


def anybody_may_call_the_driver() -> Swaps:
    """A local user without rights commits through the callback port."""

    class Open:
        def __init__(self, handler):
            self.handler = handler

        def __getattr__(self, name):
            return lambda secret, request: getattr(self.handler, name)(request)

    yield callback, lambda handler, secret: Open(handler)
