"""Identities that are made where they are used."""

from __future__ import annotations

from typing import Any

import pytest

from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.hadoop.stores import storage_options
from ray_committer.stores.adls.identity import AzureIdentity
from tests.spark.hadoop.test_stores import CLIENT, HOST, LAKE, TENANT, oauth

identities = pytest.importorskip("azure.identity")


@pytest.mark.parametrize(
    "keys",
    [
        oauth("MsiTokenProvider"),
        oauth("MsiTokenProvider", of=HOST, client_id="me"),
        oauth("WorkloadIdentityTokenProvider", msi_tenant=TENANT, client_id="me"),
        oauth(
            "ClientCredsTokenProvider",
            **{**CLIENT, "client_endpoint": f"https://login.partner.microsoftonline.cn/{TENANT}/oauth2"},
        ),
    ],
)
def test_what_hadoop_names_can_be_made(keys: dict[str, Any]):
    identity = storage_options(LAKE, HadoopConf(keys))["credential"]
    with getattr(identities, identity.kind)(**identity.arguments) as made:
        assert callable(made.get_token)


def test_a_key_file_that_is_missing_is_no_missing_file_of_the_store():
    arguments = {"tenant_id": TENANT, "client_id": "me", "certificate_path": "/missing.pem"}
    with pytest.raises(PermissionError, match=r"/missing\.pem, a file that .* cannot be read") as caught:
        AzureIdentity("CertificateCredential", arguments).get_token("scope")
    assert caught.value.filename is None  # a path there would be taken for one of the store
