"""The recorded names and the parsing of URIs, compared with the Java at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ray_committer.errors import PathError
from ray_committer.protocol.uri import parse_uri, quote_path

if TYPE_CHECKING:
    from .conftest import Hadoop

pytestmark = [pytest.mark.hadoop, pytest.mark.xdist_group("hadoop")]

VECTORS = Path(__file__).parents[2] / "data" / "hadoop" / "uri_vectors.json"


def test_recorded_names_are_what_java_writes_today(hadoop: Hadoop) -> None:
    vectors = json.loads(VECTORS.read_text())
    sample = vectors[::7]
    assert [
        (name, quoted) for name, quoted in sample if hadoop.quote(name) != f"file:/base/{quoted}"
    ] == []


@pytest.mark.parametrize(
    "uri",
    [
        *["file:/a%20b", "file:///a", "file:/a%2Fb", "file:/a:b", "file:/a//b", "/a%25b", "file:/%61"],
        *[
            "file:/é",
            "file:/%C3%A9",
            "file:/😀",
            "file:/%F0%9F%98%80",
            "file:/a%2541",
            "file:/a+b&;@=$,",
        ],
        *[
            "hdfs://nn:8020/a",
            "gs://bucket/k=%253A/f",
            "file:/~!*'()",
            "file:/zero\u200bwidth",
            "file:/",
        ],
    ],
)
def test_uris_name_the_same_path_for_both(hadoop: Hadoop, uri: str) -> None:
    assert parse_uri(uri).path == hadoop.unquote(uri)


@pytest.mark.parametrize(
    "uri", ["file:/a b", "file:/a%", "file:/a%zz", "file:/[a", "file:/a\\b", "file:/a|b"]
)
def test_uris_that_java_cannot_parse_are_refused(hadoop: Hadoop, uri: str) -> None:
    from py4j.protocol import Py4JJavaError

    with pytest.raises(Py4JJavaError, match="URISyntaxException"):
        hadoop.unquote(uri)
    with pytest.raises(PathError):
        parse_uri(uri)


@pytest.mark.parametrize(
    ("uri", "taken_for"),
    [
        ("file:/a%FF", "/a\ufffd"),
        ("file:/a?b", "/a"),
        ("file:/a#b", "/a"),
        ("file:/a/../b", "/b"),
        ("file:/a/%2E%2E/b", "/a/../b"),
        ("file:/a%2", None),
    ],
)
def test_uris_that_java_takes_for_another_file_are_refused(
    hadoop: Hadoop, uri: str, taken_for: str | None
) -> None:
    if taken_for is not None:
        assert hadoop.unquote(uri) == taken_for
    with pytest.raises(PathError):
        parse_uri(uri)


def test_a_colon_is_quoted_as_javas_uri_does(hadoop: Hadoop) -> None:
    # Path(parent, name) refuses such a name, so only the URI form can be compared.
    uri = hadoop.jvm.java.net.URI("file", None, "/base/12:30 x", None, None)
    assert uri.toString() == f"file:{quote_path('/base/12:30 x')}"
