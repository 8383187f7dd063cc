"""A store that shows every call to two hooks, which may count, delay, fail or kill.

A simulated crash is a ``BaseException``, so no ``except Exception`` survives its own death.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ray_committer.stores.base import FileStatus, StoreOperations


class SimulatedCrash(BaseException):
    """The process died here."""


@dataclass(frozen=True, slots=True)
class StoreCall:
    """One request: the name of the `StoreOperations` method and its paths."""

    operation: str
    paths: tuple[str, ...]


Hook = Callable[[StoreCall], None]


def _nothing(call: StoreCall) -> None:
    """Let the call pass."""


class WrappedStore:
    """`StoreOperations` that call `before` and `after` around each request to `store`.

    What `before` raises replaces the request, what `after` raises replaces its answer, an error
    included. `write_data` may change what is written, to tear a file.
    """

    def __init__(
        self,
        store: StoreOperations,
        *,
        before: Hook = _nothing,
        after: Hook = _nothing,
        write_data: Callable[[StoreCall, bytes], bytes] = lambda _, data: data,
    ) -> None:
        self.spec = store.spec
        self.capabilities = store.capabilities
        self._store = store
        self._before = before
        self._after = after
        self._write_data = write_data

    @contextmanager
    def _call(self, operation: str, *paths: str) -> Iterator[StoreCall]:
        call = StoreCall(operation, paths)
        self._before(call)
        try:
            yield call
        except OSError:
            self._after(call)
            raise
        self._after(call)

    def get_status(self, path: str) -> FileStatus | None:
        with self._call("get_status", path):
            return self._store.get_status(path)

    def list_status(self, path: str) -> list[FileStatus]:
        with self._call("list_status", path):
            return self._store.list_status(path)

    def read(self, path: str) -> bytes:
        with self._call("read", path):
            return self._store.read(path)

    def write(self, path: str, data: bytes) -> None:
        with self._call("write", path) as call:
            self._store.write(path, self._write_data(call, data))

    def mkdirs(self, path: str) -> None:
        with self._call("mkdirs", path):
            self._store.mkdirs(path)

    def rename(self, source: str, dest: str) -> None:
        with self._call("rename", source, dest):
            self._store.rename(source, dest)

    def replace(self, source: str, dest: str) -> None:
        with self._call("replace", source, dest):
            self._store.replace(source, dest)

    def delete_file(self, path: str) -> bool:
        with self._call("delete_file", path):
            return self._store.delete_file(path)

    def delete_directory(self, path: str) -> bool:
        with self._call("delete_directory", path):
            return self._store.delete_directory(path)

    def remove_empty_directory(self, path: str) -> bool:
        with self._call("remove_empty_directory", path):
            return self._store.remove_empty_directory(path)
