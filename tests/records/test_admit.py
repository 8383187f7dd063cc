"""What a database would do to rows without an error: the commit refuses it, or prevents it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ray_committer.errors import (
    CommitConflictError,
    DatabaseRefusedError,
    DatabaseUnavailableError,
    IncompleteJobError,
    PathError,
    TableColumnsError,
)
from ray_committer.records.commit import commit_job
from ray_committer.records.job import start_job
from ray_committer.records.session import LOCK_SECONDS, Session
from ray_committer.records.task import write_attempt
from tests.records.places import SCHEMA, Followed, Place, open_job, rows, write
from tests.servers.postgresql import PASSWORD, Postgresql

pytestmark = [pytest.mark.xdist_group("postgresql"), pytest.mark.alternate]

KEEP_ROWS = {
    "sqlite": "CREATE TRIGGER keep BEFORE DELETE ON t BEGIN SELECT RAISE(IGNORE); END",
    "postgresql": "CREATE RULE keep AS ON DELETE TO {t} DO INSTEAD NOTHING",
}


def with_role(place: Place, server: Postgresql, name: str, *settings: str) -> str:
    """The URL of a role that may do all in the schema of a place, and has these settings."""
    server.run(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
    server.run(f'GRANT ALL ON SCHEMA "{place.schema}" TO {name}')
    server.run(f'GRANT ALL ON ALL TABLES IN SCHEMA "{place.schema}" TO {name}')
    for setting in settings:
        server.run(f"ALTER ROLE {name} SET {setting}")
    return place.url.replace("committer:", f"{name}:")


def test_an_attempt_counts_once_and_for_its_own_job(place: Place):
    job, other = open_job(place), open_job(place)
    mine, others = write_attempt(job, [rows(1)]), write_attempt(other, [rows(2)])
    for attempts, words in (([mine, mine], "named twice"), ([mine, others], "of another job")):
        with pytest.raises(IncompleteJobError, match=words):
            commit_job(job, attempts)
    assert place.states() == [(1, "open"), (2, "open")]
    assert commit_job(job, [mine]).rows == 1
    assert place.ids() == [1]


def test_an_overwrite_that_cannot_delete_all_rows_commits_nothing(place: Place):
    write(place, [rows(0)])
    place.query(KEEP_ROWS[place.kind])
    with pytest.raises(CommitConflictError, match="rows are left"):
        write(place, [rows(1)], mode="overwrite")
    assert place.ids() == [0]


@pytest.mark.server
@pytest.mark.parametrize("mode", ["overwrite", "error"])
def test_rows_that_a_policy_hides_are_not_passed_over(
    postgresql: Postgresql, postgres_place: Place, mode: str
):
    place = postgres_place
    write(place, [rows(0)])
    url = with_role(place, postgresql, f"secured_{mode}")
    place.query("ALTER TABLE {t} ENABLE ROW LEVEL SECURITY")
    place.query("CREATE POLICY new ON {t} USING (id > 0) WITH CHECK (true)")
    job = start_job(url, place.table, mode=mode)
    assert job is not None
    with pytest.raises(DatabaseRefusedError, match="row-level security"):
        commit_job(job, [write_attempt(job, [rows(1)])])
    assert place.ids() == [0]


@pytest.mark.server
def test_settings_of_a_role_change_no_text_and_end_no_statement(
    postgresql: Postgresql, postgres_place: Place
):
    settings = "client_encoding = 'LATIN1'", "statement_timeout = '50ms'", "idle_session_timeout = 100"
    url = with_role(postgres_place, postgresql, "odd", *settings)

    def slow():
        yield rows(1).set_column(1, "text", pa.array(["é日本"]))
        postgres_place.query("SELECT pg_sleep(0.2)")
        yield rows(*range(2, 20_000))

    job = start_job(url, postgres_place.table)
    assert job is not None
    assert commit_job(job, [write_attempt(job, slow())]).rows == 19_999
    assert postgres_place.query("SELECT text FROM {t} WHERE id = 1") == [("é日本",)]


@pytest.mark.server
def test_a_role_that_only_reads_is_refused_before_any_task_runs(
    postgresql: Postgresql, postgres_place: Place
):
    url = with_role(postgres_place, postgresql, "reader", "default_transaction_read_only = on")
    with pytest.raises(DatabaseRefusedError, match="read-only transaction"):
        start_job(url, postgres_place.table)


@pytest.mark.server
def test_a_varchar_cuts_no_spaces_off(postgres_place: Place):
    postgres_place.query("CREATE TABLE {t} (id bigint, text varchar(5))")
    write(postgres_place, [rows(1)])
    with pytest.raises(TableColumnsError, match="column 'text' is character varying"):
        write(postgres_place, [rows(2).set_column(1, "text", pa.array(["row 2 "]))])
    assert postgres_place.ids() == [1]


def test_a_view_is_refused_before_any_task_runs(place: Place):
    base = place.at.beside("base")
    place.query(f"CREATE TABLE {base} (id bigint, text text)")
    place.query(f"CREATE VIEW {{t}} AS SELECT * FROM {base}")
    with pytest.raises(PathError, match="is a view"):
        start_job(place.url, place.table, schema=SCHEMA)


@pytest.mark.server
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_column_is_not_altered_between_its_check_and_the_rows(postgres_place: Place, mode: str):
    write(postgres_place, [rows(0)])
    table = postgres_place.at.quoted
    refused: list[str] = []

    def alter(session: Session) -> None:
        session.dialect.settle(session, 0.05)
        with pytest.raises(DatabaseUnavailableError, match="lock timeout") as caught:
            session.execute(f"ALTER TABLE {table} ALTER COLUMN text TYPE varchar(5)")
        refused.append(caught.value.what)
        session.dialect.settle(session, LOCK_SECONDS)

    def before(_number: int) -> None:
        if followed.texts[-1].startswith((f"INSERT INTO {table}", "DELETE")):
            postgres_place.look.run(alter)

    followed = Followed(before)
    write(postgres_place, [rows(1)], mode=mode, connect=followed)
    assert refused
    assert 1 in postgres_place.ids()
