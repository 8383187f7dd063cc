"""A store that passes every call to two hooks, which can count, delay, fail or kill; and such hooks.

If a hook raises before a call, the store does not get the call. If a hook raises after it, the store has
done the call, but the answer is lost. A simulated crash is a ``BaseException``, so that no ``except
Exception`` catches it.
"""

from __future__ import annotations

import errno
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ray_committer.errors import ThrottledError
from ray_committer.limits import waiting
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.stores.base import (
    FileStatus,
    StoredState,
    StoreOperations,
    UploadedParts,
    UploadPage,
    check_renames,
    completing,
    delete_listed,
    delete_version,
    denied_links,
    file_system,
    first_link,
    links_files,
    move_directory,
    network_file_system,
    real_path,
    revalidate,
    set_aside,
    sync,
    what_stays,
    writing_parts,
)
from ray_committer.testing.linking_store import BETWEEN


class SimulatedCrash(BaseException):
    """The process died here."""


@dataclass(frozen=True, slots=True)
class StoreCall:
    """One request: the name of the `StoreOperations` method and its paths.

    `number` counts the calls of one `WrappedStore` from 1; it does not matter for equality.
    """

    operation: str
    paths: tuple[str, ...]
    number: int = field(default=0, compare=False)


Hook = Callable[[StoreCall], None]


def _nothing(call: StoreCall) -> None:
    """Let the call pass."""


class WrappedStore:
    """`StoreOperations` that call `before` and `after` around each request to `store`.

    An exception of `before` replaces the request. An exception of `after` replaces the answer, even an
    error. `write_data` can change the data that is written, to tear a file.
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
        self._numbers = itertools.count(1)

    @contextmanager
    def _call(self, operation: str, *paths: str) -> Iterator[StoreCall]:
        call = StoreCall(operation, paths, next(self._numbers))
        self._before(call)
        try:
            yield call
        except OSError:
            self._after(call)
            raise
        self._after(call)

    @contextmanager
    def _in_two_steps(self) -> Iterator[None]:
        """Call the hooks also between the two steps of a rename, if the store makes two."""
        outer = BETWEEN.get()

        def between(source: str) -> None:
            outer(source)
            with self._call("unlink", source):
                pass

        token = BETWEEN.set(between)
        try:
            yield
        finally:
            BETWEEN.reset(token)

    def get_status(self, path: str) -> FileStatus | None:
        with self._call("get_status", path):
            return self._store.get_status(path)

    def list_status(self, path: str) -> list[FileStatus]:
        with self._call("list_status", path):
            return self._store.list_status(path)

    def list_files(self, path: str) -> list[FileStatus]:
        with self._call("list_files", path):
            return self._store.list_files(path)

    def read(self, path: str) -> bytes:
        with self._call("read", path):
            return self._store.read(path)

    def write(self, path: str, data: bytes) -> None:
        with self._call("write", path) as call:
            self._store.write(path, self._write_data(call, data))

    def mkdirs(self, path: str) -> None:
        with self._call("mkdirs", path):
            self._store.mkdirs(path)

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        with self._call("rename", source, dest), self._in_two_steps():
            self._store.rename(source, dest, version)

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        with self._call("replace", source, dest):
            self._store.replace(source, dest, version, old=old)

    def read_state(self, path: str) -> StoredState | None:
        with self._call("read_state", path):
            return self._store.read_state(path)

    def advance(self, path: str, seen: StoredState | None, text: str) -> StoredState:
        with self._call("advance", path, text):
            return self._store.advance(path, seen, text)

    def move_directory(self, source: str, dest: str) -> None:
        """Rename a directory with its whole content."""
        with self._call("move_directory", source, dest):
            move_directory(self._store, source, dest)

    def set_aside(self, path: str, place: str) -> None:
        """Rename a file out of the way."""
        with self._call("set_aside", path, place):
            set_aside(self._store, path, place)

    def publish(self, action: CompleteUpload, old: str | None = None) -> Answer:
        """Put a file in place."""
        with self._call("publish", action.dest):
            return completing(self._store).publish(action, old)

    def check_conditions(self, path: str) -> None:
        """Check that the server has conditions."""
        with self._call("check_conditions", path):
            completing(self._store).check_conditions(path)

    def create(self, path: str, data: bytes) -> None:
        """Write a file that must not be there."""
        with self._call("create", path):
            completing(self._store).create(path, data)

    def begin_file(self, path: str) -> str:
        """Begin a file, on a store that writes parts."""
        with self._call("begin_file", path):
            return writing_parts(self._store).begin_file(path)

    def append_part(self, path: str, file: str, start: int, data: bytes, *, is_last: bool) -> None:
        """Append a part of a file, on a store that writes parts."""
        with self._call("append_part", path):
            writing_parts(self._store).append_part(path, file, start, data, is_last=is_last)

    def begin_upload(self, path: str, stamp: str | None) -> str:
        """Begin an upload."""
        with self._call("begin_upload", path):
            return completing(self._store).begin_upload(path, stamp)

    def put_part(self, path: str, upload: str, number: int, data: bytes) -> str:
        """Upload a part."""
        with self._call("put_part", path):
            return completing(self._store).put_part(path, upload, number, data)

    def is_pending(self, path: str, upload: str) -> bool:
        """Whether an upload is pending."""
        with self._call("is_pending", path):
            return completing(self._store).is_pending(path, upload)

    def abort_upload(self, path: str, upload: str) -> None:
        """Abort an upload."""
        with self._call("abort_upload", path):
            completing(self._store).abort_upload(path, upload)

    def list_uploads(self, path: str, after: tuple[str, str] | None = None) -> UploadPage:
        """A page of the pending uploads below a directory."""
        with self._call("list_uploads", path):
            return completing(self._store).list_uploads(path, after)

    def uploaded_parts(self, path: str, upload: str) -> UploadedParts | None:
        """The parts of an upload."""
        with self._call("uploaded_parts", path):
            return completing(self._store).uploaded_parts(path, upload)

    def abort_days(self, path: str) -> int | None:
        """After how many days uploads are aborted."""
        with self._call("abort_days", path):
            return completing(self._store).abort_days(path)

    def list_prefix(self, path: str) -> list[FileStatus]:
        """The names that begin with a prefix."""
        with self._call("list_prefix", path):
            return completing(self._store).list_prefix(path)

    def list_exact(self, path: str) -> list[FileStatus]:
        """What is in a directory."""
        with self._call("list_exact", path):
            return completing(self._store).list_exact(path)

    def list_objects(self, path: str) -> list[FileStatus]:
        """The files below a directory, and the marks of directories."""
        with self._call("list_objects", path):
            return completing(self._store).list_objects(path)

    def delete_objects(self, listed: Sequence[FileStatus]) -> None:
        """Delete listed objects."""
        with self._call("delete_objects", *(one.path for one in listed)):
            completing(self._store).delete_objects(listed)

    def delete_file(self, path: str) -> bool:
        with self._call("delete_file", path):
            return self._store.delete_file(path)

    def delete_version(self, path: str, version: str | None) -> bool:
        """Delete a version of an object."""
        with self._call("delete_version", path):
            return delete_version(self._store, path, version)

    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        """Delete what a listing of some directories shows."""
        with self._call("delete_listed", *directories):
            return delete_listed(self._store, directories, holds)

    def delete_directory(self, path: str) -> bool:
        with self._call("delete_directory", path):
            return self._store.delete_directory(path)

    def remove_empty_directory(self, path: str) -> bool:
        with self._call("remove_empty_directory", path):
            return self._store.remove_empty_directory(path)

    def sync(self, path: str) -> None:
        """Force a file, or the names in a directory, to disk."""
        with self._call("sync", path):
            sync(self._store, path)

    def first_link(self, paths: Iterable[str]) -> str | None:
        """The first of `paths` that is a symbolic link; no request."""
        return first_link(self._store, paths)

    def real_path(self, path: str) -> str:
        """`path` with every symbolic link in it resolved; no request."""
        return real_path(self._store, path)

    def file_system(self, path: str) -> str:
        """Which file system `path` is on; no request."""
        return file_system(self._store, path)

    def check_renames(self, directory: str) -> None:
        """Try whether files can be renamed; the hooks are not called."""
        check_renames(self._store, directory)

    def what_stays(self, directory: str, files: Sequence[str], home: str) -> dict[str, str]:
        """What cannot be renamed to below `home`, and why; no request where the kernel answers."""
        if self.capabilities.renames_are_local:
            return what_stays(self._store, directory, files, home)
        with self._call("what_stays", directory):
            return what_stays(self._store, directory, files, home)

    def links_files(self, directory: str) -> bool:
        """Whether files are renamed by a link and an unlink; no request."""
        return links_files(self._store, directory)

    def denied_links(self, paths: Sequence[str]) -> list[str]:
        """The files among `paths` that this process has no permission to link; no request."""
        return denied_links(self._store, paths)

    def network_file_system(self, path: str) -> str | None:
        """The type of the network file system that `path` is on; no request."""
        return network_file_system(self._store, path)

    def revalidate(self, path: str) -> None:
        """Let the next listing of a directory show what other machines have done."""
        with self._call("revalidate", path):
            revalidate(self._store, path)


def together(*hooks: Hook) -> Hook:
    """Call each hook in turn, until one raises."""

    def hook(call: StoreCall) -> None:
        for each in hooks:
            each(call)

    return hook


def crash_at(number: int) -> Hook:
    """Die at call `number`."""

    def hook(call: StoreCall) -> None:
        if call.number == number:
            raise SimulatedCrash(call)

    return hook


def fail_at(number: int, error: type[OSError] = TimeoutError) -> Hook:
    """Fail call `number`: as `before` hook, the store does nothing; as `after`, the answer is lost."""

    def hook(call: StoreCall) -> None:
        if call.number == number:
            raise failure(error, call)

    return hook


def throttle(first: int, calls: int, *, retry_after_seconds: float | None = None) -> Hook:
    """Refuse, as `before` hook, `calls` calls in a row, the first with number `first`."""

    def hook(call: StoreCall) -> None:
        if first <= call.number < first + calls:
            raise ThrottledError(call.paths[0], retry_after_seconds)

    return hook


def throttle_above(requests_a_second: int, *, clock: Callable[[], float] = time.monotonic) -> Hook:
    """Refuse, as `before` hook, more than `requests_a_second` in any second, with the time to wait.

    Refused requests do not count.
    """
    served: deque[float] = deque(maxlen=requests_a_second)

    def hook(call: StoreCall) -> None:
        now = clock()
        if len(served) == requests_a_second and now - served[0] < 1:
            raise ThrottledError(call.paths[0], served[0] + 1 - now)
        served.append(now)

    return hook


def delay_at(number: int, seconds: float, *, sleep: waiting.Sleep = waiting.sleep) -> Hook:
    """Hold call `number`, or its answer, for `seconds`."""

    def hook(call: StoreCall) -> None:
        if call.number == number:
            sleep(seconds)

    return hook


def failure(error: type[OSError], call: StoreCall) -> OSError:
    """The error of a request that failed on its way to the store, as a store's client raises it."""
    return error(errno.EIO, f"simulated failure of {call.operation}", call.paths[0])
