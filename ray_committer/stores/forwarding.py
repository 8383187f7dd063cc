"""A store that passes on each operation to another one: the base of all stores that wrap one."""

from __future__ import annotations

from abc import update_abstractmethods
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from ray_committer.stores.base import StoreOperations
from ray_committer.stores.operations import OPERATIONS, Operation


def _forwards_all(cls: type[ForwardingStore]) -> type[ForwardingStore]:
    """Give the class each operation; an operation that `StoreOperations` gets is there at once."""
    for operation in OPERATIONS.values():
        setattr(cls, operation.name, _forwarder(operation))
    return update_abstractmethods(cls)


def _forwarder(operation: Operation) -> Callable[..., Any]:
    name, default, asks_kernel = operation.name, operation.default, operation.kernel_answers

    @wraps(default, updated=())  # it is not abstract
    def pass_on(self: ForwardingStore, *args: Any, **kwargs: Any) -> Any:
        return getattr(self._store, name)(*args, **kwargs)

    @wraps(default, updated=())
    def request(self: ForwardingStore, *args: Any, **kwargs: Any) -> Any:
        if name in self._left_out:
            return default(self, *args, **kwargs)
        mine = getattr(self._store, name)
        if asks_kernel and self.capabilities.renames_are_local:
            return mine(*args, **kwargs)
        return self._request(operation, mine, args, kwargs)

    return request if operation.statistic else pass_on


@_forwards_all
class ForwardingStore(StoreOperations):
    """`StoreOperations` that have what `store` has; each request to it is made by `_request`. What
    `store` leaves to the default is done by the default here, on the operations of this store."""

    def __init__(self, store: StoreOperations) -> None:
        self.spec = store.spec
        self.capabilities = store.capabilities
        self._store = store
        self._left_out = frozenset(
            each.name for each in OPERATIONS.values() if not store.has(each.default)
        )

    def has(self, operation: Callable[..., Any]) -> bool:
        return operation.__name__ not in self._left_out

    def _request(
        self,
        operation: Operation,
        request: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Any:
        """Make one request."""
        raise NotImplementedError
