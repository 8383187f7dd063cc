"""A store as a commit uses it: each request needs a permit, is timed, and waits when throttled.

The only retry layer. A store that throttles did nothing, so the same request is made again with the next
permit. A request without an answer is repeated after a pause if doing it twice is harmless. If a rename
got no answer, the caller decides whether it took place.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from ray_committer.errors import StoreUnavailableError, ThrottledError
from ray_committer.limits import waiting
from ray_committer.limits.permits import Permits
from ray_committer.limits.ratelimit import Clock
from ray_committer.limits.waiting import RETRY_SECONDS, Sleep
from ray_committer.protocol.actions import Answer, CompleteUpload
from ray_committer.protocol.iostatistics import Durations, IOStatistics, aggregate, count
from ray_committer.protocol.statistic_names import STORE_IO_RETRY, STORE_IO_THROTTLED
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

P = ParamSpec("P")
T = TypeVar("T")
OnThrottled = Callable[[int, float | None], None]
"""Waits after a number of refusals of one request; also gets the wait that the store asks for."""

ATTEMPTS = 8
"""How often a request without permits is made."""
STATE_SECONDS = 1.0
"""The time between two writes of one object on Google's store, by its documentation."""


class GuardedStore:
    """`StoreOperations` that take a permit for each request to `store`.

    `ThrottledError` or `StoreUnavailableError` after one request has failed for `retry_seconds`;
    `LeaseLostError`, with nothing requested, if there are no more permits.
    """

    def __init__(
        self,
        store: StoreOperations,
        permits: Permits,
        *,
        retry_seconds: float = 300.0,
        clock: Clock = time.monotonic,
        sleep: Sleep = waiting.sleep,
    ) -> None:
        self.spec = store.spec
        self.capabilities = store.capabilities
        self._store = store
        self._permits = permits
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._sleep = sleep
        self._noted: deque[tuple[str, float, bool]] = deque()  # used by all threads, without a lock
        self._again: deque[str] = deque()  # why requests were made again; likewise

    def take_statistics(self) -> IOStatistics:
        """Return the requests since the last call, under Hadoop's names, and forget them."""
        noted: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
        with suppress(IndexError):  # several threads can call this: each request goes to one of them
            while True:
                name, seconds, failed = self._noted.popleft()
                noted[name, failed].append(seconds)
        durations = Durations()
        for (name, failed), all_seconds in noted.items():
            durations.add(name, all_seconds, failed=failed)
        found = durations.statistics()
        return aggregate(found, self._take_again()) if self._again else found

    def get_status(self, path: str) -> FileStatus | None:
        return self._call("op_get_file_status", self._store.get_status, path)

    def list_status(self, path: str) -> list[FileStatus]:
        return self._call("op_list_status", self._store.list_status, path)

    def list_files(self, path: str) -> list[FileStatus]:
        return self._call("op_list_files", self._store.list_files, path)

    def read(self, path: str) -> bytes:
        return self._call("op_open", self._store.read, path)

    def write(self, path: str, data: bytes) -> None:
        self._call("op_create", self._store.write, path, data)

    def write_once(self, path: str, data: bytes) -> None:
        """Write a file; not again if the store does not answer."""
        self._call_once("op_create", self._store.write, path, data)

    def mkdirs(self, path: str) -> None:
        self._call("op_mkdirs", self._store.mkdirs, path)

    def rename(self, source: str, dest: str, version: str | None = None) -> None:
        self._call_once("op_rename", self._store.rename, source, dest, version)

    def replace(
        self, source: str, dest: str, version: str | None = None, *, old: str | None = None
    ) -> None:
        self._call_once("op_rename", self._store.replace, source, dest, version, old=old)

    def read_state(self, path: str) -> StoredState | None:
        return self._call("op_open", self._store.read_state, path)

    def advance(self, path: str, seen: StoredState | None, text: str) -> StoredState:
        """Make the change once; a store that throttles it throttles only this name, so no other request
        waits.
        """
        request = partial(self._store.advance, path, seen, text)
        return self._make("op_rename", request, self._wait_alone)

    def move_directory(self, source: str, dest: str) -> None:
        """Rename a directory with all it holds, on a store that can."""
        self._call_once("op_rename", move_directory, self._store, source, dest)

    def set_aside(self, path: str, place: str) -> None:
        """Rename a file out of the way, on a store that can."""
        self._call_once("op_rename", set_aside, self._store, path, place)

    def publish(self, action: CompleteUpload, old: str | None = None) -> Answer:
        """Put a file in place, on a store that completes uploads."""
        return self._call_once("op_rename", completing(self._store).publish, action, old)

    def check_conditions(self, path: str) -> None:
        """Check that the server has conditions, on a store that completes uploads."""
        self._call("op_create", completing(self._store).check_conditions, path)

    def create(self, path: str, data: bytes) -> None:
        """Write a file that must not be there, on a store that completes uploads."""
        self._call_once("op_create", completing(self._store).create, path, data)

    def begin_upload(self, path: str, stamp: str | None) -> str:
        """Begin an upload, on a store that completes them."""
        return self._call("op_create", completing(self._store).begin_upload, path, stamp)

    def put_part(self, path: str, upload: str, number: int, data: bytes) -> str:
        """Upload a part, on a store that completes uploads."""
        return self._call("op_create", completing(self._store).put_part, path, upload, number, data)

    def begin_file(self, path: str) -> str:
        """Begin a file, on a store that writes parts."""
        return self._call("op_create", writing_parts(self._store).begin_file, path)

    def append_part(self, path: str, file: str, start: int, data: bytes, *, is_last: bool) -> None:
        """Append a part of a file, on a store that writes parts."""
        append = writing_parts(self._store).append_part
        self._call("op_create", append, path, file, start, data, is_last=is_last)

    def is_pending(self, path: str, upload: str) -> bool:
        """Return whether an upload is pending, on a store that completes uploads."""
        return self._call("op_get_file_status", completing(self._store).is_pending, path, upload)

    def abort_upload(self, path: str, upload: str) -> None:
        """Abort an upload, on a store that completes uploads."""
        self._call("op_delete", completing(self._store).abort_upload, path, upload)

    def list_uploads(self, path: str, after: tuple[str, str] | None = None) -> UploadPage:
        """List a page of pending uploads, on a store that completes them."""
        return self._call("op_list_files", completing(self._store).list_uploads, path, after)

    def uploaded_parts(self, path: str, upload: str) -> UploadedParts | None:
        """Sum up the parts of an upload, on a store that completes uploads."""
        return self._call("op_list_files", completing(self._store).uploaded_parts, path, upload)

    def abort_days(self, path: str) -> int | None:
        """Return after how many days uploads are aborted, on a store that completes uploads."""
        return self._call("op_get_file_status", completing(self._store).abort_days, path)

    def list_prefix(self, path: str) -> list[FileStatus]:
        """List the names that begin with a prefix, on a store that completes uploads."""
        return self._call("op_list_status", completing(self._store).list_prefix, path)

    def list_exact(self, path: str) -> list[FileStatus]:
        """List what is in a directory, on a store that completes uploads."""
        return self._call("op_list_status", completing(self._store).list_exact, path)

    def list_objects(self, path: str) -> list[FileStatus]:
        """List files and the marks of directories, on a store that completes uploads."""
        return self._call("op_list_files", completing(self._store).list_objects, path)

    def delete_objects(self, listed: Sequence[FileStatus]) -> None:
        """Delete listed objects, on a store that completes uploads."""
        self._call("op_delete", completing(self._store).delete_objects, listed)

    def delete_file(self, path: str) -> bool:
        return self._call("op_delete", self._store.delete_file, path)

    def delete_version(self, path: str, version: str | None) -> bool:
        """Delete a version of an object, on a store that can."""
        return self._call("op_delete", delete_version, self._store, path, version)

    def delete_listed(self, directories: Sequence[str], holds: Callable[[], bool]) -> bool:
        """Delete what is listed below some directories, on a store that can; `holds` makes its own
        requests."""
        return self._call("op_delete_dir", delete_listed, self._store, directories, holds)

    def delete_directory(self, path: str) -> bool:
        return self._call("op_delete_dir", self._store.delete_directory, path)

    def remove_empty_directory(self, path: str) -> bool:
        return self._call("op_delete", self._store.remove_empty_directory, path)

    def sync(self, path: str) -> None:
        """Force a file, or the names in a directory, to disk."""
        self._call("op_hsync", sync, self._store, path)

    def first_link(self, paths: Iterable[str]) -> str | None:
        """Return the first of `paths` that is a symbolic link; not a request."""
        return first_link(self._store, paths)

    def real_path(self, path: str) -> str:
        """Return `path` with every symbolic link in it resolved; not a request."""
        return real_path(self._store, path)

    def file_system(self, path: str) -> str:
        """Return the file system that `path` is on; not a request."""
        return file_system(self._store, path)

    def check_renames(self, directory: str) -> None:
        """Try whether files can be renamed; not a request."""
        check_renames(self._store, directory)

    def what_stays(self, directory: str, files: Sequence[str], home: str) -> dict[str, str]:
        """Say what cannot be renamed to below `home`; not a request where the kernel answers."""
        if self.capabilities.renames_are_local:
            return what_stays(self._store, directory, files, home)
        return self._call("op_get_file_status", what_stays, self._store, directory, files, home)

    def links_files(self, directory: str) -> bool:
        """Return whether files are renamed by a link and an unlink; not a request."""
        return links_files(self._store, directory)

    def denied_links(self, paths: Sequence[str]) -> list[str]:
        """Return those of some files that this process has no permission to link; not a request."""
        return denied_links(self._store, paths)

    def network_file_system(self, path: str) -> str | None:
        """Return the type of the network file system that `path` is on; not a request."""
        return network_file_system(self._store, path)

    def revalidate(self, path: str) -> None:
        """Make the next listing of a directory show the changes of other machines."""
        self._call("op_create", revalidate, self._store, path)

    def _call(self, name: str, request: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a request that may be made twice."""
        started = self._clock()
        for attempt in itertools.count(1):
            try:
                return self._call_once(name, request, *args, **kwargs)
            except StoreUnavailableError:
                pause = waiting.REQUEST.after(attempt)
                if self._clock() - started + pause > self._retry_seconds:
                    raise
                self._again.append(STORE_IO_RETRY)
                self._sleep(pause)
        raise AssertionError("unreachable")

    def _call_once(self, name: str, request: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a request, again only if the store says that it did nothing."""
        return self._make(name, partial(request, *args, **kwargs), self._wait_with_others)

    def _make(self, name: str, request: partial[T], on_throttled: OnThrottled) -> T:
        refusals, throttled_since = 0, float("inf")
        while True:
            self._permits.acquire()
            started = self._clock()
            try:
                result = request()
            except ThrottledError as e:
                self._note(name, started, failed=True)
                refusals, throttled_since = refusals + 1, min(throttled_since, started)
                on_throttled(refusals, e.retry_after_seconds)
                self._again.append(STORE_IO_THROTTLED)
                if self._clock() - throttled_since > self._retry_seconds:
                    raise
            except OSError as e:
                self._note(name, started, failed=True)
                _name_path(e, request)
                raise
            else:
                self._note(name, started, failed=False)
                return result

    def _wait_with_others(self, refusals: int, retry_after_seconds: float | None) -> None:
        """Wait after a refusal. If the store refuses few others, only this request waits: first a
        moment, then as long as the store asks."""
        if not self._permits.throttled(retry_after_seconds):
            asked = retry_after_seconds if refusals > 1 else None
            self._sleep(max(waiting.REQUEST.after(refusals - 1), asked or 0.0))

    def _wait_alone(self, refusals: int, retry_after_seconds: float | None) -> None:
        """Wait a moment after the first refusal, which may be one of few; then as long as the store
        asks, or until one name can be written again."""
        asked = STATE_SECONDS if retry_after_seconds is None else retry_after_seconds
        self._sleep(waiting.REQUEST.after(0) if refusals == 1 else asked)

    def _take_again(self) -> IOStatistics:
        found = IOStatistics()
        with suppress(IndexError):
            while True:
                found = aggregate(found, count(self._again.popleft(), 1))
        return found

    def _note(self, name: str, started: float, *, failed: bool) -> None:
        self._noted.append((name, self._clock() - started, failed))


def _name_path(error: OSError, request: partial[Any]) -> None:
    """Name the path of a request that has failed, if the error does not: a full disk has none."""
    if error.filename is None and error.errno is not None:
        error.filename = next((one for one in request.args if isinstance(one, str)), None)


def until_answered(request: Callable[[], T], retry_seconds: float = RETRY_SECONDS) -> T:
    """Make a harmless request until the store answers it.

    The last of `ATTEMPTS`, or the last one in `retry_seconds`, raises its error. This is for requests
    without permits, such as those of a store that is being opened.
    """
    started = time.monotonic()
    for attempt in range(1, ATTEMPTS):
        try:
            return request()
        except (ThrottledError, StoreUnavailableError) as e:
            asked = e.retry_after_seconds if isinstance(e, ThrottledError) else None
            pause = max(asked or 0.0, waiting.REQUEST.after(attempt))
            if time.monotonic() - started + pause > retry_seconds:
                raise
        waiting.sleep(pause)
    return request()
