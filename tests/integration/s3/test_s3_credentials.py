"""With which credentials requests to S3 are signed: each place in which botocore looks for them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ray_committer.stores.answers import CredentialsRefusedError
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.s3.store import S3Store
from tests.servers.aws_credentials import CONTAINER, CredentialServers
from tests.servers.fake_s3 import FakeS3, FakeS3Server
from tests.servers.moto import MotoServer

pytestmark = pytest.mark.xdist_group("s3")


_KEY = re.compile(r"Credential=([^/]+)/\d{8}/([^/]+)/")


class Signed:
    """A server of S3 that notes with which access key, region and token of a session it was asked."""

    def __init__(self) -> None:
        self.seen: list[tuple[str | None, str | None, str | None]] = []
        fake = FakeS3(buckets={"bucket": {}}, region="")
        respond = fake.respond

        def note(method: str, path: str, query: str, headers, body: bytes):
            found = _KEY.search(headers.get("authorization", ""))
            key, region = (found[1], found[2]) if found else (None, None)
            self.seen.append((key, region, headers.get("x-amz-security-token")))
            return respond(method, path, query, {}, body)

        fake.respond = note  # type: ignore[method-assign]
        self.server = FakeS3Server(fake).start()

    def by(self, **options: object) -> tuple[str | None, str | None, str | None]:
        """What a new store's last request was signed with."""
        self.opened(**options).get_status("/x")
        return self.seen[-1]

    def opened(self, **options: object) -> S3Store:
        return S3Store(StoreSpec("s3", "bucket", {"endpoint_url": self.server.url, **options}))


@pytest.fixture
def signed() -> Iterator[Signed]:
    signed = Signed()
    yield signed
    signed.server.stop()


@pytest.fixture
def servers() -> Iterator[CredentialServers]:
    servers = CredentialServers().start()
    yield servers
    servers.stop()


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials anywhere, and no metadata service of a machine on which the tests may run."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "BOTO_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def configure(home: Path, config: str = "", credentials: str = "") -> None:
    (home / ".aws").mkdir()
    (home / ".aws" / "config").write_text(config)
    (home / ".aws" / "credentials").write_text(credentials)


def test_options_come_first(signed: Signed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert signed.by(key="k", secret="s", token="t") == ("k", "us-east-1", "t")
    assert signed.by(anon=True) == (None, None, None)


def test_the_environment(signed: Signed, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert signed.by() == ("of-the-environment", "us-east-1", None)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    assert signed.by() == ("of-the-environment", "eu-west-3", "token")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")  # that of the other SDKs, which botocore passes over
    assert signed.by() == ("of-the-environment", "eu-north-1", "token")
    assert signed.by(region="eu-west-1")[1] == "eu-west-1"


def test_profiles(signed: Signed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    script = tmp_path / "keys.py"
    keys = {"Version": 1, "AccessKeyId": "of-a-process", "SecretAccessKey": "s", "SessionToken": "t"}
    script.write_text(f"print({json.dumps(json.dumps(keys))})")
    configure(
        tmp_path,
        "[default]\nregion = eu-west-3\n[profile other]\nregion = eu-west-1\n"
        f"[profile process]\ncredential_process = {sys.executable} {script}\n",
        "[default]\naws_access_key_id = of-the-default\naws_secret_access_key = s\n"
        "[other]\naws_access_key_id = of-the-other\naws_secret_access_key = s\n",
    )
    assert signed.by() == ("of-the-default", "eu-west-3", None)
    assert signed.by(profile="other") == ("of-the-other", "eu-west-1", None)
    assert signed.by(profile="process") == ("of-a-process", "us-east-1", "t")
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert signed.by()[0] == "of-the-other"


@pytest.mark.wide
@pytest.mark.server
@pytest.mark.parametrize("how", ["web identity", "role of a profile"])
def test_a_role_by_the_security_token_service(
    signed: Signed, moto: MotoServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
):
    """The first is what a pod of EKS has: the service account's token in a file, and a role for it."""
    role = "arn:aws:iam::123456789012:role/committer"
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto.url)
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    if how == "web identity":
        (tmp_path / "token").write_text("the token of the service account")
        monkeypatch.setenv("AWS_ROLE_ARN", role)
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    else:
        own = "[base]\naws_access_key_id = base\naws_secret_access_key = s\n"
        configure(tmp_path, f"[default]\nrole_arn = {role}\nsource_profile = base\n", own)
    key, region, token = signed.by()
    assert (key or "").startswith("ASIA")  # the keys of a session
    assert (region, bool(token)) == ("eu-west-3", True)


def set_container(servers: CredentialServers, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{servers.url}{CONTAINER}")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", servers.token)


def set_pod(servers: CredentialServers, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    (home / "token").write_text(servers.token)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{servers.url}{CONTAINER}")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(home / "token"))


def set_instance(servers: CredentialServers, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", servers.url)


def set_portal(servers: CredentialServers, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """What ``aws sso login`` leaves."""
    start = "https://portal.example/start"
    configure(
        home,
        f"[default]\nsso_session = own\nsso_account_id = 123456789012\nsso_role_name = committer\n"
        f"[sso-session own]\nsso_start_url = {start}\nsso_region = us-east-1\n",
    )
    cache = home / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True)
    ends = (datetime.now(UTC) + timedelta(hours=8)).strftime("%Y-%m-%dT%H:%M:%SZ")
    token = {"accessToken": "login", "expiresAt": ends, "startUrl": start, "region": "us-east-1"}
    name = hashlib.sha1(b"own", usedforsecurity=False).hexdigest()
    (cache / f"{name}.json").write_text(json.dumps(token))
    # botocore has asked for the home directory when it was imported.
    monkeypatch.setattr("botocore.tokens.SSOTokenProvider._SSO_TOKEN_CACHE_DIR", str(cache))
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", servers.url)


PLACES: dict[str, tuple[str, Callable[[CredentialServers, pytest.MonkeyPatch, Path], None]]] = {
    "container": ("container", set_container),
    "pod": ("container", set_pod),
    "instance": ("instance", set_instance),
    "portal": ("portal", set_portal),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_container_a_pod_an_instance_and_the_portal(
    signed: Signed,
    servers: CredentialServers,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    place: str,
):
    kind, set_up = PLACES[place]
    set_up(servers, monkeypatch, tmp_path)
    store = signed.opened()
    for _ in range(3):
        store.get_status("/x")
    assert {one[0] for one in signed.seen} == {f"{kind}-1"}
    assert {one[2] for one in signed.seen} == {f"token of {kind}-1"}
    assert servers.asked == {kind: 1}


def test_keys_that_end_soon_are_renewed(
    signed: Signed, servers: CredentialServers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    set_container(servers, monkeypatch, tmp_path)
    servers.seconds = 700.0  # botocore renews 15 minutes before the end, if it can
    store = signed.opened()
    store.get_status("/x")
    early = {one[0] for one in signed.seen}
    servers.seconds = 3600.0
    for _ in range(3):
        store.get_status("/x")
    late = [one[0] for one in signed.seen][-3:]
    assert len(set(late)) == 1
    assert late[0] not in early
    assert servers.asked["container"] < 6, "keys that do not end soon are kept"


def test_a_login_that_has_ended_is_one_clear_error_at_once(
    signed: Signed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    set_portal(CredentialServers(), monkeypatch, tmp_path)
    for one in (tmp_path / ".aws" / "sso" / "cache").iterdir():
        one.unlink()
    with pytest.raises(CredentialsRefusedError, match="aws sso login"):
        signed.by()
    assert signed.seen == []


def test_none_at_all_is_one_clear_error(signed: Signed):
    with pytest.raises(CredentialsRefusedError, match="no credentials are found: set AWS_ACCESS_KEY_ID"):
        signed.by()
    assert signed.seen == []
