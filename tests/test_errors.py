"""An error has what is wrong and what to do as fields, whatever characters a path has."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ray_committer import errors
from ray_committer.cli.main import main
from ray_committer.errors import (
    CommitStateUnknownError,
    LinkedPathError,
    ManifestError,
    Promise,
    RayCommitterError,
    StoreUnavailableError,
    mark,
    shown,
    why,
)


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
    assert (error.what, error.advice, str(error)) == (
        "/a; b: is gone",
        kind.usual_advice,
        "/a; b: is gone",
    )


def test_a_link_keeps_its_name():
    error = pickle.loads(pickle.dumps(LinkedPathError(f"{mark('/link')}: leads away", "b")))
    assert (error.what, error.advice, error.filename) == ("/link: leads away", "b", "/link")


TWO = f"{mark('/t/a')}: is gone and {mark('/t/b c')} is not there either"


@pytest.mark.parametrize("kind", CLASSES)
def test_each_path_in_a_text_is_a_field_and_becomes_a_url(kind: type[RayCommitterError]):
    error = kind(TWO, f"put {mark('/t/b c')} back")
    assert error.paths == ("/t/a", "/t/b c")
    assert error.what == "/t/a: is gone and /t/b c is not there either"
    error.locate("gs://bucket")
    error.locate("gs://another")  # the store that is nearest to the error has located it
    error = pickle.loads(pickle.dumps(error))
    assert error.paths == ("/t/a", "/t/b c")
    assert error.what == "gs://bucket/t/a: is gone and gs://bucket/t/b c is not there either"
    assert error.advice == "put gs://bucket/t/b c back"
    assert str(error) == f"{error.what}; {error.advice}"
    assert repr(error) == f"{kind.__name__}({str(error)!r})"


def test_a_text_in_another_text_keeps_its_paths():
    inner = ManifestError(TWO, "look")
    what, advice = inner.parts
    outer = CommitStateUnknownError(f"{what}. Also: {mark('/t/c')}", f"{advice}; wait")
    outer.advise(f"ask {mark('/t/d')}")
    outer.locate("memory://test")
    assert outer.what == (
        "memory://test/t/a: is gone and memory://test/t/b c is not there either. Also: memory://test/t/c"
    )
    assert outer.advice == "look; wait; ask memory://test/t/d"


def test_a_text_from_another_store_keeps_its_urls():
    inner = ManifestError(TWO)
    inner.locate("gs://other")
    outer = CommitStateUnknownError(f"{mark('/t/c')}: {inner.parts[0]}")
    outer.locate("memory://test")
    assert outer.what == (
        "memory://test/t/c: gs://other/t/a: is gone and gs://other/t/b c is not there either"
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ManifestError(TWO), "s3://b/t/a: is gone and s3://b/t/b c is not there either"),
        (ManifestError("is gone", "look"), "is gone; look"),
        (PermissionError(13, "Permission denied", "/t/a"), "Permission denied: s3://b/t/a"),
        (StoreUnavailableError("/t/a", "no answer"), "no answer: s3://b/t/a"),
        (OSError("simulated"), "simulated"),
        (ValueError("is no number"), "is no number"),
    ],
)
def test_a_text_can_say_why_another_error_was_raised(error: Exception, said: str):
    assert shown(why(error), "s3://b") == said


def test_what_is_no_absolute_path_is_not_marked():
    assert [mark(one) for one in ("day=1", "gs://b/t", "")] == ["day=1", "gs://b/t", ""]


def test_what_is_marked_is_marked_once():
    assert mark(mark("/t")) == mark("/t")


def test_the_docstring_has_the_tree_with_the_promise_of_each_class():
    promises = {one: name for name, one in vars(errors).items() if isinstance(one, Promise)}
    lines = [*_tree(RayCommitterError, promises)]
    assert "\n".join(f"    {line}" for line in lines) in (errors.__doc__ or "")


def _tree(kind: type[RayCommitterError], promises: dict[Promise, str], depth: int = 0) -> Iterator[str]:
    yield f"{'  ' * depth + kind.__name__:<36}{promises[kind.promise]}"
    for one in kind.__subclasses__():
        if one.__module__ == errors.__name__:
            yield from _tree(one, promises, depth + 1)


def test_the_exit_code_follows_from_the_promise():
    assert {kind.exit_code for kind in CLASSES} == {1, 2, 3, 4, 5}
    assert [kind for kind in CLASSES if kind.exit_code != kind.promise.exit_code] == []


def test_a_path_with_a_semicolon_is_printed_whole(tmp_path: Path):
    missing = tmp_path / "a; b"
    lines = CliRunner().invoke(main, ["commit", str(missing)]).stderr.splitlines()
    assert lines == [
        f"ray-committer: {missing}: does not exist",
        "  -> check the destination's spelling",
        "  see: ray-committer explain RC-job-not-found",
    ]
