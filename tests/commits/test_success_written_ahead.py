"""``_SUCCESS`` of few files is written beside the record, and is true however the job ends."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import RayCommitterError
from ray_committer.executors.inline import InlineExecutor
from ray_committer.job_files.job_state import advance
from ray_committer.job_files.success import read_success
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.record import Claim, decode_record, encode
from ray_committer.protocol.state import Phase
from ray_committer.protocol.success import SuccessData
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore, run_commit, write_job
from ray_committer.testing.harness import commit_attempt, put_file, set_up_attempt, write_attempt
from ray_committer.work.worker import Worker
from tests.opening import moves_a_file
from tests.stages.support import (
    DEAD,
    JOB,
    OTHER_JOB,
    SyncedStore,
    bring_to,
    died,
    do_at,
    each_of,
    phase_of,
    record_of,
    seen_in,
    state_of,
)

pytestmark = pytest.mark.usefixtures("no_pauses")
store = each_of()
FILES = {0: {"a": b"1"}}


class ManyAtOnce(InlineExecutor):
    """Requests are made one by one, but not so few that files are moved in turns."""

    threads = 8


def commit(store: Any, options: CommitOptions | None = None, **hooks: Any) -> CommitResult:
    store = WrappedStore(store, **hooks)
    executor = ManyAtOnce(lambda permits: Worker(store, JOB, permits, in_driver=True))
    return run_commit(store, JOB, options, executor=executor)


def success(store: MemoryStore) -> SuccessData:
    found = read_success(store, JOB.destination)
    assert found is not None
    return found


def nonce(store: MemoryStore) -> str | None:
    return (success(store).diagnostics or {}).get("nonce")


def records_of(store: MemoryStore, **hooks: Any) -> list[str | None]:
    """Commit the job; the record that the state names when it is committed."""
    found: list[str | None] = []

    def note(call: StoreCall) -> None:
        if call.operation == "advance" and call.paths[-1].startswith("committed"):
            found.append(state_of(store).record)

    assert commit(WrappedStore(store, after=note), **hooks).outcome is Outcome.COMMITTED
    return found


def writes(calls: list[StoreCall]) -> list[int]:
    """Which requests write a future ``_SUCCESS``, counted from the first that moves a file."""
    moves = next(n for n, call in enumerate(calls) if moves_a_file(call))
    return [
        n - moves
        for n, call in enumerate(calls)
        if call.operation == "write" and "/success-" in call.paths[0]
    ]


def test_it_is_written_before_the_files_move_and_names_the_record(store: MemoryStore):
    write_job(store, JOB, FILES)
    calls: list[StoreCall] = []
    assert records_of(store, before=calls.append) == [nonce(store)]
    assert success(store).filenames == ["memory://test/table/a"]
    assert [n < 0 for n in writes(calls)] == [True]


def test_if_another_process_records_the_job_first_it_names_the_record_of_that_one(store: MemoryStore):
    write_job(store, JOB, FILES)

    def rival() -> None:
        """It has declared the job anew and recorded it, as this run was about to; then it has died."""
        data = next(data for path, data in store.files(JOB.state).items() if b'"packs"' in data)
        record = replace(decode_record(data, ""), nonce="rival", owner=DEAD)
        store.write(JOB.content(record.nonce), encode(record))
        advance(store, JOB, seen_in(store), Phase.RECORDED, record.nonce)

    assert records_of(store, before=do_at("advance", rival, "recorded")) == ["rival"] == [nonce(store)]


def test_if_the_declaration_is_withdrawn_and_made_again_it_names_the_new_record(store: MemoryStore):
    """Another process has taken this one for dead, and a table's old ``_SUCCESS`` came meanwhile."""
    write_job(store, JOB, FILES)

    def withdraw() -> None:
        advance(store, JOB, seen_in(store), Phase.OPEN)
        put_file(store, JOB.success, b"")

    assert records_of(store, before=do_at("advance", withdraw, "recorded")) == [nonce(store)]


def test_after_a_look_that_met_another_job_it_names_the_new_record(store: MemoryStore):
    write_job(store, JOB, FILES)
    write_job(store, OTHER_JOB, {0: {"b": b"2"}}, mode=ConflictMode.OVERWRITE)
    rival = record_of(
        job_id=OTHER_JOB.job_id,
        mode=ConflictMode.OVERWRITE,
        claim=Claim(["/table"], excludes=["/table"]),
    )
    calls: list[StoreCall] = []
    bring_to(store, Phase.DECLARED, job=OTHER_JOB, record=rival)
    assert records_of(store, before=calls.append) == [nonce(store)]
    written = [call.paths[0] for call in calls if call.operation == "write"]
    assert len([path for path in written if "/success-" in path]) == 2
    assert [n < 0 for n in writes(calls)] == [True, False]


def test_a_run_that_goes_on_writes_its_own(store: MemoryStore):
    write_job(store, JOB, FILES)
    died(store, commit, "advance", "committed")
    (record,) = records_of(store)
    assert nonce(store) == record
    assert success(store).filenames == ["memory://test/table/a"]


def test_a_job_that_wants_none_has_none(store: MemoryStore):
    write_job(store, JOB, FILES)
    calls: list[StoreCall] = []
    commit(store, CommitOptions(mark_success=False), before=calls.append)
    assert writes(calls) == []
    assert store.get_status(JOB.success) is None


def test_a_job_of_no_files_names_none(store: MemoryStore):
    write_job(store, JOB, {0: {}})
    assert records_of(store) == [nonce(store)]
    assert success(store).filenames == []
    statistics = success(store).iostatistics
    assert statistics is not None
    assert statistics.counters["committer_files_committed"] == 0


def test_after_a_validation_that_fails_there_is_none(store: MemoryStore):
    write_job(store, JOB, FILES)

    def damage(call: StoreCall) -> None:
        if call.operation == "rename" and call.paths[-1] == "/table/a":
            store.delete_file("/table/a")
            put_file(store, "/table/a", b"of somebody else")

    with pytest.raises(RayCommitterError):
        commit(store, after=damage)
    assert store.get_status(JOB.success) is None
    assert phase_of(store) is Phase.RECORDED


def test_it_names_the_files_of_all_packs(store: MemoryStore):
    """A task that commits after the listing has a pack of its own."""
    write_job(store, JOB, FILES)

    def late() -> None:
        attempt = set_up_attempt(store, JOB, 1, 0)
        write_attempt(store, JOB, attempt, {"b": b"2"})
        commit_attempt(store, JOB, 1, attempt, files=["b"])

    assert records_of(store, before=do_at("read", late)) == [nonce(store)]
    assert sorted(success(store).filenames) == ["memory://test/table/a", "memory://test/table/b"]


def test_its_content_is_forced_to_disk_before_it_gets_its_name():
    store = SyncedStore()
    write_job(store, JOB, FILES)
    calls: list[StoreCall] = []
    commit(store, CommitOptions(durable=True), before=calls.append)
    put = next(n for n, call in enumerate(calls) if call.operation == "replace")
    temporary = calls[put].paths[0]
    assert [call.operation for call in calls if temporary in call.paths] == ["write", "sync", "replace"]
    assert "/table" in [call.paths[0] for call in calls[put:] if call.operation == "sync"]
