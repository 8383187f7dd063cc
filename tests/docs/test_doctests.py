"""The examples in the docstrings of the public API, run on local files.

`dest` is a directory in which two tasks of ``job_1`` have committed, in the package's own a new one.
"""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import ray_committer
from tests.docs.preparations import write_job


def examples(name: str) -> doctest.DocTest:
    """The examples of one public name, or of the package itself."""
    thing = getattr(ray_committer, name) if name else ray_committer
    text = inspect.getdoc(thing) or ""
    return doctest.DocTestParser().get_doctest(text, {}, name or "ray_committer", None, None)


NAMES = [
    name for name in ("", *ray_committer.__all__) if name != "__version__" and examples(name).examples
]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_says_what_happens(name: str, tmp_path: Path):
    dest = tmp_path / "table"
    test = examples(name)
    if name:
        write_job(dest, tasks=2)
        public = {one: getattr(ray_committer, one) for one in ray_committer.__all__}
        test.globs.update(public)
    test.globs["dest"] = str(dest)
    said: list[str] = []
    doctest.DocTestRunner().run(test, out=said.append)
    assert "".join(said) == ""
