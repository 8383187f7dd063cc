"""Translate the settings of Hadoop's ABFS client to storage options of adlfs.

As in Hadoop, a key that ends with the account's host takes precedence over the same key without it. A
fixed SAS can also be set for one container. Source: Hadoop's AbfsConfiguration and its "ABFS" page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ray_committer.errors import SettingsError
from ray_committer.spark.hadoop.conf import HadoopConf, refusal
from ray_committer.stores.adls.identity import AzureIdentity
from ray_committer.stores.adls.names import Container, parse_authority

CREDENTIALS = (
    "account_key",
    "anon",
    "client_id",
    "client_secret",
    "connection_string",
    "credential",
    "sas_token",
    "tenant_id",
)
"""If one of these options is given, Hadoop's settings for credentials are not used."""

ENCRYPTION = (
    "fs.azure.encryption.context.provider.type",
    "fs.azure.encryption.encoded.client-provided-key",
    "fs.azure.client-provided-encryption-key",
)
LOGIN = "https://login.microsoftonline.com"
TOKEN_FILE = "/var/run/secrets/azure/tokens/azure-identity-token"  # noqa: S105 - where the token is
OWN_MSI_ENDPOINT = "http://169.254.169.254/metadata/identity/oauth2/token"

_AUTH_TYPE = "fs.azure.account.auth.type"
_PROVIDER = "fs.azure.account.oauth.provider.type"
_KEY_PROVIDER = "fs.azure.account.keyprovider"
_SAS_PROVIDER = "fs.azure.sas.token.provider.type"
_OAUTH = "fs.azure.account.oauth2"


def abfs_options(
    scheme: str, authority: str, conf: HadoopConf, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the storage options for a container, which is named with its account's host. If the keys
    contain no credential, adlfs finds its own."""
    container = parse_authority(authority)
    options: dict[str, Any] = {}
    if container.host:
        _refuse_encryption(container, conf)
        if not any(name in given for name in CREDENTIALS):
            options |= _credentials(container, conf)
    endpoint = conf.get("fs.azure.abfs.endpoint")
    if endpoint and ":" in endpoint:
        secure = scheme == "abfss" or conf.is_true("fs.azure.always.use.https", default=True)
        # Hadoop's key is for emulators: only a name with a port is one.
        options["endpoint"] = f"http{'s' if secure else ''}://{endpoint}/{container.account}"
    return options


def _keys(key: str, container: Container) -> tuple[str, str]:
    """The key of the account, then the key of all accounts."""
    return f"{key}.{container.host}", key


def _shown(container: Container) -> str:
    return f"abfs://{container.name}@{container.host}"


def _refuse_encryption(container: Container, conf: HadoopConf) -> None:
    for base in ENCRYPTION:
        for key in _keys(base, container):
            if conf.secret(key):
                raise SettingsError(
                    f"{_shown(container)}: Hadoop's {key} encrypts the tasks' files with a key that the "
                    f"commit cannot send",
                    "encrypt the account with a key of its own instead",
                )


def _credentials(container: Container, conf: HadoopConf) -> dict[str, Any]:
    kind = conf.get(*_keys(_AUTH_TYPE, container))
    if kind is None and not _has_key(container, conf):
        return {}
    read = _BY_TYPE.get((kind or "SharedKey").lower())
    if read is None:
        what = "is a login method that the commit does not support"
        raise refusal(_shown(container), f"{_AUTH_TYPE}={kind}", what, "credential")
    return read(container, conf)


def _refuse_provider(container: Container, conf: HadoopConf, base: str, option: str) -> None:
    for key in _keys(base, container):
        if value := conf.get(key):
            what = f"names {value}, which Python cannot call"
            raise refusal(_shown(container), key, what, option)


def _has_key(container: Container, conf: HadoopConf) -> bool:
    key = conf.secret(*_keys("fs.azure.account.key", container))
    return bool(key or conf.get(*_keys(_KEY_PROVIDER, container)))


def _shared_key(container: Container, conf: HadoopConf) -> dict[str, Any]:
    provider = conf.get(*_keys(_KEY_PROVIDER, container)) or "SimpleKeyProvider"
    if not provider.endswith("SimpleKeyProvider"):
        _refuse_provider(container, conf, _KEY_PROVIDER, "account_key")
    keys = _keys("fs.azure.account.key", container)
    return {"account_key": conf.required(_shown(container), *keys, option="account_key")}


def _sas(container: Container, conf: HadoopConf) -> dict[str, Any]:
    _refuse_provider(container, conf, _SAS_PROVIDER, "sas_token")
    base = "fs.azure.sas.fixed.token"
    of_container = f"{base}.{container.name}.{container.host}"
    keys = (of_container, *_keys(base, container))
    return {"sas_token": conf.required(_shown(container), *keys, option="sas_token")}


def _oauth(container: Container, conf: HadoopConf) -> dict[str, Any]:
    provider = _token_provider(container, conf)
    read = _BY_PROVIDER.get(provider.rpartition("azurebfs.oauth2.")[2])
    if read is None:
        what = f"names {provider or 'nothing'}, which Python cannot call"
        raise refusal(_shown(container), _PROVIDER, what, "credential")
    return read(container, conf)


def _token_provider(container: Container, conf: HadoopConf) -> str:
    """The provider's class. As in Hadoop, the key of all accounts counts only if their type is OAuth."""
    of_account, common = _keys(_PROVIDER, container)
    provider = conf.get(of_account)
    if provider is None and (conf.get(_AUTH_TYPE) or "").lower() == "oauth":
        provider = conf.get(common)
    return provider or ""


def _client_secret(container: Container, conf: HadoopConf) -> dict[str, Any]:
    endpoint = _required(container, conf, "client.endpoint", "tenant_id")
    url = urlsplit(endpoint)
    tenant = url.path.strip("/").partition("/")[0]
    arguments = {
        "tenant_id": tenant,
        "client_id": _required(container, conf, "client.id", "client_id"),
        "client_secret": _required(container, conf, "client.secret", "client_secret"),
    }
    if not tenant:
        key = f"{_OAUTH}.client.endpoint"
        raise refusal(_shown(container), key, "does not name a tenant", "tenant_id")
    login = f"{url.scheme}://{url.netloc}"
    # Azure's public cloud is what adlfs asks by itself; any other cloud needs a credential object.
    if login == LOGIN:
        return arguments
    return {"credential": AzureIdentity("ClientSecretCredential", {**arguments, "authority": login})}


def _managed(container: Container, conf: HadoopConf) -> dict[str, Any]:
    endpoint = conf.get(*_keys(f"{_OAUTH}.msi.endpoint", container)) or OWN_MSI_ENDPOINT
    if endpoint.rstrip("/") != OWN_MSI_ENDPOINT:
        key = f"{_OAUTH}.msi.endpoint"
        raise refusal(_shown(container), key, "is not the one that Azure's client uses", "credential")
    client = conf.secret(*_keys(f"{_OAUTH}.client.id", container))
    return {"credential": AzureIdentity("ManagedIdentityCredential", {"client_id": client})}


def _workload(container: Container, conf: HadoopConf) -> dict[str, Any]:
    def optional(name: str, default: str) -> str:
        return conf.secret(*_keys(f"{_OAUTH}.{name}", container)) or default

    arguments = {
        "tenant_id": _required(container, conf, "msi.tenant", "credential"),
        "client_id": _required(container, conf, "client.id", "credential"),
        "token_file_path": optional("token.file", TOKEN_FILE),
        "authority": optional("msi.authority", LOGIN).rstrip("/"),
    }
    return {"credential": AzureIdentity("WorkloadIdentityCredential", arguments)}


def _required(container: Container, conf: HadoopConf, name: str, option: str) -> str:
    return conf.required(_shown(container), *_keys(f"{_OAUTH}.{name}", container), option=option)


_Reader = Callable[[Container, HadoopConf], dict[str, Any]]

_BY_TYPE: dict[str, _Reader] = {"sharedkey": _shared_key, "sas": _sas, "oauth": _oauth}
_BY_PROVIDER: dict[str, _Reader] = {
    "ClientCredsTokenProvider": _client_secret,
    "MsiTokenProvider": _managed,
    "WorkloadIdentityTokenProvider": _workload,
}
