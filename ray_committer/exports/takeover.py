"""Turns: of several processes that replace the same files, the last one that began goes on alone.

Each has a directory with its plan and the files that it is going to move. It writes the plan, then it
looks for others. So of two processes at least one sees the other, and removes the other's directory: a
rename takes its source away, so what was not moved by then is never moved. What may have been moved is
in the plan, and is done again. A plan that a dead process has left is treated in the same way, so no
process needs to know whether another one is alive.
"""

from __future__ import annotations

import msgspec

from ray_committer.errors import TableLogError
from ray_committer.exports.beaten import BeatenError
from ray_committer.job_files.settle import put, settle
from ray_committer.protocol.paths import join
from ray_committer.protocol.state import new_nonce
from ray_committer.protocol.table_entry import decode_content, encode_content
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations, list_anew, move_directory

PLAN = "plan.entry"


class _Plan(msgspec.Struct, frozen=True, tag="turn"):
    """What a process is going to do again: all that has changed after the version `since`."""

    since: int


class Turn:
    """The turn of this process in an export with a name; `since` is the version that it starts from."""

    def __init__(self, store: StoreOperations, table: TablePlaces, name: str, since: int) -> None:
        self.since = since
        self._store, self._table = store, table
        self._all = join(table.exports, name)
        self._name = new_nonce()
        self._save()

    @property
    def _own(self) -> str:
        return join(self._all, self._name)

    def take_over(self) -> None:
        """Stop all others that began before; `since` is then the earliest version of all."""
        others = self._others()
        since = min([self.since, *map(self._since_of, others)])
        if since != self.since:
            self.since = since
            self._save()
        for other in others:
            self._remove(join(self._all, other))

    def write(self, number: int, data: bytes) -> None:
        """Write the file that is moved by its number later."""
        try:
            self._store.write(join(self._own, str(number)), data)
        except FileNotFoundError as e:
            raise BeatenError("another export has begun") from e

    def is_alone(self) -> bool:
        """Whether all that was written can be moved; `BeatenError` if another process has stopped this
        one. If not, others have begun: take over again, and write all anew."""
        others = self._others()
        if self._store.get_status(join(self._own, PLAN)) is None:  # after the others: one can have ended
            raise BeatenError("another export has begun")
        return not others

    def move(self, number: int, path: str) -> None:
        """Replace a file by the one with a number; `BeatenError` if another process has removed that."""
        source = join(self._own, str(number))
        try:
            settle(lambda: self._store.replace(source, path))
        except FileNotFoundError as e:
            raise BeatenError("another export has begun") from e

    def end(self) -> None:
        """Say that all was moved."""
        self._remove(self._own)

    def _remove(self, directory: str) -> None:
        """Remove the directory of a process that may still write to it: in one step, where that can be
        done."""
        if self._store.capabilities.moves_directories:
            aside = self._table.temporary(new_nonce())
            try:
                settle(lambda: move_directory(self._store, directory, aside))
            except FileNotFoundError:
                return
            directory = aside
        self._store.delete_directory(directory)

    def _save(self) -> None:
        if self._store.capabilities.has_directories:
            self._store.mkdirs(self._own)
        temporary = self._table.temporary(new_nonce())
        try:
            put(
                self._store,
                join(self._own, PLAN),
                encode_content(_Plan(self.since)),
                temporary=temporary,
            )
        except FileNotFoundError as e:
            raise BeatenError("another export has begun") from e

    def _others(self) -> list[str]:
        try:
            return [one.name for one in list_anew(self._store, self._all) if one.name != self._name]
        except FileNotFoundError:
            return []

    def _since_of(self, other: str) -> int:
        """Where another one has started; one without a plan has moved nothing."""
        path = join(self._all, other, PLAN)
        try:
            return decode_content(self._store.read(path), _DECODER, path).since
        except FileNotFoundError:
            return self.since
        except TableLogError:
            return 0


_DECODER = msgspec.json.Decoder(_Plan)
