"""An error has what is wrong and what to do as fields, whatever characters a path has."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ray_committer import errors
from ray_committer.cli.main import main
from ray_committer.errors import LinkedPathError, RayCommitterError


def classes(kind: type[RayCommitterError]) -> Iterator[type[RayCommitterError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from classes(one)


CLASSES = [one for one in dict.fromkeys(classes(RayCommitterError)) if one.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_keeps_what_is_wrong_and_what_to_do_between_processes(kind: type[RayCommitterError]):
    error = pickle.loads(pickle.dumps(kind("/a; b: is gone", "look; then run it again")))
    assert type(error) is kind
    assert (error.what, error.advice) == ("/a; b: is gone", "look; then run it again")
    assert str(error) == "/a; b: is gone; look; then run it again"


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_without_advice_has_that_of_its_class(kind: type[RayCommitterError]):
    error = pickle.loads(pickle.dumps(kind("/a; b: is gone")))
    assert (error.what, error.advice, str(error)) == ("/a; b: is gone", kind.advice, "/a; b: is gone")


def test_a_link_keeps_its_name():
    error = pickle.loads(pickle.dumps(LinkedPathError("a", "b", filename="/link")))
    assert (error.what, error.advice, error.filename) == ("a", "b", "/link")


def test_a_path_with_a_semicolon_is_printed_whole(tmp_path: Path):
    missing = tmp_path / "a; b"
    lines = CliRunner().invoke(main, ["commit", str(missing)]).stderr.splitlines()
    assert lines == [
        f"ray-committer: {missing}: does not exist",
        "  -> check the destination's spelling",
        "  see: ray-committer explain RC-job-not-found",
    ]
