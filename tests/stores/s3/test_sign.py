"""Signatures of requests to S3: botocore's own signer is the oracle."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from unittest import mock

import botocore.auth
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ray_committer.stores.s3.sign import UNSIGNED, Keys, query_string, quoted, signed_headers

NOW = datetime.datetime(2026, 3, 1, 12, 30, tzinfo=datetime.UTC)
KEYS = Keys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=30)


def by_botocore(
    keys: Keys, method: str, url: str, headers: Mapping[str, str], payload_hash: str
) -> Mapping[str, str]:
    """The headers that botocore's signer sends."""
    request = AWSRequest(method, url, headers=dict(headers))
    signer = S3SigV4Auth(Credentials(keys.access, keys.secret, keys.token), "s3", "eu-west-3")
    with (
        mock.patch.object(S3SigV4Auth, "payload", return_value=payload_hash),
        mock.patch.object(botocore.auth, "get_current_datetime", return_value=NOW),
    ):
        signer.add_auth(request)
    return request.headers


def ours(
    keys: Keys,
    method: str,
    name: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    payload: str,
) -> tuple[str, dict[str, str]]:
    path, asked = f"/bucket/{quoted(name)}", query_string(query)
    sent = signed_headers(
        keys, "eu-west-3", method, "host:9000", path, asked, headers, payload, now=NOW.timestamp()
    )
    return f"http://host:9000{path}" + (f"?{asked}" if asked else ""), sent


@settings(max_examples=150, deadline=None)
@example("GET", "", {"0": "", "00": ""}, {}, UNSIGNED, KEYS)
@given(
    st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD"]),
    TEXTS,
    st.dictionaries(TEXTS.filter(bool), TEXTS, max_size=3),
    st.dictionaries(
        st.sampled_from(["if-match", "if-none-match", "content-md5", "x-amz-meta-stamp"]),
        st.text('abc =+/"*', min_size=1, max_size=20).map(str.strip).filter(bool),
    ),
    st.sampled_from([UNSIGNED, "0" * 64]),
    st.sampled_from([KEYS, Keys("A", "s", "session/token+=")]),
)
def test_any_request_is_signed_as_botocore_signs_it(method, name, query, headers, payload, keys):
    url, sent = ours(keys, method, name, query, headers, payload)
    theirs = by_botocore(keys, method, url, headers, payload)
    assert sent["authorization"] == theirs["Authorization"]
    assert sent["x-amz-date"] == theirs["X-Amz-Date"]
    assert sent.get("x-amz-security-token") == theirs.get("X-Amz-Security-Token")


def test_a_request_without_keys_is_not_signed():
    sent = signed_headers(None, "r", "GET", "h", "/b/a", "", {"if-match": "x"}, UNSIGNED)
    assert sent == {"if-match": "x", "x-amz-content-sha256": UNSIGNED}


def test_the_secret_is_in_no_text():
    assert "wJalr" not in repr(KEYS)


@pytest.mark.parametrize("name", ["plain", "a b", "100%", "a+b", "\u6570", "x/y//z", "..", "a?b#c&d"])
def test_a_name_is_quoted_byte_by_byte(name: str):
    kept = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-_.~"
    expected = "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in name.encode())
    assert quoted(name) == expected
