"""Mistakes in what a job consists of, and what it may touch."""

from __future__ import annotations

import dataclasses
import re

from msgspec import structs

from ray_committer.errors import CommitStateUnknownError, TaskCommitError
from ray_committer.executors.directories import DirectoryCoordinator
from ray_committer.job_files.job_state import is_job_of
from ray_committer.jobs.find_attempt import confirm_documented
from ray_committer.limits.permits import Permits
from ray_committer.limits.settle import settle
from ray_committer.protocol.hidden_names import is_passed_over
from ray_committer.protocol.manifest import decode_manifest
from ray_committer.protocol.pack import Pack, digest_of, pack_name
from ray_committer.protocol.paths import join, parent
from ray_committer.protocol.staging import token_in
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.whole import Rights
from ray_committer.stages.abort_task import abort_task
from ray_committer.stages.checks.attempts import refuse_unsaved
from ray_committer.stages.checks.obstacles import refuse
from ray_committer.stages.checks.permissions import check_links
from ray_committer.stages.checks.places import refuse_linked_directories
from ray_committer.stages.checks.sources import SourcesLook, is_of_attempt, look_at_sources
from ray_committer.stages.checks.uploads import check_uploads
from ray_committer.stages.commit_task import commit_task
from ray_committer.stages.freeze_manifests import are_current
from ray_committer.stages.list_manifests import list_manifests
from ray_committer.stages.load_again import load_again
from ray_committer.stages.load_manifests import save_packs
from ray_committer.stages.preflight import preflight
from ray_committer.stages.publish_job import prove_same_store
from ray_committer.stages.run.renamed import reconcile
from ray_committer.stages.save_commit_record import refuse_foreign_paths, save_commit_record
from ray_committer.stages.save_task_manifest import save_task_manifest
from ray_committer.stores.addresses import without_password
from ray_committer.stores.answers import require_inside
from ray_committer.stores.forwarding import ForwardingStore
from ray_committer.stores.links import refuse_links
from ray_committer.stores.local_files import read_regular
from ray_committer.testing.faults import WrappedStore
from ray_committer.work.check_pack import check_pack
from ray_committer.work.entries import check_entry
from ray_committer.work.load_ahead import Chunk
from ray_committer.work.packs import save_pack
from ray_committer.work.source_tallies import packed_tallies
from tests.mutants.swap import Swaps


def a_manifest_of_another_job_is_taken() -> Swaps:
    """Files of another job are moved, or deleted with this one."""
    yield decode_manifest, lambda data, path: structs.replace(decode_manifest(data, path), job_id=None)


def every_job_is_taken_for_complete() -> Swaps:
    """A commit is made of the tasks that have ended so far."""

    def broken(context, loaded, allowed_roots=()):
        options = dataclasses.replace(context.options, assume_complete=True)
        preflight(dataclasses.replace(context, options=options), loaded, allowed_roots)

    yield preflight, broken


def any_kind_of_file_is_read() -> Swaps:
    """A planted link to a device fills the memory of each command that looks."""
    yield read_regular, lambda path: b"x"


def hidden_names_are_output() -> Swaps:
    """What a file system keeps of a removed file becomes data, or stops the commit when it goes."""
    yield is_passed_over, lambda path: False


def attempts_without_a_manifest_are_deleted() -> Swaps:
    """A job whose manifest was lost is committed without the rows of that task."""
    yield refuse_unsaved, lambda context, loaded, attempts: None


def tasks_are_not_counted() -> Swaps:
    """The rows of a task whose manifest was lost are missing without a word."""

    def broken(context, loaded, allowed_roots=()):
        options = dataclasses.replace(context.options, expected_tasks=None, assume_complete=True)
        preflight(dataclasses.replace(context, options=options), loaded, allowed_roots)

    yield preflight, broken


def the_attempts_that_count_are_not_compared() -> Swaps:
    """Rows of an attempt are committed that Spark did not count."""

    def broken(context, loaded, allowed_roots=()):
        options = dataclasses.replace(context.options, committed_tasks=None)
        preflight(dataclasses.replace(context, options=options), loaded, allowed_roots)

    yield preflight, broken


def what_was_loaded_ahead_counts_whoever_is_named() -> Swaps:
    """Rows of an attempt are committed whose task ran again."""
    yield Chunk.keys, lambda self: set()


def what_the_driver_names_is_not_compared_with_what_is_frozen() -> Swaps:
    """Rows of a task that the driver does not know of are missing without a word."""

    def broken(context, loaded, tree=None):
        return loaded.listing.is_named or are_current(context, loaded, tree)

    yield are_current, broken


def what_was_replaced_stays_in_its_pack() -> Swaps:
    """Rows of an attempt are committed beside those of the one that has replaced its manifest."""

    def broken(context, before, roots, *, stamp, statuses=None):
        again = load_again(context, before, roots, stamp=stamp, statuses=statuses)
        new = [pack for pack in again.packs if pack not in before.packs]
        return dataclasses.replace(again, packs=(*before.packs, *new))

    yield load_again, broken


def a_replaced_manifest_is_known_by_its_name_and_size() -> Swaps:
    """Rows of an attempt are committed whose manifest another one has replaced."""

    def broken(context, statuses):
        listing, listed = list_manifests(context, statuses)
        return listing, [structs.replace(item, mark=0) for item in listed]

    yield list_manifests, broken


def a_recorded_pack_is_read_without_its_digest() -> Swaps:
    """A task attempt that wakes late puts other files into a job that was decided."""
    yield digest_of, lambda data: "0" * 64


def packs_are_written_after_the_record() -> Swaps:
    """A process that dies after the record leaves a job that nobody can finish."""

    late: list = []

    def save(store, job, pack, name=""):
        named = structs.replace(pack.ref, name=pack_name("late", pack.ref.digest))
        late.append(lambda: store.write(join(job.packs, named.name), pack.data))
        return Pack(named)

    def record_first(*arguments):
        recorded = save_commit_record(*arguments)
        while late:
            late.pop()()
        return recorded

    yield save_pack, save
    yield save_commit_record, record_first


def a_record_names_packs_as_they_were_to_be_saved() -> Swaps:
    """A pack whose first write had no answer is under another name, and the job cannot be finished."""

    def broken(context, loaded, named=None):
        saved = save_packs(context, loaded, named)
        return named or saved

    yield save_packs, broken


def a_pack_is_named_for_what_is_in_it() -> Swaps:
    """A second writer of equal entries empties a pack that a record names already."""
    yield pack_name, lambda nonce, digest: digest


def a_pack_is_written_again_under_its_name() -> Swaps:
    """A write that had no answer empties the pack when it is carried out at last."""

    def broken(store, job, pack, name=""):
        ref = structs.replace(pack.ref, name=name or pack_name(new_nonce(), pack.ref.digest))
        settle(lambda: store.write_once(join(job.packs, ref.name), pack.data))
        return Pack(ref)

    yield save_pack, broken


def a_pack_is_trusted() -> Swaps:
    """Who can write below `_temporary` has the files of others moved, or files put where he likes."""
    yield check_pack, lambda worker, pack, roots, tasks: None


def fewer_renames_than_files_are_a_success() -> Swaps:
    """Success is reported although files were not moved."""
    yield reconcile, lambda context, loaded, renamed: None


def duplicates_are_not_found() -> Swaps:
    """Two tasks that write one name lose a file, or fail half-way."""
    yield DirectoryCoordinator.repeated, lambda self: frozenset()


def a_job_may_move_any_file() -> Swaps:
    """A manifest with a wrong path takes files of other tables away, or overwrites them."""
    yield check_entry, lambda entry, job, attempt, roots, store, *, token: None


def a_staged_file_may_be_named_for_any_attempt() -> Swaps:
    """A manifest takes away the files that another task attempt has written beside its own."""

    def check(entry, *where, token):
        check_entry(entry, *where, token=token_in(entry.source) or token)

    yield check_entry, check


def a_token_is_found_in_part() -> Swaps:
    """Attempt 25 of a task takes the files of attempt 400 for its own."""
    yield token_in, lambda name: next(iter(re.findall(r"-([0-9a-f]{16})", name)), None)


def the_last_of_several_tokens_counts() -> Swaps:
    """What a format adds to a name makes the file another attempt's, and rows are lost."""
    yield token_in, lambda name: ([None, *re.findall(r"-([0-9a-f]{16})(?=[._-]|\Z)", name)])[-1]


def only_the_first_obstacle_is_reported() -> Swaps:
    """A commit stops once for each name that is in its way."""
    yield refuse, lambda errors: refuse(errors[:1])


def files_that_cannot_be_linked_are_found_after_the_record() -> Swaps:
    """A job is recorded that can neither end nor be given up."""
    yield check_links, lambda context, packs: None


def uploads_are_not_looked_at_before_the_record() -> Swaps:
    """On S3 a job is recorded of which an upload is gone, so it can never be finished."""
    yield check_uploads, lambda *_: None


def sources_are_not_looked_at_before_the_record() -> Swaps:
    """A job is recorded of which a file is missing, so it can never be finished."""
    yield look_at_sources, lambda context, loaded, *, may_be_missing=False: SourcesLook()


def what_no_pack_names_is_overlooked() -> Swaps:
    """A directory goes whole with a file of an attempt that does not count."""

    def broken(context, loaded, *, may_be_missing=False):
        look = look_at_sources(context, loaded, may_be_missing=may_be_missing)
        return dataclasses.replace(look, verdicts={})

    yield look_at_sources, broken


def rights_of_directories_are_not_compared() -> Swaps:
    """Who could read a new partition cannot, since its directory is another user's."""
    yield Rights.of, lambda self, source: "usual"


def a_source_goes_whole_whatever_its_files_are_for() -> Swaps:
    """A file gets into another directory than its manifest says, or keeps another name."""

    def broken(worker, pack):
        tallies = packed_tallies(worker, pack)
        return {source: tally._replace(goals=tally.goals[:16]) for source, tally in tallies.items()}

    yield packed_tallies, broken


def files_that_no_manifest_names_are_left_behind() -> Swaps:
    """A task's rows are lost without a word: its manifest lacks one of its files."""
    yield is_of_attempt, lambda status, tasks, tokens: False


def a_leftover_of_a_dead_attempt_counts() -> Swaps:
    """A job cannot be committed because an attempt that died has left a file beside the others."""
    yield is_of_attempt, lambda status, tasks, tokens: True


def a_task_whose_job_is_over_is_not_committed() -> Swaps:
    """A task is reported as not committed whose rows are in the table."""

    def broken(*arguments, **options):
        try:
            return save_task_manifest(*arguments, **options)
        except CommitStateUnknownError as e:
            raise TaskCommitError(e.what, e.advice) from e

    yield save_task_manifest, broken


def staged_files_are_nobodys() -> Swaps:
    """A commit of the tasks that have saved a manifest deletes what others have written."""

    def broken(context, loaded, attempts):
        refuse_unsaved(context, loaded, dataclasses.replace(attempts, staged={}))

    yield refuse_unsaved, broken


def an_aborted_attempt_deletes_whole_directories() -> Swaps:
    """It takes away what other tasks have written beside its files."""

    def broken(store, job, task_attempt_id, staged=()):
        for directory in {parent(path) for path in staged}:
            store.delete_directory(directory)
        return abort_task(store, job, task_attempt_id)

    yield abort_task, broken


def who_could_not_save_a_manifest_deletes_its_files() -> Swaps:
    """Only the answer was lost, and a commit misses the files that the manifest names."""

    def broken(*where, **options):
        try:
            return commit_task(*where, **options)
        except TaskCommitError:
            abort_task(*where, options["task_attempt_id"], options["staged"].places)
            raise

    yield commit_task, broken


def a_late_task_makes_its_directories_again() -> Swaps:
    """A job that is over comes back as a directory that no command removes at once."""
    yield is_job_of, lambda store, job, stamp: True


def a_task_does_not_look_at_its_job_again() -> Swaps:
    """Spark is told that a task committed whose rows are in no record."""

    class Remembers(WrappedStore):
        """Shows the first state that was read."""

        def read_state(self, path):
            self.first = getattr(self, "first", None) or super().read_state(path)
            return self.first

    def broken(store, *arguments, **options):
        return save_task_manifest(Remembers(store), *arguments, **options)

    yield save_task_manifest, broken


def a_worker_goes_on_without_a_lease() -> Swaps:
    """A worker that was taken for lost renames files beside the one in its place."""
    yield Permits.acquire, lambda self: None


def a_directory_with_the_documented_name_is_the_jobs() -> Swaps:
    """``abort x`` deletes the job ``manifest_x``."""
    yield confirm_documented, lambda store, job: None


def a_worker_is_not_asked_which_store_it_sees() -> Swaps:
    """Workers on a node with another disk make directories and look for files there."""
    yield prove_same_store, lambda worker, nonce: None


def links_are_followed() -> Swaps:
    """Files of another table are moved, or deleted, through a symbolic link."""
    yield refuse_links, lambda store, paths: None


def links_at_the_destination_are_followed() -> Swaps:
    """An append writes through a link out of the table."""
    yield refuse_linked_directories, lambda context, directories, roots: None


def a_linked_destination_is_another_directory() -> Swaps:
    """An overwrite through a symbolic link deletes files of a recorded append."""
    yield ForwardingStore.real_path, lambda self, path: path


def a_record_is_trusted() -> Swaps:
    """A planted record deletes any file that the user may delete."""
    yield (
        refuse_foreign_paths,
        lambda context, record, allowed_roots, *, undo=False: None,
    )


def a_listing_is_believed_whatever_it_names() -> Swaps:
    """A clean-up deletes what a server lists besides the directory that it was asked for."""
    yield require_inside, lambda names, prefix, field: None


def a_url_is_shown_as_it_was_given() -> Swaps:
    """The password of a database is in the log of a job."""
    yield without_password, lambda url: url
