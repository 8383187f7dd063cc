"""Which URLs are accepted and which refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_committer.errors import StoreRefusedError
from ray_committer.stores.registry import open_store, resolve_destination


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/a/b", "/a/b"),
        ("/a//b/", "/a/b"),
        ("file:/a/b%20c", "/a/b c"),
        ("file:///a/b", "/a/b"),
        ("file://localhost/a/b/", "/a/b"),
        ("/a/b%20c", "/a/b%20c"),
    ],
)
def test_local_destinations_resolve_to_their_path(url: str, path: str):
    spec, found = resolve_destination(url)
    assert (spec.scheme, spec.authority, found) == ("file", "", path)


def test_a_relative_destination_is_taken_from_here(monkeypatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    assert resolve_destination("table")[1] == str(tmp_path / "table")


@pytest.mark.parametrize("url", ["gs://bucket/a%20b", "gcs://bucket/a%20b/"])
def test_both_names_of_google_cloud_storage_mean_one_store(url: str):
    spec, path = resolve_destination(url, {"token": "anon"})
    assert (spec.scheme, spec.authority, path) == ("gs", "bucket", "/a b")
    assert spec.storage_options == {"token": "anon"}


@pytest.mark.parametrize("url", ["s3://bucket/a", "s3a://bucket/a", "s3n://bucket/a"])
def test_s3_is_refused_and_the_text_names_what_to_use(url: str):
    with pytest.raises(StoreRefusedError, match="S3A committers"):
        resolve_destination(url)


@pytest.mark.parametrize("url", ["http://host/a", "memory://a/b", "file://host/a"])
def test_other_stores_are_refused(url: str):
    with pytest.raises(StoreRefusedError, match=r"only file://.* rename safely"):
        resolve_destination(url)


def test_a_spec_opens_the_store_that_it_came_from(tmp_path: Path):
    spec, path = resolve_destination(str(tmp_path))
    assert open_store(spec).list_status(path) == []
