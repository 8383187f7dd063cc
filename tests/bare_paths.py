"""Each error that a test expects names its paths as fields, so that they become URLs of the store.

A path of the store in a text has a mark. Here a text is searched for what looks like a path and has
none, which would be shown without its store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from ray_committer.errors import EventLogError, RayCommitterError, SparkDriverError, shown

OF_THIS_MACHINE = (EventLogError, SparkDriverError)
"""Errors about files that are not in a store."""
TESTS = Path(__file__).parent
NOWHERE = "\0"
"""Stands before each path that is marked."""
BARE = re.compile(r"(?:\[Errno \d+\] [^']*'|(?<![^\s(|,=]))(/[^\s/]\S*)")
"""An absolute path where a word begins, or in the text of an ``OSError``: not a part of a URL or of
another word, and not a quoted name."""
COMMAND = re.compile(r"\b(ray-committer|mv|rm) [^;,]+")
"""A command, whose paths are those of a shell. It has the URL of the store already."""


def bare_paths(text: str) -> list[str]:
    """The paths in the text of an error that are not marked."""
    return BARE.findall(COMMAND.sub("", shown(text, NOWHERE)))


def check(error: BaseException) -> None:
    """Fail if an error of the package has such a path; what a test itself raises is passed over."""
    if not isinstance(error, RayCommitterError) or isinstance(error, OF_THIS_MACHINE):
        return
    raised = [frame.tb_frame.f_code.co_filename for frame in _frames(error.__traceback__)]
    if raised and TESTS in Path(raised[-1]).parents:
        return
    texts = [text for text in error.args if isinstance(text, str)]  # Ray wraps the error itself
    bare = [path for text in texts for path in bare_paths(text)]
    assert not bare, f"{type(error).__name__}: {bare} must be marked: {error.args}"


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def check_all(patch: pytest.MonkeyPatch) -> None:
    """Check each error that `pytest.raises` sees."""
    matches = pytest.RaisesExc.matches

    def matches_and_is_marked(self: Any, exception: BaseException | None) -> bool:
        if exception is not None:
            check(exception)
        return matches(self, exception)

    patch.setattr(pytest.RaisesExc, "matches", matches_and_is_marked)
