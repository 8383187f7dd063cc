"""Hadoop's settings as storage options: what is mapped, what wins, what is refused."""

from __future__ import annotations

import pickle
from fnmatch import fnmatchcase
from typing import Any

import pytest

from ray_committer.errors import SettingsError, StoreRefusedError
from ray_committer.spark.hadoop.conf import OF_ANY_WRITE, PROVIDER_PATH, HadoopConf
from ray_committer.spark.hadoop.stores import qualify, storage_options
from ray_committer.stores.adls.identity import AzureIdentity
from ray_committer.stores.registry import resolve_destination

HOST = "acc.dfs.core.windows.net"
LAKE = f"abfss://lake@{HOST}/table"
BUCKET = "gs://bucket/table"
PROVIDERS = "org.apache.hadoop.fs.azurebfs.oauth2"
TENANT = "11111111-2222"
LOGIN = f"https://login.microsoftonline.com/{TENANT}/oauth2/token"


def gs(**keys: str) -> dict[str, str]:
    """``auth_type="X"`` is the key ``fs.gs.auth.type``."""
    return {f"fs.gs.{key.replace('_', '.')}": value for key, value in keys.items()}


def azure(*, of: str = "", **keys: str) -> dict[str, str]:
    """``account_key="X"`` is the key ``fs.azure.account.key`` of `of`, a host or nothing."""
    suffix = f".{of}" if of else ""
    return {f"fs.azure.{key.replace('_', '.')}{suffix}": value for key, value in keys.items()}


def oauth(provider: str, *, of: str = "", **keys: str) -> dict[str, str]:
    own = {f"account_oauth2_{key}": value for key, value in keys.items()}
    kind = {"account_auth_type": "OAuth", "account_oauth_provider_type": f"{PROVIDERS}.{provider}"}
    return azure(of=of, **kind, **own)


CLIENT = {"client_endpoint": LOGIN, "client_id": "me", "client_secret": "pssst"}
SERVICE = {"tenant_id": TENANT, "client_id": "me", "client_secret": "pssst"}

GS_TABLE: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {}),
    (gs(auth_type="APPLICATION_DEFAULT"), {"token": "google_default"}),
    (gs(auth_type="compute_engine"), {"token": "cloud"}),
    (gs(auth_type="UNAUTHENTICATED"), {"token": "anon"}),
    (
        gs(auth_type="SERVICE_ACCOUNT_JSON_KEYFILE", auth_service_account_json_keyfile="/k.json"),
        {"token": "/k.json"},
    ),
    (gs(auth_service_account_json_keyfile="file:///k.json"), {"token": "/k.json"}),
    ({"google.cloud.auth.service.account.json.keyfile": "/k.json"}, {"token": "/k.json"}),
    (
        {
            "google.cloud.auth.service.account.json.keyfile": "/weak.json",
            **gs(auth_service_account_json_keyfile="/strong.json"),
        },
        {"token": "/strong.json"},
    ),
    (
        {
            "google.cloud.auth.service.account.enable": "false",
            "google.cloud.auth.null.enable": "true",
        },
        {"token": "anon"},
    ),
    (
        gs(
            auth_service_account_email="a@b",
            auth_service_account_private_key_id="7",
            auth_service_account_private_key="-----\\nBEGIN",
        ),
        {
            "token": {
                "type": "service_account",
                "client_email": "a@b",
                "private_key_id": "7",
                "private_key": "-----\nBEGIN",
                "token_uri": "https://oauth2.googleapis.com/token",
            }
        },
    ),
    (
        gs(
            auth_type="USER_CREDENTIALS",
            auth_client_id="id",
            auth_client_secret="pssst",
            auth_refresh_token="again",
        ),
        {
            "token": {
                "type": "authorized_user",
                "client_id": "id",
                "client_secret": "pssst",
                "refresh_token": "again",
            }
        },
    ),
    (gs(auth_type="UNAUTHENTICATED", project_id="p"), {"token": "anon", "project": "p"}),
    (gs(auth_type="APPLICATION_DEFAULT", project_id="p"), {"token": "google_default"}),
    (gs(project_id="p"), {}),
    (gs(storage_root_url="http://127.0.0.1:4443/"), {"endpoint_url": "http://127.0.0.1:4443"}),
    (gs(storage_root_url="https://storage.googleapis.com/"), {}),
    (
        gs(requester_pays_mode="ENABLED", requester_pays_project_id="payer"),
        {"requester_pays": "payer"},
    ),
    (
        gs(
            requester_pays_mode="CUSTOM",
            requester_pays_project_id="payer",
            requester_pays_buckets="other, bucket",
        ),
        {"requester_pays": "payer"},
    ),
    (
        gs(
            requester_pays_mode="CUSTOM",
            requester_pays_project_id="payer",
            requester_pays_buckets="other",
        ),
        {},
    ),
    (gs(requester_pays_mode="DISABLED", requester_pays_project_id="payer"), {}),
]

ABFS_TABLE: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({}, {}),
    (azure(account_key="a2V5", of=HOST), {"account_key": "a2V5"}),
    (azure(account_key="a2V5"), {"account_key": "a2V5"}),
    (azure(account_key="a2V5", of="other.dfs.core.windows.net"), {}),
    (azure(account_key="weak") | azure(account_key="strong", of=HOST), {"account_key": "strong"}),
    (azure(account_auth_type="SharedKey", account_key="a2V5"), {"account_key": "a2V5"}),
    (azure(account_auth_type="SAS", sas_fixed_token="?sv=1", of=HOST), {"sas_token": "?sv=1"}),
    (
        azure(account_auth_type="SAS", sas_fixed_token="sv=general")
        | azure(sas_fixed_token="sv=account", of=HOST)
        | azure(sas_fixed_token="sv=container", of=f"lake.{HOST}"),
        {"sas_token": "sv=container"},
    ),
    (
        azure(account_auth_type="SAS", sas_fixed_token="sv=1")
        | azure(account_auth_type="SharedKey", account_key="a2V5", of=HOST),
        {"account_key": "a2V5"},
    ),
    (oauth("ClientCredsTokenProvider", of=HOST, **CLIENT), SERVICE),
    (oauth("ClientCredsTokenProvider", **CLIENT), SERVICE),
    (
        oauth("ClientCredsTokenProvider", **{**CLIENT, "client_secret": "weak"})
        | azure(account_oauth2_client_secret="pssst", of=HOST),
        SERVICE,
    ),
    (
        oauth(
            "ClientCredsTokenProvider",
            **{**CLIENT, "client_endpoint": f"https://login.microsoftonline.us/{TENANT}/oauth2/token"},
        ),
        {
            "credential": AzureIdentity(
                "ClientSecretCredential", {**SERVICE, "authority": "https://login.microsoftonline.us"}
            )
        },
    ),
    (
        oauth("MsiTokenProvider", client_id="me"),
        {"credential": AzureIdentity("ManagedIdentityCredential", {"client_id": "me"})},
    ),
    (
        oauth("MsiTokenProvider"),
        {"credential": AzureIdentity("ManagedIdentityCredential", {"client_id": None})},
    ),
    (
        oauth("WorkloadIdentityTokenProvider", msi_tenant=TENANT, client_id="me", token_file="/t"),
        {
            "credential": AzureIdentity(
                "WorkloadIdentityCredential",
                {
                    "tenant_id": TENANT,
                    "client_id": "me",
                    "token_file_path": "/t",
                    "authority": "https://login.microsoftonline.com",
                },
            )
        },
    ),
    (azure(abfs_endpoint="127.0.0.1:1"), {"endpoint": "https://127.0.0.1:1/acc"}),
    (azure(abfs_endpoint="no-port"), {}),
]


@pytest.mark.parametrize(("keys", "expected"), GS_TABLE)
def test_what_is_set_for_gs_is_said_in_gcsfs_words(keys: dict[str, str], expected: dict[str, Any]):
    assert storage_options(BUCKET, HadoopConf(keys)) == expected
    assert storage_options(BUCKET.replace("gs:", "gcs:"), HadoopConf(keys)) == expected


@pytest.mark.parametrize(("keys", "expected"), ABFS_TABLE)
def test_what_is_set_for_abfs_is_said_in_adlfs_words(keys: dict[str, str], expected: dict[str, Any]):
    assert storage_options(LAKE, HadoopConf(keys)) == expected


@pytest.mark.parametrize(
    ("scheme", "https", "url"),
    [
        ("abfs", "false", "http://127.0.0.1:1/acc"),
        ("abfs", "true", "https://127.0.0.1:1/acc"),
        ("abfss", "false", "https://127.0.0.1:1/acc"),
    ],
)
def test_an_endpoint_without_tls_needs_both_keys_to_say_so(scheme: str, https: str, url: str):
    keys = azure(abfs_endpoint="127.0.0.1:1", always_use_https=https)
    assert storage_options(f"{scheme}://lake@{HOST}/t", HadoopConf(keys)) == {"endpoint": url}


REFUSED: list[tuple[str, dict[str, str], str, str]] = [
    (BUCKET, gs(auth_access_token_provider_impl="com.example.Mine"), "access.token.provider", "token"),
    (BUCKET, gs(auth_type="ACCESS_TOKEN_PROVIDER"), "fs.gs.auth.type=ACCESS_TOKEN_PROVIDER", "token"),
    (
        BUCKET,
        gs(auth_type="WORKLOAD_IDENTITY_FEDERATION_CREDENTIAL_CONFIG_FILE"),
        "fs.gs.auth.type=WORKLOAD",
        "token",
    ),
    (BUCKET, gs(auth_service_account_keyfile="/k.p12"), "service.account.keyfile", "token"),
    (BUCKET, gs(auth_type="SERVICE_ACCOUNT_JSON_KEYFILE"), "json.keyfile is not set", "token"),
    (BUCKET, gs(auth_service_account_enable="false"), "account.enable=false", "token"),
    (BUCKET, gs(auth_impersonation_service_account="a@b"), "fs.gs.auth.impersonation", "token"),
    (
        BUCKET,
        {"google.cloud.auth.impersonation.service.account.for.user.me": "a@b"},
        "for.user.me",
        "token",
    ),
    (BUCKET, gs(requester_pays_mode="AUTO"), "fs.gs.requester.pays.mode=AUTO", "requester_pays"),
    (BUCKET, gs(requester_pays_mode="ENABLED"), "requester.pays.project.id", "requester_pays"),
    (LAKE, azure(account_auth_type="SharedKey"), f"fs.azure.account.key.{HOST} is not", "account_key"),
    (LAKE, azure(account_auth_type="Custom"), "fs.azure.account.auth.type=Custom", "credential"),
    (LAKE, azure(account_auth_type="UserboundSASWithOAuth"), "auth.type=Userbound", "credential"),
    (LAKE, azure(account_keyprovider="x.ShellDecryptionKeyProvider"), "keyprovider", "account_key"),
    (LAKE, azure(account_auth_type="SAS"), "fs.azure.sas.fixed.token", "sas_token"),
    (
        LAKE,
        azure(account_auth_type="SAS", sas_token_provider_type="com.example.Mine", sas_fixed_token="x"),
        "fs.azure.sas.token.provider.type",
        "sas_token",
    ),
    (LAKE, azure(account_auth_type="OAuth"), "oauth.provider.type names nothing", "credential"),
    (LAKE, oauth("UserPasswordTokenProvider"), "names org.apache.hadoop", "credential"),
    (
        LAKE,
        azure(
            account_auth_type="OAuth", account_oauth_provider_type="com.example.ClientCredsTokenProvider"
        ),
        "names com.example.ClientCredsTokenProvider",
        "credential",
    ),
    (
        LAKE,  # Hadoop takes the provider of all accounts only if all accounts are of its kind
        azure(account_auth_type="OAuth", of=HOST)
        | azure(account_oauth_provider_type=f"{PROVIDERS}.MsiTokenProvider"),
        "names nothing",
        "credential",
    ),
    (LAKE, oauth("ClientCredsTokenProvider"), "oauth2.client.endpoint", "tenant_id"),
    (
        LAKE,
        oauth("ClientCredsTokenProvider", client_endpoint=LOGIN, client_id="me"),
        "oauth2.client.secret",
        "client_secret",
    ),
    (LAKE, oauth("MsiTokenProvider", msi_endpoint="http://10.0.0.1/"), "msi.endpoint", "credential"),
    (LAKE, oauth("WorkloadIdentityTokenProvider", client_id="me"), "msi.tenant", "credential"),
]


@pytest.mark.parametrize(("destination", "keys", "named", "option"), REFUSED)
def test_what_cannot_be_mapped_names_the_key_and_the_option(
    destination: str, keys: dict[str, str], named: str, option: str
):
    with pytest.raises(SettingsError) as caught:
        storage_options(destination, HadoopConf(keys))
    text = str(caught.value)
    assert named in text
    assert f"storage_options={{'{option}': ...}}" in text
    assert storage_options(destination, HadoopConf(keys), {option: "given"}) == {option: "given"}


@pytest.mark.parametrize(
    ("destination", "keys"),
    [
        (BUCKET, gs(encryption_key="c2VjcmV0")),
        (LAKE, {"fs.azure.client-provided-encryption-key": "c2VjcmV0"}),
        (LAKE, {f"fs.azure.encryption.encoded.client-provided-key.{HOST}": "c2VjcmV0"}),
    ],
)
def test_a_store_whose_files_the_commit_could_not_read_is_refused(destination: str, keys):
    with pytest.raises(SettingsError, match="a key that the") as caught:
        storage_options(destination, HadoopConf(keys), {"token": "t", "account_key": "k"})
    assert "c2VjcmV0" not in str(caught.value)


def test_options_of_a_session_reach_only_the_stores_that_know_them():
    given = {"account_key": "k", "token": "anon", "unheard_of": "x"}
    assert storage_options(LAKE, HadoopConf({}), given) == {"account_key": "k", "unheard_of": "x"}
    assert storage_options("gcs://bucket/t", HadoopConf({}), given) == {
        "token": "anon",
        "unheard_of": "x",
    }
    assert storage_options("/local/t", HadoopConf({}), given) == {"unheard_of": "x"}


def test_given_options_win_and_given_credentials_are_never_mixed_with_hadoops():
    conf = HadoopConf(oauth("ClientCredsTokenProvider", **CLIENT) | azure(abfs_endpoint="127.0.0.1:1"))
    assert storage_options(LAKE, conf, {"account_key": "mine"}) == {
        "account_key": "mine",
        "endpoint": "https://127.0.0.1:1/acc",
    }
    conf = HadoopConf(gs(auth_type="UNAUTHENTICATED", storage_root_url="http://a"))
    given = {"token": "/mine.json", "endpoint_url": "http://b"}
    assert storage_options(BUCKET, conf, given) == given


HDFS = {
    "dfs.nameservices": "ns",
    "dfs.ha.namenodes.ns": "a,b",
    "dfs.namenode.rpc-address.ns.a": "one:8020",
    "dfs.namenode.rpc-address.ns.b": "two:8020",
    "dfs.client.use.datanode.hostname": "true",
    "fs.permissions.umask-mode": "027",
}


def test_hdfs_gets_its_name_services_and_none_of_hadoops_retries():
    retries = {"dfs.client.failover.max.attempts": "15", "dfs.replication": "3", "fs.azure.x": "y"}
    assert storage_options("hdfs://ns/t", HadoopConf(HDFS | retries)) == HDFS
    assert storage_options("hdfs://ns/t", HadoopConf(HDFS), {"dfs.nameservices": "mine"}) == {
        **HDFS,
        "dfs.nameservices": "mine",
    }


@pytest.mark.parametrize(
    ("default", "destination", "expected"),
    [
        ("hdfs://ns", "/t", "hdfs://ns/t"),
        ("hdfs://ns/", "/t", "hdfs://ns/t"),
        ("file:///", "/t", "file:///t"),
        ("", "/t", "file:///t"),
        ("hdfs://ns", "gs://bucket/t", "gs://bucket/t"),
        ("hdfs://ns", "file:/t", "file:/t"),
        ("hdfs://ns", LAKE, LAKE),
    ],
)
def test_a_path_without_a_scheme_is_on_the_default_file_system(default, destination, expected):
    conf = HadoopConf({"fs.defaultFS": default, **HDFS})
    assert qualify(destination, conf) == expected
    options = storage_options(destination, conf)
    assert ("dfs.nameservices" in options) == expected.startswith("hdfs")
    assert ("fs.permissions.umask-mode" in options) == expected.startswith(("hdfs", "file", "abfs"))


def test_a_view_of_others_is_refused():
    url = qualify("/t", HadoopConf({"fs.defaultFS": "viewfs://cluster"}))
    with pytest.raises(StoreRefusedError, match="name the file system behind it"):
        resolve_destination(url, storage_options(url, HadoopConf()))


def test_credential_providers_win_over_clear_text_and_are_asked_in_the_order_of_the_keys():
    secrets = {f"fs.azure.account.key.{HOST}": "from jceks"}
    conf = HadoopConf(azure(account_key="clear", of=HOST), secrets.get)
    assert storage_options(LAKE, conf) == {"account_key": "from jceks"}
    conf = HadoopConf({}, {"fs.azure.account.key": "from jceks"}.get)
    assert storage_options(LAKE, conf) == {"account_key": "from jceks"}


def test_without_a_jvm_it_is_said_that_a_credential_provider_may_hold_the_key():
    conf = HadoopConf(azure(account_auth_type="SharedKey") | {PROVIDER_PATH: "jceks://file/x.jceks"})
    with pytest.raises(SettingsError, match=r"it may be in .*, which only a JVM can read"):
        storage_options(LAKE, conf)


TABLES = [(BUCKET, keys) for keys, _ in GS_TABLE] + [(LAKE, keys) for keys, _ in ABFS_TABLE]


@pytest.mark.parametrize(("destination", "keys"), TABLES)
def test_a_setting_of_a_session_counts_or_is_refused_by_its_name(destination: str, keys: dict[str, str]):
    """It is never ignored: a key that is not refused has its effect, or none for anybody."""
    expected = storage_options(destination, HadoopConf(keys))
    for name in keys:
        found, refused = expected, ""
        try:
            found = storage_options(destination, HadoopConf(keys, given=frozenset({name})))
        except SettingsError as e:
            refused = str(e)
        assert found == expected
        assert refused == "" or not any(fnmatchcase(name, one) for one in OF_ANY_WRITE)
        assert refused == "" or refused.startswith(f"{name}: this session or write has set it")


def test_a_session_cannot_hide_what_the_driver_says_behind_a_blank():
    keys = gs(auth_type=" ", auth_service_account_json_keyfile="/strong.json")
    with pytest.raises(SettingsError, match=r"^fs\.gs\.auth\.type: this session"):
        storage_options(BUCKET, HadoopConf(keys, given=frozenset({"fs.gs.auth.type"})))


def test_a_session_names_no_credential_provider():
    conf = HadoopConf({PROVIDER_PATH: "jceks://file/x"}, {}.get, frozenset({PROVIDER_PATH}))
    with pytest.raises(SettingsError, match=f"^{PROVIDER_PATH}: this session"):
        storage_options(LAKE, conf)


def test_a_session_names_no_name_node():
    for name in HDFS:
        conf = HadoopConf(HDFS, given=frozenset({name}))
        if name == "fs.permissions.umask-mode":
            assert storage_options("hdfs://ns/t", conf) == HDFS
        else:
            with pytest.raises(SettingsError, match=f"^{name}: this session"):
                storage_options("hdfs://ns/t", conf)


SECRETS = ("pssst", "again", "BEGIN", "a2V5", "sv=container", "strong")


@pytest.mark.parametrize("keys", [keys for keys, _ in (*GS_TABLE, *ABFS_TABLE)])
def test_no_secret_is_in_a_repr(keys: dict[str, str]):
    conf = HadoopConf(keys, keys.get)
    destination = LAKE if any("azure" in key for key in keys) else BUCKET
    credential = storage_options(destination, conf).get("credential")
    shown = repr(conf) + str(conf) + repr(credential)
    assert [secret for secret in SECRETS if secret in shown] == []


def test_no_secret_is_in_an_error():
    """Every kind of secret is set, and each way to fail is taken with all of them there."""
    everything: dict[str, str] = {}
    for keys, _ in (*GS_TABLE, *ABFS_TABLE):
        everything |= {key: value for key, value in keys.items() if any(s in value for s in SECRETS)}
    assert len(everything) >= 8
    for destination, keys, _, _ in REFUSED:
        try:
            storage_options(destination, HadoopConf(everything | keys))
        except SettingsError as e:
            shown = str(e) + repr(e) + repr(e.__cause__) + repr(e.__context__)
            assert [secret for secret in SECRETS if secret in shown] == []


def test_an_identity_goes_to_workers_and_shows_nothing():
    identity = AzureIdentity("ClientSecretCredential", {"client_secret": "pssst"})
    assert pickle.loads(pickle.dumps(identity)) == identity
    assert "pssst" not in repr(identity)
