"""Remove orphans: files of claims that were given up, which no other entry of a table's log names.

They are removed as a job would remove old files: a claim of its own excludes other jobs, its commit
names the files, and ``done`` says that they are gone. So a file of a job that was set up meanwhile is
never taken for an orphan, and another run finishes what this one leaves.
"""

from __future__ import annotations

from collections.abc import Sequence

from ray_committer.errors import TableClaimError, mark
from ray_committer.protocol.claims import fold_partitions
from ray_committer.protocol.file_list import ListedFile, partition_of
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_entry import TableAbort, TableClaim, TableCommit, WriteMode
from ray_committer.table_jobs.decide_claim import Repair, finish_removal, give_up
from ray_committer.table_jobs.remove_listed_files import Removal
from ray_committer.table_jobs.table_files import find_listed
from ray_committer.tables import checkpoint
from ray_committer.tables.append import decide
from ray_committer.tables.claim import claim_partitions
from ray_committer.tables.file_sets import save_file_set
from ray_committer.tables.release import job_of

REMOVAL = "remove-orphans-"
IMPORT = "import-files-"


def remove_orphans(repair: Repair, candidates: Sequence[ListedFile]) -> Removal:
    """Remove the `candidates`, files of claims that were given up, that are there with proof;
    idempotent.

    A file that is named by a claim that counts is left alone. `CommitConflictError` if another job is at
    work where they are.
    """
    store, table, definition = repair.store, repair.table, repair.definition
    end_interrupted(repair)
    present = [
        finding for finding in find_listed(store, table, candidates) if finding.status is not None
    ]
    if not present:
        return Removal()
    claim = TableClaim(
        job_id=REMOVAL + new_nonce(),
        job_attempt=0,
        nonce=new_nonce(),
        mode=WriteMode.OVERWRITE,
        partitions=fold_partitions(partition_of(finding.file.path) for finding in present),
        replaces=[],
        at_milliseconds=repair.now_milliseconds,
    )
    pending = claim_partitions(store, table, definition, claim, repair.waiting)
    # Read under the claim: a job that was committed meanwhile may have written a file of that name.
    _, files = checkpoint.read_files(store, table, definition.table_id)
    orphans = [
        finding.file
        for finding in present
        if finding.file.path not in files.get(partition_of(finding.file.path), {})
    ]
    # Looked at again under the claim, for the same reason.
    still = list(find_listed(store, table, orphans))
    proved = [finding.file for finding in still if finding.is_proved]
    kept = tuple(
        str(finding) for finding in still if finding.status is not None and not finding.is_proved
    )
    if not proved:
        give_up(repair, pending, "nothing was left to remove")
        return Removal(0, kept)
    removed = save_file_set(store, table, proved, job_id=claim.job_id, job_attempt=0)
    version = commit_claim(repair, repair.entry(TableCommit, pending, removed=removed))
    removal = finish_removal(repair, pending, version)
    return Removal(removal.removed, (*kept, *removal.kept))


def end_interrupted(repair: Repair) -> None:
    """End what earlier runs have left: a removal is finished, an import without a commit is given up."""
    store, table = repair.store, repair.table
    for pending in checkpoint.read_state(store, table, repair.definition.table_id).in_flight:
        if not pending.claim.job_id.startswith((REMOVAL, IMPORT)) or job_of(store, table, pending.claim):
            continue
        committed = pending.committed
        if committed is None:
            version, decision = give_up(repair, pending, "it was interrupted")
            committed = version if isinstance(decision, TableCommit) else None
        if committed is not None:
            finish_removal(repair, pending, committed)


def commit_claim(repair: Repair, commit: TableCommit) -> int:
    """Put a commit; its version. `TableClaimError` if another run has given up the claim."""
    version, decision = decide(repair.store, repair.table, commit)
    if isinstance(decision, TableAbort):
        raise TableClaimError(
            f"{mark(repair.table.entry(version))}: another run of this command has given up the claim "
            "of this one",
            "nothing was changed by this run: run the same command again",
        )
    return version
