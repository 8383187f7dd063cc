"""The log of a Delta table as other programs see it: which of its versions this package has not written.

Only versions after the cursor are read, each in one request, so usually none.
"""

from __future__ import annotations

import msgspec

from ray_committer.errors import ExportError, mark
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations


class _Present(msgspec.Struct, frozen=True):
    """An object of which only the presence counts."""


class _Transaction(msgspec.Struct, frozen=True, rename="camel"):
    app_id: str


class _Action(msgspec.Struct, frozen=True):
    """One line of a version; only what this module needs."""

    add: _Present | None = None
    remove: _Present | None = None
    txn: _Transaction | None = None


def refuse_others(
    store: StoreOperations, table: TablePlaces, app_id: str, since: int, until: int
) -> None:
    """`ExportError` if another program has added or removed files in a version after `since`.

    A version whose file is gone is passed over: Delta deletes old ones after a checkpoint.
    """
    for version in range(since + 1, until + 1):
        path = table.delta_version(version)
        try:
            actions = _DECODER.decode_lines(store.read(path))
        except FileNotFoundError:
            continue
        except msgspec.MsgspecError as e:
            raise ExportError(
                f"{mark(path)}: is not a version of a Delta table that can be read ({e})",
                "the table itself is as it was: restore that file, or remove the directory it is in and "
                "run the same command, which exports all files anew",
            ) from e
        changes = any(action.add is not None or action.remove is not None for action in actions)
        is_own = any(action.txn is not None and action.txn.app_id == app_id for action in actions)
        if changes and not is_own:
            raise ExportError(
                f"{mark(path)}: another program has changed the files of this Delta table",
                "the table itself is as it was: write only to the table, never to its export; to export "
                "all files anew, remove the directory that this file is in and run the same command",
            )


_DECODER = msgspec.json.Decoder(_Action)
