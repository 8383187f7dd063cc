"""Listings of a server that keeps objects as files: it shows directories whose objects are gone."""

from __future__ import annotations

import pytest

from ray_committer.stores.base import is_there
from ray_committer.stores.s3.store import S3Store
from ray_committer.stores.uploads import pending_uploads
from tests.servers.fake_s3 import SERVERS, FakeS3, direct_store


def names(listed) -> list[str]:
    return sorted(f"{one.name}/" if one.is_directory else one.name for one in listed)


def filled(page: int = 1000) -> tuple[FakeS3, S3Store]:
    """A directory with two files, two directories, one of which is empty, and two that were emptied."""
    fake = FakeS3(has_files=True, page=page)
    store = direct_store(fake)
    for path in ("/d/a", "/d/full/b", "/d/gone/c", "/d/z", "/d/zz gone/deep/c"):
        store.write(path, b"1")
    store.mkdirs("/d/empty")
    store.delete_file("/d/gone/c")
    store.delete_directory("/d/zz gone")
    fake.requests.clear()
    return fake, store


@pytest.mark.parametrize(("page", "requests"), [(1000, 1), (2, 7), (3, 5)])
def test_a_directory_is_there_only_if_an_object_is_below_it(page: int, requests: int):
    fake, store = filled(page)
    assert names(store.list_exact("/d")) == ["a", "empty/", "full/", "z"]
    assert len(fake.requests) == requests
    assert names(store.list_status("/d")) == ["a", "empty/", "full/", "gone/", "z", "zz gone/"]
    shown = [one for one in store.list_status("/d") if is_there(store, one)]
    assert names(shown) == ["a", "empty/", "full/", "z"]


@pytest.mark.parametrize("path", ["/d/gone", "/d/zz gone", "/d/zz gone/deep", "/d/never", "/never"])
def test_a_directory_whose_objects_are_gone_is_not_there(path: str):
    _, store = filled()
    assert store.get_status(path) is None
    assert store.list_files(path) == []
    with pytest.raises(FileNotFoundError):
        store.list_exact(path)
    assert store.remove_empty_directory(path) is False


def test_what_is_empty_or_the_bucket_itself_is_there():
    _, store = filled()
    assert store.list_exact("/d/empty") == []
    assert names(store.list_exact("/")) == ["d/"]
    assert direct_store(FakeS3()).list_exact("/") == []


def test_names_with_a_prefix_are_those_of_objects():
    _, store = filled()
    assert names(store.list_prefix("/d/z")) == ["z"]
    assert names(store.list_prefix("/d/e")) == ["empty/"]


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", ["a", "a+b", "q=a%3A0 b", "%2F", "ö & <1>", "a\tb"])
def test_pending_uploads_are_listed_under_their_names(server: str, name: str):
    store = direct_store(FakeS3(page=1, **SERVERS[server]))
    wanted = {(f"/d/{one}", store.begin_upload(f"/d/{one}", None)) for one in (name, f"{name}2")}
    assert {(one.path, one.id) for one in pending_uploads(store, "/d")} == wanted


def test_a_name_that_xml_cannot_hold_is_asked_for_in_another_form():
    store = direct_store(FakeS3())
    store.begin_upload("/d/a\1b", None)
    assert [one.path for one in pending_uploads(store, "/d")] == ["/d/a\1b"]
