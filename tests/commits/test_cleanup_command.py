"""What a clean-up that fails tells people to run finishes it, wherever it failed, on each store."""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.events import Event, Notice
from ray_committer.protocol.commit_result import Outcome
from ray_committer.protocol.state import Phase
from ray_committer.testing import (
    MemoryStore,
    StoreCall,
    WrappedStore,
    fail_at,
    run_commit,
    visible_files,
    write_job,
)
from tests.opening import opening
from tests.stages.support import JOB, KINDS_OF_TABLES, WHEN, at, bring_to, phase_of
from tests.threads import running_threads

pytestmark = pytest.mark.usefixtures("no_pauses")
FILES = {0: {"a": b"1"}, 1: {"p=1/b": b"2"}}
SAID = "the job is committed but was not cleaned up"
each_store = pytest.mark.parametrize("new", KINDS_OF_TABLES.values(), ids=KINDS_OF_TABLES)


def prepared(new: Callable[[], Any]) -> Any:
    store = new()
    write_job(store, JOB, FILES)
    return store


def run(store: Any, text: str) -> Outcome | None:
    """Run the command at the end of a text; the outcome, if it is a commit."""
    program, verb, dest, *words = shlex.split(text.rpartition("clean up with: ")[2])
    assert (program, dest) == ("ray-committer", "memory://test/table")
    options = dict(zip(words[::2], words[1::2], strict=True))
    with opening(store):
        if verb == "vacuum":
            ray_committer.vacuum_jobs("s3://bucket/table")
            return None
        number = int(options.get("--attempt", 0))
        return ray_committer.commit_job(
            "s3://bucket/table", options["--job-id"], options=CommitOptions(job_attempt=number)
        ).outcome


def rest(store: Any) -> list[str]:
    """All files below ``_temporary``, and that directory if it is there."""
    found = [JOB.temporary] if store.get_status(JOB.temporary) else []
    return [*store.files(JOB.temporary), *found]


def clean_up_calls(store: Any, options: CommitOptions) -> range:
    """The numbers of the requests that come after ``_SUCCESS``."""
    calls: list[StoreCall] = []
    run_commit(WrappedStore(store, before=calls.append), JOB, options)
    last = max(n for n, call in enumerate(calls, 1) if is_end(call))
    return range(last + 1, len(calls) + 1)


def is_end(call: StoreCall) -> bool:
    """Whether a request commits the job, or puts its ``_SUCCESS`` in place."""
    is_commit = call.operation == "advance" and call.paths[-1].startswith("committed")
    return is_commit or call.paths[-1] == JOB.success or call.paths[0] == JOB.success


@each_store
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("mark_success", [True, False])
def test_the_command_finishes_it_after_a_failure_of_any_request(
    new: Callable[[], Any], when: str, mark_success: bool
):
    options, commits = CommitOptions(mark_success=mark_success), 0
    for number in clean_up_calls(prepared(new), options):
        store, notices = prepared(new), list[str]()

        def note(event: Event, notices: list[str] = notices) -> None:
            notices.extend([event.text] if isinstance(event, Notice) else [])

        failing = WrappedStore(store, **{when: fail_at(number, PermissionError)})
        assert run_commit(failing, JOB, options, on_event=note).outcome is Outcome.COMMITTED
        (text,) = notices
        assert SAID in text
        outcome = run(store, text)
        commits += outcome is not None
        if outcome is None:  # nothing says any more that the job is committed, and only names are left
            assert store.files(JOB.temporary) == {}
        else:
            assert rest(store) == []
        assert visible_files(store, "/table") == {"a": b"1", "p=1/b": b"2"}
    assert commits > 0


def failing(store: Any, hook: Callable[[StoreCall], None], options: CommitOptions) -> str:
    """The notice of a commit whose clean-up fails."""
    report = run_commit(WrappedStore(store, before=hook), JOB, options)
    assert report.outcome is Outcome.COMMITTED
    (text,) = [notice for notice in report.notices if SAID in notice]
    return text


@each_store
def test_of_two_attempts_the_command_names_the_one_that_is_committed(new: Callable[[], Any]):
    store, newer = prepared(new), replace(JOB, number=1, directory=JOB.directory[:-1] + "1")

    def late(call: StoreCall) -> None:
        """A newer attempt is set up after the record, and cannot be aborted."""
        if is_end(call) and phase_of(store, newer) is None:
            store.mkdirs(newer.manifests)
            bring_to(store, Phase.OPEN, job=newer)
        if call.operation == "advance" and call.paths[-1].startswith("aborted"):
            raise PermissionError(13, "denied", call.paths[0])

    text = failing(store, late, CommitOptions())
    assert "--attempt 0" in text
    assert run(store, text) is Outcome.COMMITTED
    assert phase_of(store) is None
    assert phase_of(store, newer) in (Phase.ABORTED, None)


def test_what_is_taken_away_and_cannot_be_deleted_is_left_to_the_same_command():
    store, options = prepared(MemoryStore), CommitOptions()
    denied = at("delete_directory", PermissionError(13, "denied"))
    texts = [failing(store, denied, options)]
    with opening(store, before=denied):
        again = ray_committer.commit_job("s3://bucket/table", JOB.job_id)
    assert again.outcome is Outcome.ALREADY_COMMITTED
    texts += again.notices
    for text in texts:
        left = store.copy()
        assert run(left, text) is Outcome.ALREADY_COMMITTED
        assert rest(left) == []


@each_store
def test_the_command_finishes_what_was_to_be_cleaned_up_later(
    new: Callable[[], Any], caplog: pytest.LogCaptureFixture
):
    store = prepared(new)

    def fail(call: StoreCall) -> None:
        if threading.current_thread().name == "ray-committer-cleanup":
            raise PermissionError(13, "denied", call.paths[0])

    with caplog.at_level(logging.WARNING):
        run_commit(WrappedStore(store, before=fail), JOB, CommitOptions(cleanup="later"))
        for thread in running_threads():
            if thread.name == "ray-committer-cleanup":
                thread.join()
    (text,) = [record.getMessage() for record in caplog.records if SAID in record.getMessage()]
    assert run(store, text) is Outcome.COMMITTED
    assert rest(store) == []
