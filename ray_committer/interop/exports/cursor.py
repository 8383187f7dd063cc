"""The cursor of an export: the last version of the table that was exported, and to what.

It decides nothing that the Delta table can decide itself. It can be lost, or be behind: then more is
read, and nothing is exported twice.
"""

from __future__ import annotations

import msgspec

from ray_committer.errors import TableLogError
from ray_committer.places.settle import put
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_entry import decode_content, encode_content
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations


class Cursor(msgspec.Struct, frozen=True, kw_only=True, tag="export"):
    """How far an export of the table `table_id` has come.

    version: the last version of the table that was exported.
    target: the id of the Delta table: another one at the same place has another id.
    target_version: the version of the Delta table afterwards.
    """

    table_id: str
    version: int
    target: str
    target_version: int


def read_cursor(store: StoreOperations, table: TablePlaces) -> Cursor | None:
    """Read the cursor of a table's export; None if there is none that can be read."""
    path = table.delta_cursor
    try:
        return decode_content(store.read(path), _DECODER, path)
    except (FileNotFoundError, TableLogError):
        return None


def save_cursor(store: StoreOperations, table: TablePlaces, cursor: Cursor) -> None:
    """Replace the cursor of a table's export in one step; idempotent."""
    temporary = table.temporary(new_nonce())
    put(store, table.delta_cursor, encode_content(cursor), temporary=temporary)


_DECODER = msgspec.json.Decoder(Cursor)
