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
"""To make a pack takes about so many requests: a process that waits for one looks first after that."""
AGAIN = 3
"""If it is not there, it looks again after the time of so many requests."""
LOOKS = 2
"""A process looks so many times more than the one before it in the order; then it makes the pack."""
LAST = 8
"""A process that comes later in the order looks as often as this one, and then puts its entry alone."""
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
        # The name of the file is the version after the last known entry: if others were faster, a file
        # of that name is there, and the store refuses this one (put if absent).
        version = self._since + len(known) + 1
        draft, there = self._own_draft(entry, version - 1), None
        # The draft is written before anybody is looked for: whoever looks later finds it, so of two
        # processes at least one sees the other, and a wait is for somebody who knows this entry.
        if self._is_beaten and is_packable(entry):
            draft.write([entry])
            there = self._put_beside_others(entry, known, version)
        if there is None:
            there = draft.put_entries(version, [entry])
        # Another call means that somebody was faster.
        self._is_beaten = True
        return list(enumerate(there, version))

    def _own_draft(self, entry: LogEntry, last: int) -> Draft:
        if self._draft is None:
            key = key_of(entry)

            def new_name() -> str:
                return self._table.draft(DraftName(last, key, new_nonce()))

            self._draft = Draft(self._store, self._table, new_name if is_packable(entry) else None)
        return self._draft

    def _put_beside_others(
        self, entry: LogEntry, known: Versions, version: int
    ) -> list[LogEntry] | None:
        """Make a pack, or wait for another process to make it; None if the entry must be put alone.

        A process that was slow can be many files behind. It does not wait before it looks for the next
        one: otherwise it may never come to the end of a log that grows.
        """
        look_at_next = partial(read_file, self._store, self._table, version)
        # The next file may be there already: one look costs less than a listing, and keeps up with a log
        # that grows.
        if self._is_behind and (there := self._timed(look_at_next)) is not None:
            return there
        self._is_behind = False
        rivals, rank = self._others(known, version)
        if rank == 0:  # as far as the last listing shows
            self._listed = self._timed(self._list)
            rivals, rank = self._others(known, version)
        if not rivals:
            return None
        # The wait is measured in requests of this process, since stores answer at very different speeds.
        # Each rank waits for the ranks before it, so that one of them makes the pack.
        for look in range(LOOKS * min(rank, LAST)):
            requests = AGAIN if look else PACKED
            self._sleep(min(requests * self._seconds / self._requests, waiting.OTHERS.longest))
            if (there := self._timed(look_at_next)) is not None:
                # Found at the first look: the file was there before this process came, so it lags behind
                # the others.
                self._is_behind = look == 0
                return there
        return self._put_pack(entry, rivals, known, version) if rank <= LAST else None

    def _put_pack(
        self, entry: LogEntry, rivals: Sequence[DraftName], known: Versions, version: int
    ) -> list[LogEntry] | None:
        # Only drafts whose owner knows every entry up to `since` can be judged here: the entries before
        # it are not in memory.
        first = [name for name in rivals if name.seen >= self._since][: MOST_ENTRIES - 1]
        # A draft is never changed under its name, so each is read once.
        new = [name for name in first if name not in self._read]
        self._read.update(zip(new, at_once(self._store, self._read_draft, new), strict=True))
        drafts = [(name.seen, read) for name in first if (read := self._read[name]) is not None]
        pack = pack_of(entry, drafts, self._since, known, version)
        # Nobody else's entry can be in the pack, and the own entry alone needs no second draft.
        if len(pack) == 1:
            return None
        # In a draft of its own: the other one holds this entry alone, and others may be reading it.
        with Draft(self._store, self._table) as draft:
            there = draft.put_entries(version, pack)
        # Another process has put a file there, so it is ahead of this one.
        self._is_behind = there != pack
        return there

    def _list(self) -> list[DraftName]:
        """The drafts that are there, in order, without those that are much older than the own one."""
        try:
            listed = self._store.list_anew(self._table.temporaries)
        except FileNotFoundError:
            return []
        statuses = {name: status for status in listed if (name := draft_of(status.name)) is not None}
        mine = next((status for name, status in statuses.items() if self._is_own(name)), None)
        # Times of the same store are compared with each other, never with this machine's clock.
        newest = (mine.modified_milliseconds or 0) if mine is not None else 0
        return sorted(
            name
            for name, status in statuses.items()
            if newest - (status.modified_milliseconds or newest) <= OLD_MILLISECONDS
        )

    def _others(self, known: Versions, version: int) -> tuple[list[DraftName], int]:
        """The drafts of others that may not be in the log yet, and how many come before the own one."""
        # A draft whose claim is in the log already, or whose owner judged it by an older end than the
        # log allows (OLDEST), would be refused by the pack: it is not waited for.
        last = {key_of(entry_known): at for at, entry_known in known}
        rivals = [
            name
            for name in self._listed
            if version - 1 - OLDEST <= max(name.seen, last.get(name.key, 0)) == name.seen < version
            and not self._is_own(name)
        ]
        mine = draft_of(self._draft.name if self._draft is not None else "")
        return rivals, sum(mine is not None and name < mine for name in rivals)

    def _is_own(self, name: DraftName) -> bool:
        return self._draft is not None and self._draft.name == str(name)

    def _read_draft(self, draft: DraftName) -> LogEntry | None:
        """Read a draft; None if it is gone or damaged: its owner deletes it, or is writing it."""
        path = join(self._table.temporaries, str(draft))
        try:
            entries = decode_entries(self._store.read(path), path)
        except (OSError, TableLogError, TableFormatError):
            return None
        return entries[0] if len(entries) == 1 else None

    def _timed(self, request: Callable[[], _Result]) -> _Result:
        """Make a request, and note how long it takes."""
        begun = time.monotonic()
        try:
            return request()
        finally:
            self._requests += 1
            self._seconds += time.monotonic() - begun
