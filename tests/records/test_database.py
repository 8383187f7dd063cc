"""The URL of a database, which is shown without its password, and errors that do not show it either."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from ray_committer.errors import (
    DatabaseRefusedError,
    DatabaseUnavailableError,
    PathError,
    SettingsError,
)
from ray_committer.records import session as session_module
from ray_committer.records.connect import as_ours, connect
from ray_committer.records.database import parse_database, sqlite_path
from ray_committer.records.job import start_job
from ray_committer.records.session import open_session
from ray_committer.records.table import Table, find_table, write_id_of
from tests.records.places import SCHEMA, Place, open_job
from tests.servers.postgresql import PASSWORD, Postgresql

pytestmark = pytest.mark.xdist_group("postgresql")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgres://u:pa%40ss@host:5433/db", "postgresql://u@host:5433/db"),
        (
            "postgresql://u:a:b@h1:1,h2:2/db?sslmode=require",
            "postgresql://u@h1:1,h2:2/db?sslmode=require",
        ),
        ("postgresql:///db?host=/var/run", "postgresql:///db?host=/var/run"),
        ("sqlite:///a/b%20c.db", "sqlite:///a/b%20c.db"),
        ("sqlite:////a/b c.db", "sqlite:///a/b%20c.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str):
    found = pickle.loads(pickle.dumps(parse_database(url)))
    assert found.shown == shown
    assert parse_database(shown).shown == shown
    assert "pa%40ss" not in repr(found)
    if "pa%40ss" in url:
        assert found.hide("of pa@ss and pa%40ss") == "of ... and ..."


def test_libpq_notices_a_server_that_does_not_answer_unless_the_url_says_otherwise():
    address = parse_database("postgresql://h/db?connect_timeout=5").address
    assert "connect_timeout=5&" in address
    assert address.count("connect_timeout") == 1
    assert "tcp_user_timeout=60000" in address


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:geheim/x@host/db",
        "postgresql:/u:geheim@host/db",
        "postgresql://u:a@geheim@host/db",
        "postgresql://u:geheim?x@host/db",
        "postgresql://u:geheim x@host/db",
        "postgresql://u:geheim#x@host/db",
        "postgresql://host/db?password=geheim",
        "sqlite:///",
        "sqlite://relative.db",
        "sqlite:///a.db?mode=memory",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str):
    with pytest.raises(PathError) as caught:
        parse_database(url)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("url", ["/a", "sqlite", "gs://u:geheim@a/b", "file:///a.db"])
def test_a_directory_is_no_database(url: str):
    with pytest.raises(PathError, match="is not the URL of a database") as caught:
        parse_database(url)
    assert "geheim" not in str(caught.value)


@pytest.mark.server
def test_an_error_of_the_driver_does_not_show_the_password(
    postgresql: Postgresql, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session_module, "REPETITIONS", 0)
    for url in (
        postgresql.url().replace(PASSWORD, "Geheim-0815"),
        "postgresql://u:Geheim-0815%zz@127.0.0.1/db",
        "postgresql://u:Geheim-0815@127.0.0.1:1/db",
    ):
        with pytest.raises(DatabaseUnavailableError) as caught:
            start_job(url, "t")
        assert "Geheim-0815" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.server
def test_a_permission_that_is_missing_is_named(postgresql: Postgresql, postgres_place: Place):
    postgresql.run("CREATE ROLE stranger LOGIN PASSWORD 'x'")
    url = postgresql.url().replace(f"committer:{PASSWORD}", "stranger:x")
    with pytest.raises(DatabaseRefusedError, match="permission denied for schema"):
        start_job(url, postgres_place.table, schema=SCHEMA)


def test_an_unknown_mode_and_a_missing_directory_are_named(tmp_path: Path):
    with pytest.raises(SettingsError, match="append, overwrite, error, ignore"):
        start_job(f"sqlite://{tmp_path}/a.db", "t", mode="upsert")
    with pytest.raises(FileNotFoundError):
        start_job(f"sqlite://{tmp_path}/none/a.db", "t")
    with (
        pytest.raises(PathError, match="does not exist"),
        open_session(parse_database(f"sqlite://{tmp_path}/none.db"), connect),
    ):
        pass
    assert sqlite_path(parse_database("sqlite:///a%20b")) == "/a b"


@pytest.mark.alternate
@pytest.mark.parametrize(
    "name", ["", ".t", "a.", "a.b.c", "s" * 2000 + ".t", "_ray_committer_jobs", "t" * 2000]
)
def test_a_name_that_is_no_table_is_refused(place: Place, name: str):
    with pytest.raises(PathError):
        place.look.run(lambda session: find_table(session, name))


def test_a_table_without_a_schema_is_where_the_database_looks_for_it(place: Place):
    job = open_job(place)
    assert job.table == place.at
    found = place.look.run(lambda session: find_table(session, "elsewhere"))
    assert found.schema == ("main" if place.kind == "sqlite" else "public")
    if place.kind == "sqlite":
        with pytest.raises(PathError, match="no schemas"):
            place.look.run(lambda session: find_table(session, "a.b"))


def test_the_name_of_a_staging_table_has_the_write_id_and_fits():
    table = Table(parse_database("sqlite:///a.db"), "s", 't"x' * 10)
    name = table.new_staging(12)
    assert write_id_of(table, name) == 12
    assert write_id_of(table, table.all_staging + "x_y") is None
    assert len(table.new_staging(10**18)) <= 63
    assert name != table.new_staging(12)
    assert not name.startswith(table.staging_prefix(1))
    assert table.quoted == '"s"."' + 't""x' * 10 + '"'


@pytest.mark.parametrize(
    ("text", "is_for_now"),
    [
        ("IO: [SQLite] Failed to step query: database is locked", True),
        ("INTERNAL: [SQLite] Failed to execute query: database table is locked", True),
        ("INTERNAL: [SQLite] Failed to step query: UNIQUE constraint failed: locked.busy", False),
    ],
)
def test_a_name_in_a_message_of_sqlite_does_not_mean_that_it_is_locked(text: str, is_for_now: bool):
    error = as_ours(RuntimeError(text), parse_database("sqlite:///a.db"))
    assert isinstance(error, DatabaseUnavailableError) is is_for_now


@pytest.mark.server
def test_a_search_path_without_a_schema_is_named(postgresql: Postgresql):
    with pytest.raises(PathError, match="search_path"):
        start_job(postgresql.url() + "?options=-csearch_path%3Dnowhere", "t")
