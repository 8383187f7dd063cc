"""Save a checkpoint of a table: only the parts that commits have changed are read and written.

One that cannot be saved is a notice, because a later commit saves the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import chain, islice

from ray_committer.errors import RayCommitterError, TableLogError, mark, why
from ray_committer.places.choose import needed, own_files_of
from ray_committer.protocol.paths import join
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_checkpoint import Between, Changes, Checkpoint, Part, merge_parts
from ray_committer.protocol.table_entry import encode_content
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_runs import pack_runs, runs_after
from ray_committer.protocol.table_state import ClaimCommitted, follow
from ray_committer.stores.at_once import THREADS, at_once
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.checkpoint import (
    changes_of,
    checkpoints,
    files_named,
    is_due,
    listed,
    read_part,
)
from ray_committer.tables.file_sets import each_file
from ray_committer.tables.log import read_entries
from ray_committer.tables.runs import runs_of

MOST_CHANGES = 1_000_000
"""If more files were added or removed, they are taken in several shares, to limit the memory."""
SAMPLED = 1_000
"""One of so many paths is looked at to cut the shares."""


def save_checkpoint(
    store: StoreOperations,
    table: TablePlaces,
    table_id: str,
    until: int | None = None,
    *,
    only_if_due: bool = False,
) -> str | None:
    """Save a checkpoint at version `until`, or at the head; idempotent. A notice if that fails.

    It takes memory for the files that were added or removed since the last checkpoint, up to about
    `MOST_CHANGES` of them.
    """
    try:
        _save(store, table, table_id, until, only_if_due=only_if_due)
    except (OSError, RayCommitterError) as e:
        failed = f"{mark(table.checkpoints)}: the checkpoint was not saved ({why(e)})"
        return f"{failed}; a later commit saves one"
    return None


def _save(
    store: StoreOperations, table: TablePlaces, table_id: str, until: int | None, *, only_if_due: bool
) -> None:
    saved = {status.name: status.size for status in listed(store, table.parts)}
    for base in chain(checkpoints(store, table, table_id, until), [Checkpoint(table_id=table_id)]):
        if any(saved.get(part.name) != part.length for part in base.lists):
            continue  # a part is gone, or was cut off by a crash
        entries = read_entries(
            store, table, base.state.version, until, by_threads=True, is_end=base.is_end
        )
        # Half of what is due: of several commits that noticed it at once, the first one saves.
        if only_if_due and not is_due(2 * len(entries), 2 * files_named(entries)):
            return  # another commit has saved one just now
        state, commits = follow(base.state, entries)
        parts: list[Part] | None = base.parts
        for share in shares(store, table, commits):
            if parts is not None:
                changes = changes_of(store, table, commits, share)
                parts = _save_parts(store, table, parts, changes, saved)
        runs = _save_runs(store, table, base, commits, saved) if parts is not None else None
        if parts is not None:
            content = encode_content(
                Checkpoint(table_id=table_id, state=state, parts=parts, runs=runs, is_end=until is None)
            )
            # Last, after all parts: a checkpoint that can be read names parts that are there.
            path = table.checkpoint(state.version)
            own_files_of(store).put(path, content, temporary=table.temporary(new_nonce()))
            return


def shares(
    store: StoreOperations, table: TablePlaces, commits: Sequence[ClaimCommitted]
) -> list[Between]:
    """Ranges of paths with about `MOST_CHANGES` changes each; all paths if there are fewer."""
    number = -(
        -sum(commit.claim.files.files + commit.removed.files for commit in commits) // MOST_CHANGES
    )
    if number <= 1:
        return [Between()]
    paths = (
        file.path
        for commit in commits
        for files in (commit.removed, commit.claim.files)
        for file in each_file(
            store, table, files, job_id=commit.claim.job_id, job_attempt=commit.claim.job_attempt
        )
    )
    # Every thousandth path, in the order of the commits and not of the paths: good enough to cut equal
    # shares.
    sample = sorted(islice(paths, 0, None, SAMPLED))
    cuts = [sample[len(sample) * share // number] for share in range(1, number)]
    return [Between(*ends) for ends in zip(["", *cuts], [*cuts, None], strict=True)]


def _save_parts(
    store: StoreOperations,
    table: TablePlaces,
    old: list[Part],
    changes: Changes,
    saved: Mapping[str, int],
) -> list[Part] | None:
    """Save the parts that are not there yet, a few at a time; None if an old one cannot be read."""
    for directory in needed(store, (table.parts,)):
        store.mkdirs(directory)

    def save(new: tuple[Part, bytes]) -> None:
        _save_part(store, table, *new)

    parts: list[Part] = []
    merged = merge_parts(old, changes, partial(read_part, store, table))
    try:
        while some := list(islice(merged, THREADS)):
            parts += [part for part, _ in some]
            # By length, too: a part of the same name that was cut off by a crash is written again.
            is_new = ((part, data) for part, data in some if saved.get(part.name) != part.length)
            at_once(store, save, [(part, data) for part, data in is_new if data is not None])
    except TableLogError:
        return None
    return parts


def _save_runs(
    store: StoreOperations,
    table: TablePlaces,
    base: Checkpoint,
    commits: Sequence[ClaimCommitted],
    saved: Mapping[str, int],
) -> Part | None:
    """Save the run ids after some commits, unless these have changed none; None if there are none."""
    if all(commit.claim.run_id is None for commit in commits):
        return base.runs
    runs = runs_after(runs_of(store, table, base), commits)
    data = pack_runs(runs)
    part = Part(sha256(data).hexdigest(), len(data), len(runs), 0, "")
    if saved.get(part.name) != part.length:
        _save_part(store, table, part, data)
    return part


def _save_part(store: StoreOperations, table: TablePlaces, part: Part, data: bytes) -> None:
    path = join(table.parts, part.name)
    own_files_of(store).put_named(path, data, temporary=table.temporary(new_nonce()))
