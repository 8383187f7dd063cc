"""Put an entry into a table's log while other processes put theirs.

The first attempt is the entry alone. A process that was beaten looks for the drafts of others. The one
whose draft has the first name puts their entries into the log together with its own, as a pack. The
others wait a moment, and read the next file. If that does not come, the next one in the order makes the
pack. So the order only saves requests: whoever puts a pack has judged each entry in it (see
`protocol.table_pack`), and a file never replaces another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from ray_committer.errors import TableFormatError, TableLogError
from ray_committer.limits import waiting
from ray_committer.limits.waiting import Sleep
from ray_committer.protocol.paths import join
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_entry import LogEntry, decode_entries
from ray_committer.protocol.table_pack import (
    MOST_ENTRIES,
    OLDEST,
    Versions,
    is_packable,
    key_of,
    pack_of,
)
from ray_committer.protocol.table_paths import DraftName, TablePlaces, draft_of
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import StoreOperations
from ray_committer.tables.log import Entries, read_file
from ray_committer.tables.put import Draft

PACKED = 6
"""A pack takes about so many requests one after the other: who waits for it looks then first."""
AGAIN = 3
"""And again after so many more."""
LOOKS = 2
"""So many looks after those of the one before it in the order, a process makes the pack itself."""
LAST = 8
"""Who comes later in the order than that puts its entry alone, after as many looks."""
OLD_MILLISECONDS = 60_000
"""A draft that is older than the own one by so much is passed over: its owner is probably dead."""

_Result = TypeVar("_Result")


class Entrant:
    """A process on its way to put one entry after those that it knows, which are all after the version
    `since`. Use it in a ``with`` block, which deletes the draft.

    `is_beaten` tells that others have put entries just now, so that it looks for their drafts first.
    """

    def __init__(
        self,
        store: StoreOperations,
        table: TablePlaces,
        since: int,
        *,
        is_beaten: bool = False,
        sleep: Sleep = waiting.sleep,
    ) -> None:
        self._store, self._table, self._since, self._sleep = store, table, since, sleep
        self._draft: Draft | None = None
        self._is_beaten, self._is_behind = is_beaten, False
        self._listed: list[DraftName] = []
        self._read: dict[DraftName, LogEntry | None] = {}
        self._requests, self._seconds = 0, 0.0

    def __enter__(self) -> Entrant:
        return self

    def __exit__(self, *_: object) -> None:
        if self._draft is not None:
            self._draft.__exit__()

    def put(self, entry: LogEntry, known: Versions) -> Entries:
        """Put the entry after the known ones, alone or in a pack, unless a file is there; the entries
        that are there then. The caller has judged the entry by all known ones, up to the end of a file.
        """
        version = self._since + len(known) + 1
        draft, there = self._own_draft(entry, version - 1), None
        if self._is_beaten and is_packable(entry):
            draft.write([entry])
            there = self._put_beside_others(entry, known, version)
        if there is None:
            there = draft.put_entries(version, [entry])
        self._is_beaten = True
        return list(enumerate(there, version))

    def _own_draft(self, entry: LogEntry, seen: int) -> Draft:
        if self._draft is None:
            key = key_of(entry)

            def new_name() -> str:
                return self._table.draft(DraftName(seen, key, new_nonce()))

            self._draft = Draft(self._store, self._table, new_name if is_packable(entry) else None)
        return self._draft

    def _put_beside_others(
        self, entry: LogEntry, known: Versions, version: int
    ) -> list[LogEntry] | None:
        """Make a pack, or wait for that of another process; None if the entry must be put alone.

        A process that was slow can be many files behind. It does not wait before it looks for the next
        one: otherwise it may never come to the end of a log that grows.
        """
        if self._is_behind and (there := self._timed(partial(self._look, version))) is not None:
            return there
        self._is_behind = False
        others, rank = self._others(known, version)
        if rank == 0:  # as far as the last listing shows
            self._listed = self._timed(self._list)
            others, rank = self._others(known, version)
        if not others:
            return None
        for look in range(LOOKS * min(rank, LAST)):
            requests = AGAIN if look else PACKED
            self._sleep(min(requests * self._seconds / self._requests, waiting.OTHERS.longest))
            if (there := self._timed(partial(self._look, version))) is not None:
                self._is_behind = look == 0
                return there
        return self._put_pack(entry, others, known, version) if rank <= LAST else None

    def _put_pack(
        self, entry: LogEntry, others: Sequence[DraftName], known: Versions, version: int
    ) -> list[LogEntry] | None:
        first = [one for one in others if one.seen >= self._since][: MOST_ENTRIES - 1]
        new = [one for one in first if one not in self._read]
        self._read.update(zip(new, at_once(self._store, self._read_draft, new), strict=True))
        drafts = [(one.seen, found) for one in first if (found := self._read[one]) is not None]
        pack = pack_of(entry, drafts, self._since, known, version)
        if len(pack) == 1:
            return None
        with Draft(self._store, self._table) as draft:
            there = draft.put_entries(version, pack)
        self._is_behind = there != pack
        return there

    def _look(self, version: int) -> list[LogEntry] | None:
        return read_file(self._store, self._table, version)

    def _list(self) -> list[DraftName]:
        """The drafts that are there, in their order, without those that are much older than the own."""
        try:
            listed = self._store.list_anew(self._table.temporaries)
        except FileNotFoundError:
            return []
        found = {one: status for status in listed if (one := draft_of(status.name)) is not None}
        own = next((status for one, status in found.items() if self._is_own(one)), None)
        newest = (own.modified_milliseconds or 0) if own is not None else 0
        return sorted(
            one
            for one, status in found.items()
            if newest - (status.modified_milliseconds or newest) <= OLD_MILLISECONDS
        )

    def _others(self, known: Versions, version: int) -> tuple[list[DraftName], int]:
        """The drafts of others that may not be in the log yet, and how many come before the own one."""
        last = {key_of(one): at for at, one in known}
        others = [
            one
            for one in self._listed
            if version - 1 - OLDEST <= max(one.seen, last.get(one.key, 0)) == one.seen < version
            and not self._is_own(one)
        ]
        own = draft_of(self._draft.name if self._draft is not None else "")
        return others, sum(own is not None and one < own for one in others)

    def _is_own(self, one: DraftName) -> bool:
        return self._draft is not None and self._draft.name == str(one)

    def _read_draft(self, draft: DraftName) -> LogEntry | None:
        """Read a draft; None if it is gone or damaged: its owner deletes it, or is writing it."""
        path = join(self._table.temporaries, str(draft))
        try:
            found = decode_entries(self._store.read(path), path)
        except (OSError, TableLogError, TableFormatError):
            return None
        return found[0] if len(found) == 1 else None

    def _timed(self, request: Callable[[], _Result]) -> _Result:
        """Make a request, and note how long it takes."""
        begun = time.monotonic()
        try:
            return request()
        finally:
            self._requests += 1
            self._seconds += time.monotonic() - begun
