"""Mistakes with the data that a job replaces."""

from __future__ import annotations

import errno

from ray_committer.protocol.java_numbers import float_texts
from ray_committer.protocol.record import CommitRecord, ReplacedFile
from ray_committer.stages.old_files import replaced_file
from ray_committer.stages.old_success import put_old_success_aside, put_old_success_back
from ray_committer.stages.publish_job import move_files
from ray_committer.stages.remove_replaced_files import (
    remove_places_aside,
    remove_replaced_files,
)
from ray_committer.stores.base import delete_version
from ray_committer.stores.s3.requests import raise_if_passing
from tests.mutants.swap import Swaps


def old_files_go_before_the_new_ones_are_in_place() -> Swaps:
    """If the new data is damaged, the old data is gone."""

    def broken(context, progress, record, loaded, reload, *, is_sealed=False):
        remove_replaced_files(context, record, record.nonce)
        move_files(context, progress, record, loaded, reload, is_sealed=is_sealed)

    yield move_files, broken


def old_files_go_while_the_commit_can_be_given_up() -> Swaps:
    """A commit is undone whose old files are gone already."""
    yield CommitRecord.is_sealed, property(lambda self: False)


def an_old_file_is_known_by_its_name_alone() -> Swaps:
    """An overwrite deletes what somebody wrote after it had listed the old data."""
    yield replaced_file, lambda status: ReplacedFile(status.path, 0)


def a_deletion_takes_any_version() -> Swaps:
    """An overwrite deletes what was written between its look at an old file and the deletion."""
    yield delete_version, lambda store, path, version: store.delete_file(path)


def places_for_old_files_outlive_the_commit() -> Swaps:
    """A committer that slept removes a file of a later job."""
    yield remove_places_aside, lambda context, files, nonce: None


def numbers_are_named_as_python_writes_them() -> Swaps:
    """The old rows of Spark's partition stay beside the new ones."""
    yield float_texts, lambda value, *, is_single=False: (repr(value),)


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
