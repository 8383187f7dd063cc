"""Mistakes in how a file gets to its place."""

from __future__ import annotations

import os

from ray_committer.protocol.actions import Place, judge_complete
from ray_committer.protocol.recovery import Judgement, Proof, Verdict, judge_rename, prove
from ray_committer.stores.base import missing_operations
from ray_committer.stores.hdfs.protocol import NameNodeStore
from ray_committer.stores.hdfs.webhdfs import WebHdfsStore
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_renames import rename_without_replacing, renamed_by_flag
from ray_committer.stores.local_rights import has_access_list
from ray_committer.stores.network_files import Mounts
from ray_committer.work.directory import make_directory
from ray_committer.work.publish_entry import publish_entry
from tests.mutants.swap import Swaps


def both_ends_are_done_if_the_sizes_are_equal() -> Swaps:
    """A file that another job wrote is taken for ours, and ours is deleted by the clean-up."""

    def broken(expected, source, dest):
        if source and dest and source.size == dest.size:
            return Judgement(Verdict.DONE, Proof.SIZE_ONLY)
        return judge_rename(expected, source, dest)

    yield judge_rename, broken


def a_source_that_is_gone_was_moved() -> Swaps:
    """A file that another program has deleted is missing from a committed job."""

    def broken(expected, source, dest):
        if source is None:
            return Judgement(Verdict.DONE, Proof.SIZE_ONLY)
        return judge_rename(expected, source, dest)

    yield judge_rename, broken


def equal_bytes_prove_an_upload_that_is_pending() -> Swaps:
    """On S3 a file of another program counts as ours, because its bytes are the same."""

    def broken(answer, place, is_pending):
        if place is Place.SAME_ETAG:
            return Judgement(Verdict.DONE, Proof.ETAG)
        return judge_complete(answer, place, is_pending)

    yield judge_complete, broken


def a_size_is_a_proof() -> Swaps:
    """A foreign file of the same size is reported as the one that the task wrote."""
    yield (
        prove,
        lambda expected, dest: Proof.MODIFICATION_TIME if expected.size == dest.size else None,
    )


def a_rename_replaces() -> Swaps:
    """A commit overwrites data of others."""
    yield LocalStore.rename, lambda self, source, dest, version=None: os.replace(source, dest)


def a_file_system_is_not_tried_at_the_set_up() -> Swaps:
    """After hours, all tasks have written to a mount on which nothing can be committed."""
    yield LocalStore.check_renames, lambda self, directory: None


def a_store_may_lack_operations() -> Swaps:
    """A job runs for hours on a store that cannot end it."""
    yield missing_operations, lambda store: []


def a_rename_makes_directories() -> Swaps:
    """A process that slept makes directories of a job that has ended."""

    def broken(self, source, dest, version=None):
        os.makedirs(os.path.dirname(dest), exist_ok=True)
        rename_without_replacing(source, dest)

    yield LocalStore.rename, broken


def a_rename_that_misses_its_directory_does_not_make_it() -> Swaps:
    """A commit stops in the middle because another job has removed an empty directory."""
    yield make_directory, lambda store, path: None


def a_failed_rename_is_not_judged() -> Swaps:
    """Of two committers of one job each fails because of the other."""

    def broken(store, entry, attempts, old=None, *, on_retry=lambda: None):
        store.rename(entry.source, entry.dest, entry.version)

    yield publish_entry, broken


def a_checksum_outlives_its_file() -> Swaps:
    """Hadoop refuses to read a file that was committed whole."""
    yield (
        LocalStore.rename,
        lambda self, source, dest, version=None: rename_without_replacing(source, dest),
    )


def an_empty_directory_is_replaced() -> Swaps:
    """The partition that another job has just made is gone, and its files with it."""
    yield LocalStore.move_whole, lambda self, source, dest: os.rename(source, dest)


def a_directory_is_moved_while_files_are_renamed_by_links() -> Swaps:
    """A process that sleeps in a rename links its file into view after the job was taken back."""
    yield LocalStore.move_whole, lambda self, source, dest: renamed_by_flag(source, dest)


def directories_are_moved_on_any_file_system() -> Swaps:
    """On a network another machine finds an old directory behind the new name."""
    yield Mounts.moves_whole, lambda self, path: True


def any_gateway_moves_directories() -> Swaps:
    """A gateway moves the directory into the partition that is there, where no reader looks for it."""
    yield WebHdfsStore.move_whole, NameNodeStore.move_whole


def an_access_list_is_overlooked() -> Swaps:
    """Users who may read a table cannot read its new partition, or others can."""
    yield has_access_list, lambda path: False
