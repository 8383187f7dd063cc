"""What stands in the way of a commit, told at once: what can be seen before the record must not be found
later, one kind or one name a run.
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

SHOWN = 20
"""So many of a kind are named, and the others counted."""


def some_of(named: Sequence[str], count: int | None = None) -> str:
    """The first of `named`, and how many more there are, of `count` in all."""
    left = (len(named) if count is None else count) - len(named[:SHOWN])
    return " | ".join([*named[:SHOWN], *([f"and {left} more"] if left else [])])


@contextmanager
def noted(errors: list[RayCommitterError]) -> Iterator[None]:
    """Add to `errors` what the block finds in the way, and go on."""
    try:
        yield
    except (CommitConflictError, LinkedPathError, PreflightError, StoreRefusedError) as e:
        errors.append(e)


def refuse(errors: Sequence[RayCommitterError]) -> None:
    """Raise one error that says what all of these say, then what they advise, of the kind of the first;
    nothing if there are none."""
    if len(errors) > 1:
        said = [str(error).partition("; ") for error in errors]
        advice = [text or error.advice for error, (_, _, text) in zip(errors, said, strict=True)]
        what = ". Also: ".join(text for text, _, _ in said)
        raise type(errors[0])("; ".join((what, *dict.fromkeys(advice))))
    if errors:
        raise errors[0]
