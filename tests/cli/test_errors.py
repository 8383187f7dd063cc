"""The id that the command line shows for an error."""

from __future__ import annotations

import click
import pytest

from ray_committer.cli.errors import error_id
from ray_committer.errors import (
    CommitConflictError,
    CommitterBusyError,
    StoreUnavailableError,
    ThrottledError,
)


class ForeignError(CommitConflictError):
    """A class of another package, without an id of its own."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CommitConflictError("/a: is there"), "RC-commit-conflict"),
        (CommitterBusyError("/a: is busy"), "RC-committer-busy"),
        (ForeignError("/a: is there"), "RC-commit-conflict"),
        (ThrottledError("/a"), "RC-throttled"),
        (StoreUnavailableError("/a", "no answer"), "RC-store-unavailable"),
        (PermissionError(13, "Permission denied", "/a"), "RC-store-failed"),
        (click.UsageError("no such option"), "RC-bad-setting"),
        (KeyboardInterrupt(), "RC-commit-cancelled"),
        (ZeroDivisionError(), "RC-bug"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_is_shown_with_the_id_of_what_to_do_next(error: BaseException, expected: str):
    assert error_id(error) == expected
