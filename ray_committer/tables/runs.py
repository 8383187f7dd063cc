"""Read which run ids of a table are committed: from its last checkpoint, and the entries after it."""

from __future__ import annotations

from ray_committer.errors import TableLogError, mark
from ray_committer.protocol.paths import join
from ray_committer.protocol.table_checkpoint import Checkpoint
from ray_committer.protocol.table_entry import TableClaim
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_runs import CommittedRun, Runs, runs_after, unpack_runs
from ray_committer.protocol.table_state import follow
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import checkpoints
from ray_committer.tables.log import read_entries, read_entry


def read_run(
    store: StoreOperations, table: TablePlaces, table_id: str, run_id: str, until: int | None = None
) -> CommittedRun | None:
    """What was committed under a run id up to version `until`, or the head; also if it was undone."""
    base, runs = _newest(store, table, table_id, until)
    since, is_end = base.state.version, base.is_end
    entries = read_entries(store, table, since, until, is_end=is_end) if since != until else []
    return runs_after(runs, follow(base.state, entries)[1]).get(run_id)


def runs_of(store: StoreOperations, table: TablePlaces, checkpoint: Checkpoint) -> Runs:
    """The run ids that a checkpoint keeps; `TableLogError` if their list is missing or damaged."""
    if checkpoint.runs is None:
        return {}
    path = join(table.parts, checkpoint.runs.name)
    try:
        return unpack_runs(store.read(path), checkpoint.runs.digest, path)
    except FileNotFoundError as e:
        raise TableLogError(f"{mark(path)}: is missing, although a checkpoint names it") from e


def claim_of_run(store: StoreOperations, table: TablePlaces, run: CommittedRun) -> TableClaim:
    """The claim of the job that has done the work of a run id."""
    entry = read_entry(store, table, run.claim)
    if not isinstance(entry, TableClaim):
        raise TableLogError(f"{mark(table.entry(run.claim))}: is not the claim of run id {run.run_id}")
    return entry


def _newest(
    store: StoreOperations, table: TablePlaces, table_id: str, until: int | None
) -> tuple[Checkpoint, Runs]:
    """The newest checkpoint whose run ids can be read; an empty one if there is none."""
    for checkpoint in checkpoints(store, table, table_id, until):
        try:
            return checkpoint, runs_of(store, table, checkpoint)
        except TableLogError:
            continue
    return Checkpoint(table_id=table_id), {}
