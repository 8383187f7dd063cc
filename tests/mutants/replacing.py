"""Mistakes with the data that a job replaces."""

from __future__ import annotations

import errno

from ray_committer.job_files.job_status import JobStatus
from ray_committer.places.old_files import is_same, replaced_file
from ray_committer.protocol.java_numbers import float_texts
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.stages.checks.permissions import check_removals
from ray_committer.stages.old_data.old_files_aside import (
    end_removal,
    put_old_files_back,
    take_old_files_away,
)
from ray_committer.stages.old_data.old_success import put_old_success_aside, put_old_success_back
from ray_committer.stages.publish_job import move_files
from ray_committer.stages.remove_replaced_files import put_old_file_aside, remove_replaced_files
from ray_committer.stores.forwarding import ForwardingStore
from ray_committer.stores.s3.requests import raise_if_passing
from tests.mutants.swap import Swaps


def old_files_go_before_the_new_ones_are_in_place() -> Swaps:
    """If the new data is damaged, the old data is gone."""

    def broken(job, which):
        remove_replaced_files(job.context, job.record)
        move_files(job, which)

    yield move_files, broken


def old_files_go_while_the_commit_can_be_given_up() -> Swaps:
    """A commit is undone whose old files are gone already."""
    yield CommitRecord.is_sealed, property(lambda self: False)


def an_old_file_is_known_by_its_name_alone() -> Swaps:
    """An overwrite deletes what somebody wrote after it had listed the old data."""
    yield replaced_file, lambda status: ReplacedFile(status.path, 0)


def a_deletion_takes_any_version() -> Swaps:
    """An overwrite deletes what was written between its look at an old file and the deletion."""
    yield ForwardingStore.delete_version, lambda self, path, version: self.delete_file(path)


def places_for_old_files_outlive_the_commit() -> Swaps:
    """A committer that slept removes a file of a later job."""
    yield end_removal, lambda context, record: None


def a_file_that_cannot_be_put_aside_is_deleted_where_it_is() -> Swaps:
    """A committer that slept deletes a file of a later job."""

    def broken(store, file, place):
        try:
            store.rename(file.path, place)
        except OSError:
            return store.delete_file(file.path)
        return True

    yield put_old_file_aside, broken


def an_undo_leaves_the_old_files_aside() -> Swaps:
    """They are lost with the directory of the job."""
    yield put_old_files_back, lambda context, record, undoing: None


def numbers_are_named_as_python_writes_them() -> Swaps:
    """The old rows of Spark's partition stay beside the new ones."""
    yield float_texts, lambda value, *, is_single=False: (repr(value),)


def an_undo_leaves_the_place_of_old_files_where_it_is() -> Swaps:
    """A committer that slept puts a file aside that was put back, and it is deleted there."""
    yield take_old_files_away, lambda context, record: True


def what_is_put_aside_by_mistake_is_deleted() -> Swaps:
    """A file that another program wrote meanwhile is lost."""
    yield is_same, lambda file, aside: True


def removals_are_not_checked() -> Swaps:
    """An overwrite finds after its commit point that old rows stay beside the new ones."""
    yield check_removals, lambda context, paths: None


def an_append_waits_for_a_sealed_job() -> Swaps:
    """One old file that cannot be removed stops every writer of the table."""
    yield JobStatus.is_passed_by_appends, property(lambda self: False)


def an_undo_forgets_the_old_success() -> Swaps:
    """The `_SUCCESS` of good data is lost with a job that was undone."""
    yield put_old_success_back, lambda context, record: None


def the_old_success_stays_while_files_appear() -> Swaps:
    """A reader that waits for `_SUCCESS` reads half of a job's output."""
    yield put_old_success_aside, lambda context, record: None


def a_request_under_way_is_a_change() -> Swaps:
    """On S3 an old file stays beside the new ones, because another request for it was under way."""

    def broken(status, failure, path):
        if status == 409:
            raise FileExistsError(errno.EEXIST, failure.code, path)
        return raise_if_passing(status, failure, path)

    yield raise_if_passing, broken
