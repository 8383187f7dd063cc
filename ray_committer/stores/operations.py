"""How each operation of a store is counted, repeated and forwarded.

`StoreOperations` declares its operations with this, and a store that wraps another one reads it. So a
new operation is written where it is declared and in the stores that have it, and in no wrapper.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of `StoreOperations`; how it is called, and what its `default` does."""

    name: str
    default: Callable[..., Any]
    statistic: str | None
    """Hadoop's name under which the request is counted; None if the kernel answers without one."""
    once: bool
    """It is not repeated if it gets no answer: the caller judges whether it was carried out."""
    paths: int
    """How many of its first arguments are paths."""
    kernel_answers: bool
    """It is no request on a store whose renames are local."""


OPERATIONS: dict[str, Operation] = {}
"""The operations of `StoreOperations` by name."""


def operation(
    statistic: str | None,
    *,
    once: bool = False,
    paths: int = 1,
    kernel_answers: bool = False,
    required: bool = False,
) -> Callable[[F], F]:
    """Declare a method of `StoreOperations`; a class without a `required` one cannot be instantiated.
    Python checks that, not mypy, which does not see the methods that `ForwardingStore` makes."""

    def declare(default: F) -> F:
        name = default.__name__
        OPERATIONS[name] = Operation(name, default, statistic, once, paths, kernel_answers)
        return abstractmethod(default) if required else default

    return declare
