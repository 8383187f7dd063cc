"""Report all obstacles of a commit in one error.

Obstacles that can be seen before the record must not appear later, one kind or one name per run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ray_committer.errors import (
    CommitConflictError,
    LinkedPathError,
    PreflightError,
    RayCommitterError,
    StoreRefusedError,
)


@contextmanager
def noted(errors: list[RayCommitterError]) -> Iterator[None]:
    """Catch an obstacle that the block raises, add it to `errors`, and continue."""
    try:
        yield
    except (CommitConflictError, LinkedPathError, PreflightError, StoreRefusedError) as e:
        errors.append(e)


def refuse(errors: Sequence[RayCommitterError]) -> None:
    """Raise the `errors`, if any, as one of the type of the first, with all texts, then all advice."""
    if len(errors) > 1:
        what, advice = zip(*(error.parts for error in errors), strict=True)
        raise type(errors[0])(". Also: ".join(what), "; ".join(dict.fromkeys(advice)))
    if errors:
        raise errors[0]
