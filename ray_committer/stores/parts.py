"""Files that are sent in parts while they are written: the data of tasks on object stores.

The parts go through the store's own client: with the same address, credentials, certificates, permits
and retries as the commit, and under exactly the name that the commit looks for.
"""

from __future__ import annotations

import io
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ray_committer.stores.base import StoreOperations

PART_BYTES = 8 << 20
LARGEST_PART_BYTES = 64 << 20
PARTS_OF_ONE_SIZE = 1_000
"""After so many parts they get twice as large, so that 10,000 are enough for 500 gigabytes."""


def part_bytes(parts: int) -> int:
    """The size of a file's next part after some `parts`: it grows, because their number is limited."""
    return min(PART_BYTES << (parts // PARTS_OF_ONE_SIZE), LARGEST_PART_BYTES)


class PartedFile(io.BufferedIOBase):
    """One file that is written in parts by other threads; a failed one is raised by a later call. The
    last part is sent when the file is closed, and is not empty unless the file is."""

    def __init__(self, store: StoreOperations, path: str) -> None:
        self._store, self.path = store, path
        self._waiting = bytearray()
        self._written = 0
        self._parts: list[Future[Any]] = []
        self._pool: ThreadPoolExecutor | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written + len(self._waiting)

    def write(self, data: Any, /) -> int:
        if self.closed:
            raise ValueError("the file is closed")
        self._waiting += data
        while len(self._waiting) > (size := part_bytes(len(self._parts))):
            self._put(size)
        return memoryview(data).nbytes

    def close(self) -> None:
        """Send the rest; an error leaves the file incomplete."""
        if self.closed:
            return
        try:
            self._finish()
        finally:
            self._end()

    def _end(self) -> None:
        """Close the file without the rest, which otherwise the garbage collector would send."""
        self._waiting = bytearray()
        super().close()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _put(self, size: int) -> None:
        """Send the next part, on another thread."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Send what is left, and wait until all parts have arrived."""
        raise NotImplementedError

    def _take(self, size: int) -> bytes:
        """Return the next part, which then no longer waits."""
        data = bytes(self._waiting[:size])
        del self._waiting[:size]
        self._written += len(data)
        return data


class AppendedFile(PartedFile):
    """A file at its own path on a store that writes parts; one part is under way at a time."""

    def __init__(self, store: StoreOperations, path: str) -> None:
        super().__init__(store, path)
        self._file: str | None = None

    def _put(self, size: int, *, is_last: bool = False) -> None:
        if self._parts:
            self._parts[-1].result()
        if self._file is None:
            self._file = self._store.begin_file(self.path)
        self._pool = self._pool or ThreadPoolExecutor(1)
        start, data = self._written, self._take(size)
        append = self._store.append_part
        self._parts.append(
            self._pool.submit(append, self.path, self._file, start, data, is_last=is_last)
        )

    def _finish(self) -> None:
        if not self._parts:
            self._store.write(self.path, self._take(len(self._waiting)))
            return
        self._put(len(self._waiting), is_last=True)
        self._parts[-1].result()
