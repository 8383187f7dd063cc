"""Which storage options a store knows, and which are refused."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import pytest
from adlfs import AzureBlobFileSystem
from gcsfs.core import GCSFileSystem

from ray_committer.errors import SettingsError
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.known import STORES
from ray_committer.stores.options import options_of, refuse_unknown, with_flags
from ray_committer.stores.registry import resolve_destination
from ray_committer.stores.s3.connect import Credentials

SENSELESS = {"asynchronous", "loop", "request_session", "socket_timeout"}
"""Options of these clients that a commit cannot use."""


@pytest.mark.parametrize(("scheme", "client"), [("gs", GCSFileSystem), ("abfs", AzureBlobFileSystem)])
def test_every_option_of_the_client_is_known(scheme: str, client: type[Any]):
    _, *parameters = signature(client.__init__).parameters.values()
    named = {one.name for one in parameters if one.kind is not Parameter.VAR_KEYWORD}
    assert named - {*STORES[scheme].options} == SENSELESS & named


@pytest.mark.parametrize(
    ("scheme", "name", "near"),
    [
        ("gs", "tokn", "token"),
        ("gs", "endpoint", "endpoint_url"),
        ("abfs", "acount_key", "account_key"),
        ("abfs", "connection-string", "connection_string"),
        ("hdfs", "webhdfs-url", "webhdfs_url"),
        ("webhdfs", "usr", "user"),
        ("file", "token", None),
        ("gs", "account_key", None),
    ],
)
def test_an_unknown_option_is_refused_by_name(scheme: str, name: str, near: str | None):
    with pytest.raises(SettingsError) as caught:
        refuse_unknown(StoreSpec(scheme, "place", {name: "very-secret"}), f"{scheme}://place")
    assert caught.value.what == f"{scheme}://place: {name!r} is not a storage option"
    meant = f"did you mean {near}? " if near else ""
    listed = ", ".join(sorted(STORES[scheme].options))
    assert caught.value.advice == f"{meant}the storage options here are {listed}"
    assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "name"), [("hdfs", "dfs.nameservices"), ("webhdfs", "dfs.any"), ("mine", "of my own")]
)
def test_settings_of_hadoop_and_options_of_other_packages_are_not_judged(scheme: str, name: str):
    refuse_unknown(StoreSpec(scheme, "place", {name: "x"}), "")


def test_options_for_several_stores_are_each_for_its_own():
    """An option that no store knows stays, and is refused."""
    given = {"token": 1, "account_key": 2, "dfs.nameservices": 3, "timeout": 4, "tokn": 5}
    assert options_of("gs", given) == {"token": 1, "timeout": 4, "tokn": 5}
    assert options_of("abfs", given) == {"account_key": 2, "timeout": 4, "tokn": 5}
    assert options_of("hdfs", given) == {"dfs.nameservices": 3, "tokn": 5}
    assert options_of("file", given) == {"tokn": 5}
    assert options_of("mine", given) == given


FLAGS = {
    "s3": ["anon", "path_style", "requester_pays", "conditional_deletes"],
    "gs": ["requester_pays", "version_aware", "check_connection", "use_listings_cache"],
    "abfs": ["anon", "assume_container_exists", "exclude_cli_credential", "use_listings_cache"],
}


@pytest.mark.parametrize(
    ("scheme", "name"), [(one, name) for one, names in FLAGS.items() for name in names]
)
@pytest.mark.parametrize(
    ("text", "value"),
    [("false", False), ("False", False), ("0", False), ("no", False), ("true", True), ("1", True)],
)
def test_a_flag_that_is_given_as_text_is_no_text(scheme: str, name: str, text: str, value: bool):
    spec, _ = resolve_destination(
        f"{scheme}://c@acct.dfs.core.windows.net/t" if scheme == "abfs" else f"{scheme}://b/t",
        {name: text},
    )
    assert spec.storage_options[name] is value


def test_every_flag_of_the_client_is_one_here():
    for scheme, client in (("gs", GCSFileSystem), ("abfs", AzureBlobFileSystem)):
        named = [
            name
            for name, one in signature(client.__init__).parameters.items()
            if isinstance(one.default, bool) and name in STORES[scheme].options
        ]
        assert named
        assert with_flags(scheme, dict.fromkeys(named, "no")) == dict.fromkeys(named, False)


def test_requests_are_signed_unless_they_are_to_be_anonymous():
    for text, is_anonymous in (("false", False), ("true", True)):
        assert Credentials("b", {"anon": text}).is_anonymous is is_anonymous


def test_the_project_that_pays_is_a_text():
    assert with_flags("gs", {"requester_pays": "my-project"}) == {"requester_pays": "my-project"}


def test_a_flag_that_is_neither_is_refused():
    with pytest.raises(SettingsError, match="anon: 'maybe' is neither true nor false"):
        resolve_destination("s3://b/t", {"anon": "maybe"})
