"""PostgreSQL and SQLite for the tests of record jobs: one server per process, one schema per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from adbc_driver_manager.dbapi import Connection
from adbc_driver_postgresql import dbapi

from ray_committer.records.connect import connect
from ray_committer.records.database import parse_database
from ray_committer.records.session import Sessions, sessions
from tests.records import places
from tests.records.places import Place
from tests.servers.postgresql import Postgresql, postgresql_server


@pytest.fixture(scope="session", autouse=True)
def _types_are_read_once_per_url() -> Iterator[None]:
    """ADBC's driver reads all types of a server before its first connection: 50 ms of CPU."""
    first: dict[str, Connection] = {}
    connect_anew = dbapi.connect

    def connect(uri: str, *, autocommit: bool) -> Connection:
        if uri not in first:
            first[uri] = connect_anew(uri, autocommit=autocommit)
        other = first[uri].adbc_clone()
        other.adbc_connection.set_autocommit(autocommit)
        return other

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dbapi, "connect", connect)
        yield
    for each in first.values():
        each.close()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    with postgresql_server() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "postgresql":
        yield request.getfixturevalue("postgres_place")
        return
    (tmp_path / "a b.db").touch()
    url = f"sqlite://{tmp_path}/a%20b.db"
    with sessions(parse_database(url), connect) as look:
        yield Place(url, "main", "sqlite", look)


@pytest.fixture(scope="session")
def postgresql_look(postgresql: Postgresql) -> Iterator[Sessions]:
    with sessions(parse_database(postgresql.url()), connect) as look:
        yield look


@pytest.fixture
def postgres_place(postgresql: Postgresql, postgresql_look: Sessions) -> Place:
    return places.postgres_place(postgresql, postgresql_look)
