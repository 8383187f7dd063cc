"""No error and no line of the doctor shows a password, wherever a URL is malformed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ray_committer.cli.main import main
from ray_committer.errors import RayCommitterError, SettingsError
from ray_committer.stores.addresses import server_address, without_password
from ray_committer.stores.registry import open_store, resolve_destination


def shown(error: BaseException | None) -> str:
    """All that a traceback would print of an error and its causes, without the lines of code."""
    if error is None:
        return ""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return f"{error!r} {error} {shown(cause)}"


SECRETS = ["secret", "se/cret", "secret@more", "se?cret", "se#cret", "se cret", "12/secret"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("webhdfs://user:secret@host/a", "webhdfs://user@host/a"),
        ("sftp://user:se/cret@host/a", "sftp://user@host/a"),
        ("sftp://user:se@cret@host/a", "sftp://user@host/a"),
        ("sftp://:secret@host/a", "sftp://@host/a"),
        ("postgresq//user:secret@host/db", "postgresq//user@host/db"),
        ("postgresq:/user:secret@host/db", "postgresq:/user@host/db"),
        ("postgresq:user:secret@host/db", "postgresq:user@host/db"),
        ("user:secret@host/db", "user@host/db"),
        ("simplecache::sftp://user:secret@host/a", "simplecache::sftp://user@host/a"),
        ("cannot open hdfs://user:secret@host: no", "cannot open hdfs://user@host: no"),
        ("abfs://c@a.dfs.core.windows.net/x?sv=1&sig=secret&se=2",
         "abfs://c@a.dfs.core.windows.net/x?sv=1&sig=...&se=2"),
        ("https://h/b?X-Amz-Signature=secret&a=b", "https://h/b?X-Amz-Signature=...&a=b"),
        ("https://h/b?delegation=secret", "https://h/b?delegation=..."),
        ("host=h password=secret dbname=d", "host=h password=... dbname=d"),
        ("AccountName=a;AccountKey=secret", "AccountName=a;AccountKey=..."),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
        ("abfss://c@a.dfs.core.windows.net/a", "abfss://c@a.dfs.core.windows.net/a"),
        ("hdfs://host:8020/a@b", "hdfs://host:8020/a@b"),
        ("/data/at@home:x", "/data/at@home:x"),
        ("s3://bucket/key=5/a", "s3://bucket/key=5/a"),
    ],
)  # fmt: skip
def test_a_url_is_shown_without_what_it_keeps_secret(text: str, shown: str):
    assert without_password(text) == shown


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "form",
    [
        "https//user:{}@host:9000",
        "user:{}@host:9000",
        "https://user:{}@host:9000",
        "https://user:{}",
        "ftp://user:{}@host",
        "https://:{}@",
        "https://[user:{}@host",
        "https://host:9000?token={}",
        "{}",
    ],
)
def test_an_address_that_cannot_be_used_is_not_shown(form: str, secret: str):
    with pytest.raises(SettingsError, match=r"s3://b: endpoint_url is not an address") as caught:
        server_address("s3://b", "endpoint_url", form.format(secret))
    assert "cret" not in shown(caught.value)


ACCOUNT = {"account_key": "a2V5"}


@pytest.mark.parametrize("secret", ["secret", "se/cret"])
@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://b/t", {"endpoint_url": "https//user:{}@host"}),
        ("s3://b/t", {"endpoint_url": "https://user:{}"}),
        ("gs://b/t", {"endpoint_url": "https://user:{}", "token": "anon"}),
        ("abfs://c@acct.dfs.core.windows.net/t", {**ACCOUNT, "endpoint": "https//user:{}@host"}),
        ("abfs://c@acct.dfs.core.windows.net/t", {"anon": True, "endpoint": "http://host?sig={}"}),
        ("abfs://c@acct.dfs.core.windows.net/t",
         {"connection_string": "AccountName=acct;AccountKey={};BlobEndpoint=http//x"}),
        ("webhdfs://host:9870/t", {"webhdfs_url": "https//user:{}@host"}),
        ("webhdfs://user:{}@host/t", {"webhdfs_url": "https://user:{}"}),
        ("webhdfs://user:{}/t", {}),
        ("s3://user:{}@bucket/t", {}),
        ("gs://user:{}@bucket/t", {}),
        ("abfs://user:{}@acct.dfs.core.windows.net/t", ACCOUNT),
    ],
)  # fmt: skip
def test_a_store_that_is_misspelt_is_refused_without_its_password(
    url: str, options: dict[str, Any], secret: str
):
    given = {name: str(value).format(secret) for name, value in options.items()}
    with pytest.raises((RayCommitterError, OSError)) as caught:
        open_store(resolve_destination(url.format(secret), given)[0], retry_seconds=0.0)
    assert "cret" not in shown(caught.value)


@pytest.mark.parametrize("command", ["doctor", "status", "commit"])
@pytest.mark.parametrize("secret", ["secret", "se/cret", "se@cret"])
@pytest.mark.parametrize(
    "url",
    [
        "postgresq//user:{}@host/db",
        "postgresq:/user:{}@host/db",
        "postgressql:user:{}@host/db",
        "user:{}@host/db",
        "Postgresql://user:{}@host/db",
        "postgresql+psycopg://user:{}@host/db",
        "s3:/user:{}@bucket",
        " s3://user:{}@bucket/t",
        "//user:{}@host/t",
        "s3://bucket?X-Amz-Signature={}",
    ],
)
def test_no_command_shows_a_misspelt_database_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, url: str, secret: str
):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, [command, url.format(secret)])
    assert done.exit_code in (1, 2)
    assert "host" in done.output or "bucket" in done.output or "postgresql:..." in done.output
    assert "cret" not in done.output


def test_a_path_with_the_form_of_a_password_is_one_behind_a_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert resolve_destination("./user:a@b")[1] == f"{tmp_path}/user:a@b"
