"""Translate the settings of Google's connector for Hadoop to storage options of gcsfs.

Connector 3 has ``fs.gs.auth.type``; connector 2 tries the keys that are set, in its own order. Each key
of connector 2 has the prefix ``fs.gs`` or ``google.cloud``; as in the connector, the first one counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ray_committer.errors import SettingsError
from ray_committer.spark.hadoop.conf import HadoopConf, refusal

DEFAULT_ROOT = "https://storage.googleapis.com"
TOKEN_URL = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address

Token = str | dict[str, str] | None


def gs_options(bucket: str, conf: HadoopConf, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the storage options for a bucket. If no key has a credential, gcsfs finds its own."""
    store = f"gs://{bucket}"
    if conf.secret("fs.gs.encryption.key"):
        raise SettingsError(
            f"{store}: Hadoop's fs.gs.encryption.key encrypts the tasks' files with a key that the "
            f"commit cannot send",
            "encrypt the bucket with a key of Cloud KMS instead",
        )
    options: dict[str, Any] = {}
    token = None if "token" in given else _token(store, conf)
    if token is not None:
        options["token"] = token
    project = conf.get("fs.gs.project.id")
    if project and token not in (None, "google_default"):  # with these, gcsfs accepts only its default
        options["project"] = project
    root = (conf.get("fs.gs.storage.root.url") or DEFAULT_ROOT).rstrip("/")
    if root != DEFAULT_ROOT:
        options["endpoint_url"] = root
    payer = None if "requester_pays" in given else _requester_pays(store, bucket, conf)
    return options | ({"requester_pays": payer} if payer else {})


def _auth(name: str) -> tuple[str, str]:
    """The two keys of an authentication property, the stronger one first."""
    return f"fs.gs.auth.{name}", f"google.cloud.auth.{name}"


def _required(store: str, conf: HadoopConf, name: str) -> str:
    return conf.required(store, *_auth(name), option="token")


def _set_key(conf: HadoopConf, name: str) -> str | None:
    return next((key for key in _auth(name) if conf.get(key)), None)


def _token(store: str, conf: HadoopConf) -> Token:
    for key in conf.settings:
        if "auth.impersonation.service.account" in key and key.startswith(("fs.gs.", "google.cloud.")):
            raise refusal(store, key, "asks for an impersonation that the commit cannot repeat", "token")
    kind = conf.get(*_auth("type"))
    if kind is None:
        return _token_of_connector_2(store, conf)
    if kind.upper() not in _BY_TYPE:
        key = _set_key(conf, "type") or "fs.gs.auth.type"
        raise refusal(store, f"{key}={kind}", "is a login method the commit does not support", "token")
    return _BY_TYPE[kind.upper()](store, conf)


def _token_of_connector_2(store: str, conf: HadoopConf) -> Token:
    """Choose as connector 2 does without a type: a provider, then the first kind of key that is set."""
    for name in ("access.token.provider.impl", "access.token.provider"):
        if key := _set_key(conf, name):
            raise refusal(store, key, "names a token provider, which Python cannot call", "token")
    # The connector's own order: a key that is set but comes later in it is not used by the tasks either.
    if not conf.is_true(*_auth("service.account.enable"), default=True):
        return _token_without_service_account(store, conf)
    if conf.secret(*_auth("service.account.private.key")):
        return _inline_key(store, conf)
    if conf.get(*_auth("service.account.json.keyfile")):
        return _key_file(store, conf)
    if key := _set_key(conf, "service.account.keyfile"):
        raise refusal(store, key, "names a P12 file, which gcsfs cannot read", "token")
    return None


def _token_without_service_account(store: str, conf: HadoopConf) -> Token:
    if conf.get(*_auth("client.id")):
        return _user(store, conf)
    if conf.is_true(*_auth("null.enable")):
        return "anon"
    key = _set_key(conf, "service.account.enable") or "fs.gs.auth.service.account.enable"
    raise refusal(store, f"{key}=false", "leaves no other way to log in", "token")


def _key_file(store: str, conf: HadoopConf) -> Token:
    path = _required(store, conf, "service.account.json.keyfile")
    return path.removeprefix("file://") if path.startswith("file:///") else path


def _inline_key(store: str, conf: HadoopConf) -> Token:
    return {
        "type": "service_account",
        "client_email": _required(store, conf, "service.account.email"),
        "private_key_id": _required(store, conf, "service.account.private.key.id"),
        # In a file of settings, line breaks are written as backslash and n.
        "private_key": _required(store, conf, "service.account.private.key").replace("\\n", "\n"),
        "token_uri": conf.get("fs.gs.token.server.url") or TOKEN_URL,
    }


def _user(store: str, conf: HadoopConf) -> Token:
    return {
        "type": "authorized_user",
        "client_id": _required(store, conf, "client.id"),
        "client_secret": _required(store, conf, "client.secret"),
        "refresh_token": _required(store, conf, "refresh.token"),
    }


_BY_TYPE: dict[str, Callable[[str, HadoopConf], Token]] = {
    "APPLICATION_DEFAULT": lambda _store, _conf: "google_default",
    "COMPUTE_ENGINE": lambda _store, _conf: "cloud",
    "SERVICE_ACCOUNT_JSON_KEYFILE": _key_file,
    "UNAUTHENTICATED": lambda _store, _conf: "anon",
    "USER_CREDENTIALS": _user,
}


def _requester_pays(store: str, bucket: str, conf: HadoopConf) -> str | None:
    """The project that pays; None if the bucket's owner pays."""
    key = "fs.gs.requester.pays.mode"
    mode = (conf.get(key) or "DISABLED").upper()
    buckets = (conf.get("fs.gs.requester.pays.buckets") or "").split(",")
    if mode == "DISABLED" or (mode == "CUSTOM" and bucket not in [name.strip() for name in buckets]):
        return None
    if mode not in ("ENABLED", "CUSTOM"):
        raise refusal(
            store, f"{key}={mode}", "asks each bucket, which the commit cannot do", "requester_pays"
        )
    return conf.required(store, "fs.gs.requester.pays.project.id", option="requester_pays")
