"""A store that passes every call to two hooks, which can count, delay, fail or kill; and such hooks.

If a hook raises before a call, the store does not get it. If a hook raises after it, the call was made,
but its answer is lost. A simulated crash is a ``BaseException``, which no ``except Exception`` catches.
"""

from __future__ import annotations

import errno
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ray_committer.errors import ThrottledError
from ray_committer.limits import waiting
from ray_committer.protocol.actions import CompleteUpload
from ray_committer.stores.base import FileStatus, StoreOperations, StoreSpec
from ray_committer.stores.forwarding import ForwardingStore
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_renames import link_and_unlink
from ray_committer.stores.operations import Operation

BETWEEN: ContextVar[Callable[[str], None]] = ContextVar("between", default=lambda _: None)
"""Is called by a `LinkingStore` between the two steps of a rename, with its source."""


class LinkingStore(LocalStore):
    """A `LocalStore` that renames by a link and an unlink, as on NFS, where the kernel cannot rename
    without replacing. A `WrappedStore` calls its hooks between these two, for a call ``unlink``."""

    def __init__(self, spec: StoreSpec) -> None:
        super().__init__(spec, rename=_rename_in_two_steps)


def _rename_in_two_steps(source: str, dest: str) -> None:
    link_and_unlink(source, dest, between=partial(BETWEEN.get(), source))


class SimulatedCrash(BaseException):
    """The process died here."""


@dataclass(frozen=True, slots=True)
class StoreCall:
    """One request: the name of the `StoreOperations` method and its paths. `number` counts the calls of
    one `WrappedStore` from 1; it does not matter for equality."""

    operation: str
    paths: tuple[str, ...]
    number: int = field(default=0, compare=False)


Hook = Callable[[StoreCall], None]


def _nothing(call: StoreCall) -> None:
    """Let the call pass."""


class WrappedStore(ForwardingStore):
    """`StoreOperations` that call `before` and `after` around each request to `store`: an exception of
    `before` replaces the request, one of `after` the answer, even an error. `write_data` can change the
    data that is written, to tear a file."""

    def __init__(
        self,
        store: StoreOperations,
        *,
        before: Hook = _nothing,
        after: Hook = _nothing,
        write_data: Callable[[StoreCall, bytes], bytes] = lambda _, data: data,
    ) -> None:
        super().__init__(store)
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

    def write(self, path: str, data: bytes) -> None:
        with self._call("write", path) as call:
            self._store.write(path, self._write_data(call, data))

    def _request(
        self,
        operation: Operation,
        request: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        with self._call(operation.name, *_paths(args[: operation.paths])):
            if operation.name != "rename":
                return request(*args, **kwargs)
            with self._in_two_steps():
                return request(*args, **kwargs)


def _paths(arguments: Iterable[Any]) -> Iterator[str]:
    """The paths in the arguments of a request, which can be lists, statuses of files, or an action."""
    for argument in arguments:
        if isinstance(argument, str):
            yield argument
        elif isinstance(argument, FileStatus):
            yield argument.path
        elif isinstance(argument, CompleteUpload):
            yield argument.dest
        elif isinstance(argument, Sequence):
            yield from _paths(argument)


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
    Refused requests do not count."""
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
