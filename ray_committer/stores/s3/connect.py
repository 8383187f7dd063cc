"""Where a bucket is, and with which credentials: from the storage options, then as botocore finds them.

botocore's resolver knows the environment, profiles, SSO, web identities of pods, containers and
instances, and refreshes what expires. Its client makes no request: one costs 25 times as much.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ray_committer.errors import SettingsError, StoreRefusedError, StoreUnavailableError
from ray_committer.stores.addresses import server_address
from ray_committer.stores.answers import CredentialsRefusedError, refuse_lasting
from ray_committer.stores.options import is_true
from ray_committer.stores.s3.sign import Keys

DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Place:
    """The address of a bucket: `base` is its URL without a slash at its end, `host` is signed, and
    `prefix` is the quoted part of each path before an object's name."""

    base: str
    host: str
    prefix: str
    region: str


class Credentials:
    """The keys that sign requests, refreshed as botocore does it; used by many threads."""

    def __init__(self, bucket: str, options: Mapping[str, Any]) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._bucket = bucket
        self._found: Any = None
        self.is_anonymous = is_true("anon", options.get("anon") or False)
        key, secret = options.get("key"), options.get("secret")
        self._fixed = Keys(str(key), str(secret), options.get("token")) if key and secret else None
        if bool(key) is not bool(secret):
            raise SettingsError(f"s3://{bucket}: key and secret belong together", "give both or neither")
        self._profile = options.get("profile")
        self._session = new_session(bucket, self._profile) if self._profile else None

    def keys(self) -> Keys | None:
        """Return the present keys; None for anonymous requests."""
        if self._fixed is not None or self.is_anonymous:
            return self._fixed
        if self._process != os.getpid():  # a child may have inherited a locked lock
            self._lock, self._process, self._found = threading.Lock(), os.getpid(), None
        with self._lock:
            if self._found is None:
                self._found = self._find()
            try:
                frozen = self._found.get_frozen_credentials()
            except Exception as e:  # each provider of botocore has errors of its own
                if _is_login_over(e):
                    raise CredentialsRefusedError(
                        errno.EACCES, f"the login has ended ({e}): run aws sso login", f"/{self._bucket}"
                    ) from e
                refuse_lasting(e, f"/{self._bucket}")
                raise StoreUnavailableError(
                    f"/{self._bucket}",
                    f"the credentials could not be refreshed: {type(e).__name__}: {e}",
                ) from e
        return Keys(frozen.access_key, frozen.secret_key, frozen.token)

    def renewed(self, refused: Keys | None) -> Keys | None:
        """Return other keys than those that were `refused`; None if there are none."""
        if self._fixed is not None or self.is_anonymous:
            return None
        with self._lock:
            # The session too, since a profile or a role may have changed on disk.
            self._session = self._found = None
        keys = self.keys()
        return keys if keys != refused else None

    def setting(self, name: str) -> str | None:
        """Return a setting of the user's profile or environment."""
        session = self._in_use()
        value = session.get_config_variable(name) or session.get_scoped_config().get(name)
        return str(value) if value else None

    def _in_use(self) -> Any:
        """Return the session; it is made when it is needed first, because that takes 10 milliseconds."""
        if self._session is None:
            self._session = new_session(self._bucket, self._profile)
        return self._session

    def _find(self) -> Any:
        credentials = self._in_use().get_credentials()
        if credentials is None:
            raise CredentialsRefusedError(
                errno.EACCES,
                "no credentials are found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a "
                "profile, on all nodes",
                f"/{self._bucket}",
            )
        return credentials


def _is_login_over(error: Exception) -> bool:
    from botocore.exceptions import SSOError, TokenRetrievalError

    return isinstance(error, SSOError | TokenRetrievalError)


def new_session(bucket: str, profile: str | None) -> Any:
    """Return botocore's session; `StoreRefusedError` for a profile that does not exist."""
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        session = Session(profile=profile)
        if aws_region := os.environ.get("AWS_REGION"):  # of the other SDKs; botocore knows another name
            session.set_config_variable("region", aws_region)
        session.get_scoped_config()
    except BotoCoreError as e:
        raise StoreRefusedError(f"s3://{bucket}: {e}", "name a profile that is on all nodes") from e
    return session


def find_place(bucket: str, options: Mapping[str, Any], credentials: Credentials) -> Place:
    """Return the address of a bucket; `SettingsError` for an endpoint that is not an address."""
    region = str(options.get("region") or credentials.setting("region") or DEFAULT_REGION)
    named, endpoint = _endpoint(options, credentials)
    by_path = options.get("path_style")
    # Other servers seldom name each bucket, and a dot in a bucket's name breaks the certificate.
    is_by_path = bool(endpoint) or "." in bucket if by_path is None else is_true("path_style", by_path)
    country = ".cn" if region.startswith("cn-") else ""
    address = endpoint or f"https://s3.{region}.amazonaws.com{country}"
    url = server_address(f"s3://{bucket}", named, address)
    default = 443 if url.scheme == "https" else 80
    name = url.hostname or ""
    host = name if url.port in (None, default) else f"{name}:{url.port}"
    if is_by_path:
        return Place(f"{url.scheme}://{host}/{bucket}", host, f"/{bucket}", region)
    return Place(f"{url.scheme}://{bucket}.{host}", f"{bucket}.{host}", "", region)


def _endpoint(options: Mapping[str, Any], credentials: Credentials) -> tuple[str, str | None]:
    """Return what names the address of another server than Amazon's, and that address."""
    if given := options.get("endpoint_url"):
        return "the storage option endpoint_url", str(given)
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if given := os.environ.get(name):
            return name, given
    return "the endpoint_url of the profile, or the region,", credentials.setting("endpoint_url")


def trusted_certificates(credentials: Credentials) -> str | None:
    """Return the file of certificates that the environment or the profile names for Amazon's clients."""
    return os.environ.get("AWS_CA_BUNDLE") or credentials.setting("ca_bundle")
