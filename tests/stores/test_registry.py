"""Which URLs are accepted and which refused."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Literal

import pytest

import ray_committer
from ray_committer.errors import SettingsError, StoreRefusedError
from ray_committer.protocol.uri import Location
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.known import STORES
from ray_committer.stores.registry import (
    fsspec_options,
    is_on_store,
    open_store,
    resolve_destination,
    store_command,
)

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


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


@pytest.mark.parametrize("url", ["s3://b/a%20b", "s3a://b/a%20b/", "s3n://b/a%20b", "S3A://b/a%20b"])
def test_all_names_of_s3_mean_one_store(url: str):
    spec, path = resolve_destination(url, {"region": "eu-west-3"})
    assert (spec.scheme, spec.authority, path) == ("s3", "b", "/a b")
    for name in ("s3", "s3a", "s3n"):
        assert is_on_store(Location(name, "b", "/x"), "s3", "b")
    assert not is_on_store(Location("s3a", "c", "/x"), "s3", "b")
    assert not is_on_store(Location("gs", "b", "/x"), "s3", "b")


REFUSED = [
    ("wasb://c@account.blob.core.windows.net/a", "use abfss://"),
    ("wasbs://c@account.blob.core.windows.net/a", "use abfss://"),
    ("az://container/a", "use abfss://"),
    ("adl://account.azuredatalakestore.net/a", "use abfss://"),
    ("oss://bucket/a", "renames by copying"),
    ("http://host/a", "nothing can be renamed"),
    ("https://host/a", "nothing can be renamed"),
    ("ftp://host/a", "mount it"),
    ("sftp://host/a", "mount it"),
    ("ssh://host/a", "mount it"),
    ("smb://host/share/a", "mount it"),
    ("zip:///archive.zip", "write to a directory"),
    ("tar:///archive.tar", "write to a directory"),
    ("zip://inner::s3://bucket/a.zip", "write to a directory"),
    ("simplecache::s3://bucket/a", "goes through other file systems"),
    ("viewfs://cluster/a", "the file system behind it"),
    ("memory://a/b", "other processes cannot see it"),
    ("never-heard-of://me@host/a", "only file://"),
    ("file://host/a", "only file://"),
    ("never-heard-of://host/a", "only file://"),
]


@pytest.mark.parametrize(("url", "text"), REFUSED)
def test_a_store_that_cannot_rename_safely_is_refused_and_the_text_names_what_to_use(url, text: str):
    with pytest.raises(StoreRefusedError, match=text) as caught:
        resolve_destination(url)
    assert str(caught.value).startswith(f"{url}: cannot be committed to: ")


@pytest.mark.parametrize(("url", "text"), REFUSED)
def test_nobody_opens_such_a_store_by_its_spec_either(url: str, text: str):
    scheme, _, rest = url.partition("://")
    with pytest.raises(StoreRefusedError, match="cannot be committed to"):
        open_store(StoreSpec(scheme.lower(), rest.partition("/")[0]))


@pytest.mark.parametrize("rest", ["//u:geheim@host/db", "/u:geheim@host/db", "//u:geheim/x@host/db"])
@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "sqlite"])
def test_a_database_is_no_destination_and_its_password_is_not_shown(scheme: str, rest: str):
    with pytest.raises(StoreRefusedError, match="use `ray-committer records`") as caught:
        resolve_destination(f"{scheme}:{rest}")
    assert "geheim" not in str(caught.value)


def test_a_local_name_with_colons_is_a_path(tmp_path: Path):
    assert resolve_destination(f"{tmp_path}/a::b")[1] == f"{tmp_path}/a::b"


def test_a_spec_opens_the_store_that_it_came_from(tmp_path: Path):
    spec, path = resolve_destination(str(tmp_path))
    assert open_store(spec).list_status(path) == []


def test_a_local_path_knows_hadoops_umask_and_no_other_option(tmp_path: Path):
    umask = {"fs.permissions.umask-mode": "027"}
    assert open_store(StoreSpec("file", storage_options=umask)).list_status(str(tmp_path)) == []
    with pytest.raises(SettingsError, match="file://: 'token' is not a storage option") as caught:
        ray_committer.setup_job(str(tmp_path), storage_options={"token": "secret"})
    assert "secret" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["sftp://me:secret@host/a", "simplecache::sftp://me:secret@host/a"])
def test_a_refusal_shows_no_password(url: str):
    with pytest.raises(StoreRefusedError, match="me@host/a: cannot be committed to") as caught:
        resolve_destination(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"user": "of-the-environment"}),
        ({"user": "ann", "data_proxy": {"a": "b"}}, {"user": "ann", "data_proxy": {"a": "b"}}),
        ({"delegation_token": "t", "fs.permissions.umask-mode": "027"}, {"token": "t"}),
    ],
)
def test_fsspec_is_the_same_user_of_webhdfs_as_the_commit(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, object], expected: dict[str, object]
):
    """Otherwise the files of Python's tasks would be those of the server's user for strangers."""
    monkeypatch.setenv("HADOOP_USER_NAME", "of-the-environment")
    assert fsspec_options(resolve_destination("webhdfs://host:9870/a", options)[0]) == expected


@pytest.mark.parametrize(
    ("url", "verb", "command"),
    [
        ("/a b/p=1", "rm", "rm '/a b/p=1' '/a b/p=1.old'"),
        ("/a", "mv", "mv /a /a.old"),
        ("hdfs://name:8020/a", "mv", "hdfs dfs -mv hdfs://name/a hdfs://name/a.old"),
        (
            "abfss://box@account.dfs.core.windows.net/a",
            "rm",
            "hdfs dfs -rm abfs://box@account.dfs.core.windows.net/a "
            "abfs://box@account.dfs.core.windows.net/a.old",
        ),
        ("gs://bucket/a", "rm", "gcloud storage rm gs://bucket/a gs://bucket/a.old"),
        ("s3a://bucket/a", "mv", "aws s3 mv s3://bucket/a s3://bucket/a.old"),
    ],
)
def test_the_command_that_removes_or_moves_files_is_that_of_the_store(
    url: str, verb: Literal["rm", "mv"], command: str
):
    spec, path = resolve_destination(url)
    assert store_command(spec, verb, path, f"{path}.old") == command


@pytest.mark.parametrize("scheme", STORES)
def test_what_the_table_of_stores_names_is_there(scheme: str):
    store = STORES[scheme]
    module, _, name = store.opened_by.partition(":")
    assert callable(getattr(import_module(module), name))
    assert store.extra in ("", *EXTRAS)
    assert not STORES.keys() & store.aliases
