"""The cursor of an export: one that cannot be read is none."""

from __future__ import annotations

from pathlib import Path

from ray_committer.interop.exports.delta import Cursor, read_cursor, save_cursor
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import MemoryStore
from tests.tables.support import TABLE, table_on


def test_a_cursor_is_replaced_and_read_again():
    store: StoreOperations = table_on(MemoryStore())
    assert read_cursor(store, TABLE) is None
    for version in (7, 9):
        cursor = Cursor(table_id="id", version=version, target="other", target_version=3)
        save_cursor(store, TABLE, cursor)
        assert read_cursor(store, TABLE) == cursor


def test_a_damaged_cursor_is_none(store, dest: Path):
    dest.mkdir()
    path = dest / "_ray_committer/delta.entry"
    path.parent.mkdir(parents=True)
    places = type(TABLE)(str(dest))
    for data in (b"", b"{", b'{"format":2,"sha256":"x","content":{}}', b'{"format":99}'):
        path.write_bytes(data)
        assert read_cursor(store, places) is None
