"""Tables with a log on S3: jobs that die, or lose an answer, at each request; what is refused there."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import suppress
from functools import partial

import pytest

import ray_committer
from ray_committer.errors import (
    CommitConflictError,
    RayCommitterError,
    StoreRefusedError,
    StoreUnavailableError,
)
from ray_committer.options import CommitOptions, CommittedTask
from ray_committer.places.choose import output_of
from ray_committer.places.task_files import TaskFiles
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.table_paths import DraftName
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.s3.store import S3Store
from ray_committer.table_jobs.make_table import make_table
from ray_committer.table_jobs.table import init_table
from ray_committer.table_jobs.table_job import write_task
from ray_committer.tables.among_others import Entrant
from ray_committer.tables.append import append, append_next
from ray_committer.tables.put import init_table as put_definition
from ray_committer.tables.put import put_entry
from ray_committer.testing import MemoryStore, SimulatedCrash, run_commit, visible_files, write_job
from ray_committer.work.worker import Worker
from tests import table_crashes
from tests.doubles import pending_uploads
from tests.machines.table_oracle import judge_log
from tests.servers.fake_s3 import SERVERS, FakeS3, FakeS3Store, Hook, direct_store
from tests.stages.support import context, requests
from tests.table_crashes import CASES_OF_A_SERVER, WORKS, check_finished, check_resolved, small_table
from tests.tables.support import DEFINITION, TABLE, claim_of, commit_of, table_on
from tests.tiers import RANGE

pytestmark = pytest.mark.xdist_group("s3")

ANSWERS = pytest.mark.parametrize("server", SERVERS)
"""What the server answers to a second completion of an upload."""


# Deaths and lost answers


@ANSWERS
@pytest.mark.parametrize(("work", "fate", "stride"), CASES_OF_A_SERVER)
def test_a_job_that_was_hit_at_any_request_to_the_log_is_finished_by_the_same_command(
    server: str, work: str, fate: str, stride: int
):
    check_finished(direct_store(FakeS3(**SERVERS[server])), "/warehouse", work, fate, stride)


@pytest.mark.wide
@ANSWERS
@pytest.mark.parametrize("work", ["append", "replace", "undo"])
def test_a_job_that_died_at_any_request_to_the_log_is_resolved_if_its_directory_is_deleted(
    server: str, work: str
):
    check_resolved(direct_store(FakeS3(**SERVERS[server])), "/warehouse", work, "after", 1)


class HttpHit:
    """Dies, or gets no answer, before or after the HTTP request with a number."""

    def __init__(self, number: int = 0, when: str = "", error: type[BaseException] = SimulatedCrash):
        self.number, self.when, self.error, self.seen = number, when, error, 0

    def on(self, fake: FakeS3) -> S3Store:
        return direct_store(fake, before=self.hook("before"), after=self.hook("after"))

    def hook(self, when: str) -> Hook:
        def hook(*request: str) -> None:
            self.seen += when == "before"
            if (self.seen, when) == (self.number, self.when):
                raise self.error(*request[:2])

        return hook


def hits(work: table_crashes.Work, fake: FakeS3) -> int:
    """The number of HTTP requests of a whole commit, and of the look at the bucket before it."""
    hit = HttpHit()
    table_crashes.run(hit.on(fake.copy()), TABLE, work)
    return hit.seen


HTTP_STRIDE = 29
STEPS = [
    pytest.param(step, marks=() if step == RANGE % HTTP_STRIDE else (pytest.mark.wide,))
    for step in range(HTTP_STRIDE)
]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", [SimulatedCrash, StoreUnavailableError], ids=["dies", "no answer"])
@pytest.mark.parametrize("work", WORKS)
def test_a_job_that_was_hit_inside_any_call_of_the_store_is_finished(
    work: str, error: type[BaseException], step: int
):
    kinds, found = tuple(SERVERS), WORKS[work]
    fake = FakeS3(**SERVERS[kinds[step % len(kinds)]])
    with small_table():
        table_crashes.begin(direct_store(fake), TABLE.destination, found)
        for number in range(2 + step, hits(found, fake) + 1, HTTP_STRIDE):
            for when in ("before", "after"):
                now = fake.copy()
                with suppress(SimulatedCrash, RayCommitterError, OSError):
                    table_crashes.run(HttpHit(number, when, error).on(now), TABLE, found)
                store = direct_store(now)
                table_crashes.again(store, TABLE, found)
                table_crashes.check(store, TABLE, found.visible)
                # That of a probe, or of a task that died before it had noted it: nobody knows its id.
                assert len(pending_uploads(store)) <= (found.mode is None), (number, when)


@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.wide), "after"])
@pytest.mark.parametrize("error", [SimulatedCrash, StoreUnavailableError])
def test_a_table_that_was_not_made_to_its_end_is_made_by_the_same_command(when: str, error):
    first = FakeS3()
    store = direct_store(first)
    for name in ("day=1/a", "day=2/b"):
        store.write(f"{TABLE.destination}/{name}", name.encode())
    make = partial(make_table, table=TABLE, definition=DEFINITION, now_milliseconds=1)
    hit = HttpHit()
    make(hit.on(first.copy()))
    with small_table():
        for number in range(2, hit.seen + 1):
            now = first.copy()
            with suppress(SimulatedCrash, RayCommitterError, OSError):
                make(HttpHit(number, when, error).on(now))
            store = direct_store(now)
            with suppress(CommitConflictError):  # it is made
                make(store)
            assert judge_log(store, TABLE) is None
            run_commit_of(store, {"day=1/c": b"new"})
            assert judge_log(store, TABLE) is None, number


def run_commit_of(store: S3Store, files: dict[str, bytes]) -> None:
    job = new_job_attempt(TABLE.destination, "job_1", 0)
    write_job(store, job, {0: files})
    run_commit(store, job)


def test_a_task_of_a_job_from_the_log_that_fails_leaves_no_upload_and_the_next_one_is_committed():
    store, job = table_on(FakeS3Store()), new_job_attempt(TABLE.destination, "undo-1", 0)
    setup_job(store, job)
    pending: list[list[str]] = []

    def write(files: TaskFiles, stem: str) -> None:
        with files.open(f"day=1/{stem}") as file:
            file.write(b"1")
        pending.append(pending_uploads(store))
        if len(pending) == 1:
            raise ZeroDivisionError

    def work(worker: Worker, number: int) -> CommittedTask:
        with pytest.raises(ZeroDivisionError):
            write_task(worker, number, write)
        assert pending_uploads(store) == []
        return write_task(worker, number, write)

    (task,) = context(store, job=job).executor.run(work, [0])
    assert [len(one) for one in pending] == [1, 1]
    run_commit(store, job, CommitOptions(committed_tasks=(task,), expected_tasks=1))
    assert list(visible_files(store, f"{TABLE.destination}/day=1").values()) == [b"1"]


# An entry is put in one request


def test_an_entry_alone_makes_one_request_to_be_put():
    store = table_on(FakeS3Store())
    assert requests(store, lambda one: put_entry(one, TABLE, 1, claim_of("a"))) == Counter(create=1)
    assert requests(store, lambda one: append_next(one, TABLE, claim_of("b"), 1)) == Counter(create=1)
    found = requests(store, lambda one: append(one, TABLE, commit_of(1), 2, is_end=True))
    assert found == Counter(list_status=1, create=1)
    assert store.list_files(TABLE.temporaries) == []


def test_an_entry_that_others_must_see_leaves_no_draft():
    store = table_on(FakeS3Store())
    put_entry(store, TABLE, 1, claim_of("a"))
    other = TABLE.draft(DraftName(1, "of another", "nonce"))
    store.write(other, b"{}")
    with Entrant(store, TABLE, 1, is_beaten=True) as entrant:
        assert entrant.put(claim_of("b"), []) == [(2, claim_of("b"))]
        assert len(store.list_files(TABLE.temporaries)) == 2
    assert [one.path for one in store.list_files(TABLE.temporaries)] == [other]


@pytest.mark.parametrize("carried_out", [False, True])
def test_a_write_that_meets_another_one_is_made_again(carried_out: bool):
    """Amazon's answer 409 to a condition says that another request for the object is under way."""
    fake, left = FakeS3(), itertools.chain([409], itertools.repeat(0))
    respond = fake.respond

    def answer(method: str, path: str, query: str, headers, body: bytes):
        if method != "PUT" or "if-none-match" not in headers or next(left) != 409:
            return respond(method, path, query, headers, body)
        if carried_out:
            respond(method, path, query, headers, body)
        return respond("GET", path, query, {}, b"")._replace(
            status=409, body=b"<Error><Code>ConditionalRequestConflict</Code></Error>"
        )

    store = direct_store(fake)
    put_definition(store, TABLE, DEFINITION)
    fake.respond = answer  # type: ignore[method-assign]
    with small_table():
        assert put_entry(store, TABLE, 1, claim_of("a")) == [claim_of("a")]


def test_a_server_that_ignores_conditions_is_refused_before_there_is_a_table():
    store = direct_store(FakeS3(ignores=frozenset({"put"})))
    with pytest.raises(StoreRefusedError, match="although a condition of the request does not hold"):
        make_table(store, TABLE, DEFINITION, 1)
    assert store.list_files(TABLE.destination) == []


# Old files are not kept


def test_old_files_cannot_be_kept_and_that_is_said_before_anything_is_done(fake_spec: StoreSpec):
    dest, options = "s3://bucket/table", fake_spec.storage_options
    with pytest.raises(StoreRefusedError, match="cannot be kept there: S3 has no rename") as caught:
        init_table(dest, keep_replaced=True, storage_options=options)
    assert "--no-keep-replaced" in str(caught.value)
    store = S3Store(fake_spec)
    assert store.list_files("/") == []
    init_table(dest, storage_options=options)
    before = store.list_files("/")
    keeps = CommitOptions(keep_replaced=True)
    with pytest.raises(StoreRefusedError, match="cannot be kept"):
        ray_committer.setup_job(dest, "job_1", options=keeps, storage_options=options)
    assert {one.path for one in store.list_files("/")} == {one.path for one in before}
    job = new_job_attempt("/table", "job_1", 0)
    write_job(store, job, {0: {"a": b"1"}})
    with pytest.raises(StoreRefusedError, match="cannot be kept"):
        run_commit(store, job, keeps)
    output_of(MemoryStore()).refuse_to_keep("/table")
