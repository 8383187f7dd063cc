"""Mistakes with the log of a table."""

from __future__ import annotations

from msgspec import structs

from ray_committer.job_files.job_state import read_state
from ray_committer.protocol.claims import Obstacle, Verdict, common_partitions, judge, same_run
from ray_committer.protocol.paths import join
from ray_committer.protocol.table_entry import TableAbort, TableClaim
from ray_committer.protocol.table_pack import may_follow, pack_of
from ray_committer.protocol.table_runs import digest_of_work, pack_runs, run_after
from ray_committer.protocol.table_state import ended_since, follow
from ray_committer.stages.abort_job import refuse_decided
from ray_committer.stages.old_data.list_replaced_files import list_replaced_files
from ray_committer.stages.old_data.read_files import list_read_files
from ray_committer.stages.publish_job import seal
from ray_committer.stages.turns.claim_table import TableTurn
from ray_committer.stages.turns.commit_in_table import RecordedTurn
from ray_committer.tables.release import release_own
from ray_committer.tables.run_session import RunSession
from tests.mutants.swap import Swaps


def old_files_are_listed_before_the_claim() -> Swaps:
    """An overwrite leaves the rows of a job that ended before its turn beside its own."""
    early, take = {}, TableTurn.take

    def broken(self):
        destination, replaces = self.context.job.destination, self.claimant.claim.replaces or ()
        if self.claimed is None:
            roots = [join(destination, path) if path else destination for path in replaces]
            early[self.context.job] = list_replaced_files(self.context, roots)
        return take(self)

    yield TableTurn.take, broken
    yield (
        list_replaced_files,
        lambda context, roots: early.pop(context.job, None) or list_replaced_files(context, roots),
    )


def no_claim_waits() -> Swaps:
    """Two overwrites of one partition are both committed, and a half of each is there."""
    yield judge, lambda claim, ended, in_flight, isolation: judge(claim, ended, (), isolation)


def a_claim_waits_only_for_what_would_refuse_it() -> Swaps:
    """A job reads a partition while a job that came first changes it."""

    def broken(claim, ended, in_flight, isolation):
        refused = judge(claim, in_flight, (), isolation)
        waits = refused and Obstacle(Verdict.WAITS, refused.other, refused.partitions)
        return judge(claim, ended, (), isolation) or waits

    yield judge, broken


def a_claim_ends_at_its_commit() -> Swaps:
    """The next job lists old files that are just being removed."""

    def broken(state, entries):
        after, committed = follow(state, entries)
        open_ones = [one for one in after.in_flight if one.committed is None]
        return structs.replace(after, in_flight=open_ones), committed

    yield follow, broken


def the_log_is_told_of_an_abort_before_it_is_decided() -> Swaps:
    """A job is committed whose claim the log calls aborted."""

    def broken(context, phase):
        refuse_decided(context, phase)
        seen = read_state(context.store, context.job)
        if seen is not None:
            release_own(context.store, context.job, seen.state, context.now_milliseconds())

    yield refuse_decided, broken


def the_log_is_not_told_of_an_abort() -> Swaps:
    """All later jobs wait for a job that is gone."""
    yield release_own, lambda store, job, aborted, now_milliseconds: None


def the_log_says_committed_before_the_job_is_sealed() -> Swaps:
    """A job is undone whose files the log names."""

    def broken(job, recorded):
        job.turn.commit()
        return seal(job, recorded)

    yield seal, broken


def old_files_go_before_the_log_says_committed() -> Swaps:
    """A reader of the last version finds its files gone."""

    commit = RecordedTurn.commit

    def broken(self):
        for file in self.record.replaced:
            self.context.store.delete_file(file.path)
        return commit(self)

    yield RecordedTurn.commit, broken


def who_still_removed_old_files_at_the_base_does_not_count() -> Swaps:
    """A job is committed that has read rows from files that were being replaced."""

    def broken(base, entries):
        before = {one.version for one in base.in_flight if one.committed is not None}
        ended, after = ended_since(base, entries)
        return [one for one in ended if one.version not in before], after

    yield ended_since, broken


def aborted_jobs_do_not_count() -> Swaps:
    """A job is committed that has read rows of a job that was undone."""

    def broken(base, entries):
        ended, after = ended_since(base, entries)
        return [one for one in ended if one.committed is not None], after

    yield ended_since, broken


def an_undo_replaces_what_it_finds() -> Swaps:
    """An undo of an append removes all rows of the partition."""

    def broken(context, work):
        destination = context.job.destination
        return list_replaced_files(context, [join(destination, one) for one in work.partitions])

    yield list_read_files, broken


def a_directory_is_claimed_without_those_below() -> Swaps:
    """An overwrite of a table is committed beside a job of one partition."""
    yield common_partitions, lambda some, rest: {*some} & {*rest}


def each_run_makes_a_claim_of_its_own() -> Swaps:
    """A commit that died waits for its own claim when it is run again."""
    yield TableClaim.writes_as, lambda self, other: self.owner == other.owner


def a_draft_is_put_beside_any_claim() -> Swaps:
    """A job gets its claim beside one that excludes it."""

    def broken(entry, later):
        return may_follow(entry, [one for one in later if one.job_id == entry.job_id])

    yield may_follow, broken


def a_draft_is_put_a_second_time() -> Swaps:
    """A job is committed twice in the log."""

    def broken(entry, later):
        is_own = [one.job_id == entry.job_id and not isinstance(one, TableAbort) for one in later]
        return may_follow(entry, [one for one, own in zip(later, is_own, strict=True) if not own])

    yield may_follow, broken


def a_draft_is_put_after_the_abort_of_its_job() -> Swaps:
    """A job that is gone has a claim in flight, for which all later jobs wait."""

    def broken(entry, later):
        aborts = [one.job_id == entry.job_id and isinstance(one, TableAbort) for one in later]
        return may_follow(entry, [one for one, own in zip(later, aborts, strict=True) if not own])

    yield may_follow, broken


def a_draft_is_put_by_who_does_not_know_all_since() -> Swaps:
    """An entry is put whose job was aborted in a part of the log that was not read."""
    yield (
        pack_of,
        lambda own_entry, drafts, since, known, version: pack_of(own_entry, drafts, 0, known, version),
    )


def claims_of_one_run_id_are_in_flight_together() -> Swaps:
    """Two runs of the same work, in different partitions, are both committed."""
    yield same_run, lambda claim, in_flight: None


def work_under_a_run_id_is_committed_again() -> Swaps:
    """The rows of a job that is run again are there twice."""
    yield run_after, lambda run, commit: None


def a_second_write_of_a_session_is_dropped() -> Swaps:
    """A job that writes two things under one run id loses the second one, and ends well."""
    yield RunSession.has_committed, lambda self, key, job_id: False


def other_work_under_a_run_id_is_dropped() -> Swaps:
    """The rows of another partition are lost, and the job ends well."""
    yield digest_of_work, lambda claim: ""


def an_undo_does_not_free_the_run_id() -> Swaps:
    """A job that was undone is run again, ends well, and has no rows."""

    def broken(run, commit):
        after = run_after(run, commit)
        return after and structs.replace(after, undone=0)

    yield run_after, broken


def a_checkpoint_forgets_run_ids() -> Swaps:
    """A job that is run again after a checkpoint has its rows twice."""
    yield pack_runs, lambda runs: pack_runs({})
