"""Mistakes in how whole directories get to their places, and leave them."""

from __future__ import annotations

import shutil
from contextlib import suppress

from ray_committer.protocol.pack import Pack
from ray_committer.protocol.paths import join
from ray_committer.protocol.recovery import Proof
from ray_committer.protocol.staging import is_shared
from ray_committer.protocol.whole import Sources, Tally, WholePlan, plan_whole
from ray_committer.stages.note_new_directories import remove_new_directories
from ray_committer.stages.plan_moves import plan_again, plan_moves
from ray_committer.stages.run.renamed import are_all
from ray_committer.stages.take_back import take_back
from ray_committer.stores.local import LocalStore
from ray_committer.work.move_whole import delete_leftovers, move_whole
from ray_committer.work.packs import PackReader
from tests.mutants.swap import Swaps


def a_directory_is_moved_into() -> Swaps:
    """The files of a partition are where no reader looks for them."""
    yield LocalStore.move_whole, lambda self, source, dest: shutil.move(source, dest)


def a_place_that_is_there_proves_a_move() -> Swaps:
    """A partition of another job is taken for this one's, whose rows are lost."""

    def broken(store, tasks, move):
        if store.get_status(move.dest) is not None:
            return Proof.MODIFICATION_TIME
        return move_whole(store, tasks, move)

    yield move_whole, broken


def a_missed_move_is_done() -> Swaps:
    """A job counts as committed whose files somebody has taken away."""

    def broken(store, tasks, move):
        with suppress(FileNotFoundError):
            store.move_whole(join(tasks, move.source), move.dest)
        return

    yield move_whole, broken


def as_many_files_prove_a_move() -> Swaps:
    """Files of another job count as this one's, if there are as many."""
    yield Tally.shows, lambda self, listed: self.files == listed.files


def leftovers_are_moved() -> Swaps:
    """Readers see rows of an attempt that does not count."""
    yield delete_leftovers, lambda worker, tasks, moves: {}


def leftovers_go_before_the_record() -> Swaps:
    """Of two committers that know different attempts, one deletes the files of the other's."""

    def broken(context, look, there=(), *, moves_here):
        plan = plan_moves(context, look, there, moves_here=moves_here)
        for move in plan.moves:
            for name in move.leftovers:
                context.store.delete_file(join(context.job.tasks, move.source, name))
        return plan

    yield plan_moves, broken


def a_record_of_another_run_is_moved_by_the_own_plan() -> Swaps:
    """Of two committers that know different attempts, one moves those that do not count."""
    plans: list[WholePlan] = []

    def noted(context, look, there=(), *, moves_here):
        plans.append(plan_moves(context, look, there, moves_here=moves_here))
        return plans[-1]

    yield plan_moves, noted
    yield plan_again, lambda context, loaded: plans[0]


def a_shard_of_directories_counts_twice() -> Swaps:
    """A job counts as committed of which no worker has moved some directories."""
    yield are_all, lambda spans, files: True


def own_names_follow() -> Swaps:
    """Readers see a partition without the few files that its tasks could not name."""

    def broken(sources, verdicts, root, directories, there=()):
        shared = Sources()
        for source, tally in sources.items():
            if is_shared(source):
                shared.add(source, tally)
        return plan_whole(shared, verdicts, root, directories, there)

    yield plan_whole, broken


def an_undo_moves_directories_back() -> Swaps:
    """An undo takes the files away that another job has added to a partition."""

    def broken(context, record, current, place):
        packs = PackReader(context.store, context.job)
        for ref in record.packs:
            for section in packs.sections(Pack(ref)):
                for number, dest in enumerate(section.dests):
                    with suppress(OSError):
                        context.store.move_directory(dest, join(place, f"{ref.name}-{number}"))
        take_back(context, record, current, place)

    yield take_back, broken


def an_undo_removes_any_empty_directory() -> Swaps:
    """An undo removes a partition that was there before the job, and empty."""

    def broken(context, record):
        packs = PackReader(context.store, context.job)
        for ref in record.packs:
            for section in packs.sections(Pack(ref)):
                for dest in section.dests:
                    context.store.remove_empty_directory(dest)

    yield remove_new_directories, broken


def an_undo_leaves_what_a_job_has_made() -> Swaps:
    """After an undo a table has partitions that nobody has made."""
    yield remove_new_directories, lambda context, record: None
