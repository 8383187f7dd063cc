"""Sidecars: a manifest byte for byte, and what tells its files from any others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_committer.errors import ManifestError
from ray_committer.protocol.manifest import digest
from ray_committer.protocol.paths import MANIFEST_SUFFIX, is_name
from ray_committer.protocol.sidecar import FileIdentity, decode_sidecar, encode_sidecar, sidecar_name

text = st.text(st.characters(exclude_categories=["Cs"]))
identities = st.builds(FileIdentity, version=st.none() | text, etag=st.none() | text)


@given(st.none() | st.lists(identities, max_size=5), st.binary())
def test_sidecars_round_trip_and_keep_every_byte(found: list[FileIdentity] | None, data: bytes) -> None:
    assert decode_sidecar(encode_sidecar(found, data), "/p") == (found, data)


@pytest.mark.parametrize("data", [b"", b"\n", b'{"a":\r\n1}', b"null\n[]"])
def test_a_manifest_may_hold_lines(data: bytes) -> None:
    assert decode_sidecar(encode_sidecar([FileIdentity("1", None)], data), "/p")[1] == data


def test_no_identities_is_not_an_empty_list_of_them() -> None:
    assert decode_sidecar(encode_sidecar(None, b"m"), "/p")[0] is None
    assert decode_sidecar(encode_sidecar([], b"m"), "/p")[0] == []


def test_other_content_has_another_name_and_none_is_that_of_a_manifest() -> None:
    manifest = "task_1_m_000000" + MANIFEST_SUFFIX
    found = {sidecar_name(manifest, digest(data)) for data in (b"a", b"b", b"c")}
    assert len(found) == 3
    for name in found:
        assert is_name(name)
        assert not name.endswith(MANIFEST_SUFFIX)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is not a list of file identities"),
        (b"\n{}", "is not a list of file identities"),
        (b"\xff\n{}", "is not a list of file identities"),
        (b'{"a":1}\n{}', "is not a list of file identities"),
        (b"[1]\n{}", "is not a list of file identities"),
        (b'[["1"]]\n{}', "is not a list of file identities"),
        (b'[[1,"e"]]\n{}', "is not a list of file identities"),
        (b"[[null,nu", "is not a list of file identities"),
        (b"null", "contains no manifest"),
        (b"[]", "contains no manifest"),
    ],
)
def test_what_is_no_sidecar_is_refused_by_name(data: bytes, what: str) -> None:
    with pytest.raises(ManifestError, match=f"/p: {what}"):
        decode_sidecar(data, "/p")
