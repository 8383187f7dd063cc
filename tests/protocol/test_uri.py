"""Quoting and parsing of the URIs in manifests, against what Java recorded."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.errors import PathError
from ray_committer.protocol.uri import (
    Location,
    format_uri,
    normal_path,
    parse_uri,
    quote_path,
    unquote_path,
)

VECTORS = Path(__file__).parents[1] / "data" / "hadoop" / "uri_vectors.json"

# Every character that can be in a file name which is text.
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1).filter(
    lambda name: name not in (".", "..")
)
paths = st.lists(names, max_size=4).map(lambda parts: "/" + "/".join(parts))
locations = st.builds(
    Location,
    scheme=st.sampled_from(["file", "hdfs", "gs", "abfs", "viewfs"]),
    authority=st.sampled_from(["", "nn", "nn:9000", "container@account.example.org"]),
    path=paths,
)


@pytest.fixture(scope="module")
def vectors() -> list[tuple[str, str]]:
    return [(name, quoted) for name, quoted in json.loads(VECTORS.read_text())]


def test_quoting_equals_java_on_every_recorded_name_and_unquoting_gives_it_back(
    vectors: list[tuple[str, str]],
) -> None:
    assert [(n, q, quote_path(n)) for n, q in vectors if quote_path(n) != q] == []
    assert [(n, q, unquote_path(q)) for n, q in vectors if unquote_path(q) != n] == []


@pytest.mark.parametrize(
    ("path", "quoted"),
    [
        ("/a/b-_.!~*'():@&=+$,;c", "/a/b-_.!~*'():@&=+$,;c"),
        ("/a b", "/a%20b"),
        ("/100%", "/100%25"),
        ("/k=%3A", "/k=%253A"),
        ("/12:30", "/12:30"),
        ('/#?[]"\\^`{|}<>', "/%23%3F%5B%5D%22%5C%5E%60%7B%7C%7D%3C%3E"),
        ("/\t\n\x7f", "/%09%0A%7F"),
        ("/é日本😀", "/é日本😀"),
        ("/\x85\xa0\u2028\u3000", "/%C2%85%C2%A0%E2%80%A8%E3%80%80"),
        ("/zero\u200bwidth", "/zero\u200bwidth"),
        ("/e\u0301", "/e\u0301"),
        ("", ""),
    ],
)
def test_quoting_table(path: str, quoted: str) -> None:
    assert quote_path(path) == quoted
    assert unquote_path(quoted) == path


@pytest.mark.parametrize(
    ("quoted", "path"),
    [
        ("/%C3%A9", "/é"),
        ("/%c3%a9", "/é"),
        ("/%F0%9F%98%80", "/😀"),
        ("/%61%2d", "/a-"),
        ("/a+b", "/a+b"),
        ("/%25%32%35", "/%25"),
    ],
)
def test_unquoting_accepts_more_escapes_than_quoting_writes(quoted: str, path: str) -> None:
    assert unquote_path(quoted) == path


@given(paths)
def test_quoting_round_trips(path: str) -> None:
    quoted = quote_path(path)
    assert unquote_path(quoted) == path
    assert quoted == quote_path(unquote_path(quoted))


@given(paths)
def test_unquoting_reads_fully_escaped_paths(path: str) -> None:
    assert unquote_path(quote(path, safe="")) == path


@given(locations)
def test_formatted_locations_parse_back(location: Location) -> None:
    assert parse_uri(format_uri(location)) == location


@given(st.text(st.sampled_from("/ab%2541Fé:. ")))
def test_whatever_parses_is_an_absolute_normal_path(uri: str) -> None:
    try:
        path = parse_uri(uri).path
    except PathError:
        return
    assert path == normal_path(path)
    assert path.startswith("/")
    assert not {"", ".", ".."} & set(path.split("/")[1:]) or path == "/"


@pytest.mark.parametrize(
    "spellings",
    [
        ["file:/d/a", "file:///d/a", "FILE:/d/a", "file://localhost/d/a", "file:/d//a/", "file:/d/%61"],
        ["hdfs://nn/a", "hdfs://nn:8020/a", "HDFS://NN/a", "hdfs://nn/a/"],
        ["abfs://c@acct.example.org/a", "abfss://c@acct.example.org/a"],
        ["/d/a", "/d//a", "/d/a/", "/d/%61"],
        ["http://h/a", "http://h:80/a"],
        ["https://h/a", "https://h:443/a"],
        ["gs://bucket/a%20b", "gs://bucket//a%20b"],
        ["file:/", "file:///"],
    ],
)
def test_spellings_of_one_place_are_equal(spellings: list[str]) -> None:
    assert len({parse_uri(spelling) for spelling in spellings}) == 1


@pytest.mark.parametrize(
    "different",
    [
        ["file:/a", "hdfs:/a", "/a", "hdfs://nn/a", "hdfs://nn:9000/a", "hdfs://other/a"],
        ["gs://bucket/a", "gs://Bucket/a", "gs://bucket/A", "gs://bucket/b/a"],
        ["https://h:80/a", "https://h/a"],
        ["abfss://c@acct.example.org/a", "abfss://d@acct.example.org/a"],
        ["file:/a%20b", "file:/a%2520b", "file:/a+b", "file:/ab"],
        ["file:/é", "file:/e\u0301"],
    ],
)
def test_different_places_stay_different(different: list[str]) -> None:
    assert len({parse_uri(uri) for uri in different}) == len(different)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("file:/a%2Fb", Location("file", "", "/a/b")),
        ("file:/a:b", Location("file", "", "/a:b")),
        ("/a:b", Location("", "", "/a:b")),
        ("gs://bucket/k=%253A/f", Location("gs", "bucket", "/k=%3A/f")),
        ("hdfs://user@NN:9000/a", Location("hdfs", "user@nn:9000", "/a")),
        ("file:/.../..a/.b", Location("file", "", "/.../..a/.b")),
    ],
)
def test_parsing_table(uri: str, expected: Location) -> None:
    assert parse_uri(uri) == expected


@pytest.mark.parametrize(
    "uri",
    [
        *["file:/a%", "file:/a%2", "file:/a%zz", "file:/%%41", "file:/a%é", "file:/100%/b"],
        *["file:/a%FF", "file:/a%C3", "file:/%C3é", "file:/a%ED%A0%80", "file:/a%C0%AF", "file:/%80"],
        *["file:/a b", "file:/a?b", "file:/a#b", "file:/[a]", "file:/a\\b", "file:/a^b", "file:/a|b"],
        *['file:/"a"', "file:/<a>", "file:/{a}", "file:/a`b", "file:/a\tb", "file:/a\n", "file:/a\x85"],
        *["file:/a/../b", "file:/a/..", "file:/a/./b", "file:/%2E%2E/a", "file:/a/%2e", "/a/../b"],
        *["", "a", "a/b", "file:", "file:a", "file://", "gs://bucket", "a:b"],
        *["file:/a%00", "/a%00b", "file:/\udcff", "file:/a%20\ud800"],
        *["//host/a", "//a/b/c"],
    ],
)
def test_uris_that_would_name_another_file_are_refused(uri: str) -> None:
    with pytest.raises(PathError) as caught:
        parse_uri(uri)
    assert caught.value.exit_code == 1


def test_names_that_are_not_text_are_refused_by_name() -> None:
    with pytest.raises(PathError, match=r"part-\\udcff"):
        quote_path("/data/part-\udcff")


@pytest.mark.parametrize(
    ("path", "normal"),
    [("/", "/"), ("//", "/"), ("/a/", "/a"), ("//a///b//", "/a/b"), ("/a b", "/a b"), ("/%41", "/%41")],
)
def test_normal_paths_have_single_slashes(path: str, normal: str) -> None:
    assert normal_path(path) == normal


def test_refusals_show_the_text_that_was_given() -> None:
    with pytest.raises(PathError, match="file:/a/%2E%2E/b"):
        parse_uri("file:/a/%2E%2E/b")
    with pytest.raises(PathError, match="shown instead"):
        normal_path("relative", "shown instead")


@pytest.mark.parametrize(
    ("location", "uri"),
    [
        (Location("file", "", "/a b"), "file:/a%20b"),
        (Location("gs", "bucket", "/é"), "gs://bucket/é"),
        (Location("hdfs", "nn:9000", "/"), "hdfs://nn:9000/"),
        (Location("", "", "/a%"), "/a%25"),
    ],
)
def test_uris_are_written_as_hadoop_writes_them(location: Location, uri: str) -> None:
    assert format_uri(location) == uri
