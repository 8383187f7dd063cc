"""Setting up a job makes its directory once, and warns of commits that never ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ray_committer.errors import (
    CommitConflictError,
    CommitRecordExistsError,
    RayCommitterError,
    StoreRefusedError,
    TaskCommitError,
    shown,
)
from ray_committer.job_files.job_state import StateChangedError, adopt_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.listing import list_attempts
from ray_committer.job_files.owners import nobody
from ray_committer.job_files.read_job import read_job
from ray_committer.job_files.success import read_success
from ray_committer.options import Unfinished
from ray_committer.places.choose import old_files_of
from ray_committer.protocol.paths import GONE_PREFIX, MARK, JobAttempt, new_job_attempt
from ray_committer.protocol.record import Claim, Owner
from ray_committer.protocol.state import Intent, Phase
from ray_committer.stages.other_jobs.end_others import ROUNDS, End
from ray_committer.stages.setup_job import setup_job
from ray_committer.stages.setup_task import setup_task
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.network_files import Mounts
from ray_committer.testing import (
    LinkingStore,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    crash_at,
    fail_at,
    run_abort,
    run_commit,
)
from ray_committer.testing.harness import put_file
from tests.servers.fake_s3 import FakeS3, direct_store
from tests.stages.support import (
    ALIVE,
    CLAIM,
    DEAD,
    JOB,
    KINDS,
    NOW,
    OTHER_JOB,
    WHEN,
    at,
    at_call,
    bring_to,
    calls_of,
    do_at,
    each_crash,
    requests,
    state_of,
    with_job,
)
from tests.tables.support import table_on

SECOND = new_job_attempt("/table", "job_1", 1)
LATER = nobody("a run that only recorded")


def test_setting_up_twice_is_refused(dest: Path, store):
    job = new_job_attempt(str(dest), "job_1", 0)
    setup_job(store, job)
    with pytest.raises(TaskCommitError, match="exists already"):
        setup_job(store, job)
    setup_task(store, job, "attempt_1_m_0_0")
    with pytest.raises(TaskCommitError, match="attempt_1_m_0_0: exists already"):
        setup_task(store, job, "attempt_1_m_0_0")


def test_setup_keeps_the_success_of_an_earlier_job(dest: Path, store):
    dest.mkdir()
    (dest / "_SUCCESS").touch()
    setup_job(store, new_job_attempt(str(dest), "job_1", 0))
    assert (dest / "_SUCCESS").exists()


def deferred(store: MemoryStore, number: int) -> None:
    """A job whose commit was recorded for later."""
    job = new_job_attempt("/table", f"old_{number}", 0)
    with_job({0: {"a": b"x"}}, store=store, job=job, phase=Phase.RECORDED, owner=LATER)


def beside(phase: Phase = Phase.RECORDED, owner: Owner = DEAD, claim: Claim = CLAIM) -> MemoryStore:
    """A store with another job at the destination, in this phase."""
    return with_job({0: {"a": b"x"}}, job=OTHER_JOB, phase=phase, owner=owner, claim=claim)


def set_up(store, job: JobAttempt = JOB, **options: Any) -> list[str]:
    """Set a job up at `NOW`; the warnings."""
    warnings: list[str] = []
    setup_job(store, job, now_milliseconds=NOW, on_warning=warnings.append, **options)
    return warnings


def test_the_first_job_of_a_destination_is_set_up_without_a_warning():
    store = MemoryStore()
    assert set_up(store) == []
    assert store.list_status(JOB.manifests) == []
    assert state_of(store).phase is Phase.OPEN
    assert list(store.files()) == [f"{JOB.state}/{state_of(store).token}"]


def test_each_job_has_a_stamp_of_its_own():
    stores = [MemoryStore() for _ in range(3)]
    stamps = [setup_job(store, JOB) for store in stores]
    assert stamps == [state_of(store).stamp for store in stores]
    assert len(set(stamps)) == 3


@pytest.mark.parametrize("owner", [ALIVE, DEAD, LATER])
@pytest.mark.parametrize("phase", list(Phase))
def test_only_a_commit_that_has_stopped_is_warned_of_and_one_that_died_in_the_middle_refuses(
    phase: Phase, owner: Owner
):
    store = beside(phase, owner)
    in_the_middle = phase in (Phase.RECORDED, Phase.SEALED, Phase.UNDOING)
    if in_the_middle and owner is DEAD:
        with pytest.raises(CommitConflictError, match="if this job repeats it, its rows would be there"):
            set_up(store)
        assert store.get_status(JOB.job_directory) is None
    else:
        is_over = in_the_middle or phase is Phase.COMMITTED
        assert bool(set_up(store)) is (is_over and owner is not ALIVE)


@pytest.mark.parametrize("jobs", [1, 4])
def test_each_deferred_commit_is_warned_of_by_its_command(jobs: int):
    store = MemoryStore()
    for number in range(jobs):
        deferred(store, number)
    warnings = set_up(store)
    assert len(warnings) == jobs
    for number, warning in enumerate(warnings):
        assert f"ray-committer commit memory://test/table --job-id old_{number}" in warning


@pytest.mark.parametrize("jobs", [0, 1, 4])
def test_setting_up_a_job_costs_fifteen_requests_and_two_per_other_job(jobs: int):
    store = MemoryStore()
    for number in range(jobs):
        setup_job(store, new_job_attempt("/table", f"old_{number}", 0))
    found = requests(store, lambda one: setup_job(one, JOB))
    state = Counter(mkdirs=2, write=1, move_directory=1)
    looks = Counter(list_status=4, read_state=3)
    others = Counter(list_status=jobs, read_state=jobs)
    table = Counter(read=1)
    marked = Counter(mkdirs=1)
    assert found == looks + state + marked + Counter(mkdirs=1, read=1, get_status=1) + table + others


def test_a_look_for_data_costs_one_listing_and_that_a_job_replaces_data_costs_nothing():
    replaces = requests(MemoryStore(), lambda one: setup_job(one, JOB, replaces=("/table",)))
    looks = requests(MemoryStore(), lambda one: setup_job(one, JOB, must_be_empty=("/table",)))
    plain = requests(MemoryStore(), lambda one: setup_job(one, JOB))
    assert replaces == plain
    assert looks - plain == Counter(list_status=1)


@pytest.mark.parametrize(
    ("name", "is_data"),
    [
        ("a", True),
        ("p=1/a", True),
        ("_p=1/a", True),
        (".p=1/a", False),
        ("_SUCCESS", False),
        ("_delta_log/0", False),
        (".crc", False),
    ],
)
def test_only_what_readers_see_refuses_a_job_that_needs_an_empty_destination(name: str, is_data: bool):
    store = MemoryStore()
    put_file(store, f"/table/{name}", b"x")
    if is_data:
        with pytest.raises(CommitConflictError, match="/table: holds data already"):
            setup_job(store, JOB, must_be_empty=("/table",))
        assert store.get_status(JOB.temporary) is None
    else:
        assert set_up(store, must_be_empty=("/table",)) == []


@pytest.mark.parametrize(
    ("options", "intent"),
    [
        ({}, Intent.APPENDS),
        ({"replaces": ("/table",)}, Intent.REPLACES),
        ({"must_be_empty": ("/table",)}, Intent.REFUSED),
        ({"must_be_empty": ("/table/_",)}, Intent.REFUSED),
    ],
)
def test_the_state_tells_what_a_job_does_about_data(options: dict[str, Any], intent: Intent):
    store = MemoryStore()
    setup_job(store, JOB, **options)
    assert state_of(store).intent is intent


def test_data_in_a_destination_does_not_refuse_a_job_that_needs_empty_partitions():
    store = MemoryStore()
    put_file(store, "/table/p=1/a", b"x")
    assert set_up(store, must_be_empty=(JOB.any_partition,)) == []


@pytest.mark.parametrize("owner", [DEAD, LATER])
@pytest.mark.parametrize(
    ("options", "claim", "is_refused"),
    [
        ({"replaces": ("/table",)}, Claim(["/table/p=1"]), True),
        ({"replaces": ("/table/p=1",)}, Claim(["/table"]), True),
        ({"replaces": ("/table/p=1", "/table/p=2")}, Claim(["/table/p=2"]), True),
        ({"replaces": ("/table/p=1",)}, Claim(["/table/p=2"]), False),
        ({"replaces": ("/table/_",)}, Claim(["/table/p=1"]), "if it died"),
        ({"replaces": ("/table/p=1", "/table/_")}, Claim(["/table/p=2"]), "if it died"),
        ({"replaces": ("/table/p=1", "/table/_")}, Claim(["/table/p=1"]), True),
        ({"must_be_empty": ("/table",)}, Claim(["/table/p=1"]), True),
        ({}, Claim(["/table/p=1"], ["/table/p=1"]), "if it died"),
        ({}, Claim(["/table"], ["/table"]), True),
        ({}, Claim(["/"], ["/"]), True),
    ],
)
def test_a_job_is_refused_where_its_commit_would_be_and_if_it_may_repeat_one_that_died(
    options: dict[str, Any], claim: Claim, is_refused: bool | str, owner: Owner
):
    store = beside(owner=owner, claim=claim)
    if is_refused is True or (is_refused and owner is DEAD):
        with pytest.raises(CommitConflictError, match=r"job_2.* --undo; then run the application again"):
            set_up(store, **options)
        assert store.get_status(JOB.job_directory) is None
    else:
        assert len(set_up(store, **options)) == 1


WHOLE, PART, APPEND = ("/table",), ("/table/_",), ()


@pytest.mark.parametrize(
    ("phase", "owner", "replaces", "unfinished", "how"),
    [
        (Phase.RECORDED, DEAD, WHOLE, None, End.UNDO),
        (Phase.SEALED, DEAD, WHOLE, None, End.FINISH),
        (Phase.UNDOING, DEAD, WHOLE, None, End.UNDO),
        (Phase.RECORDED, LATER, WHOLE, None, None),
        (Phase.RECORDED, DEAD, PART, None, None),
        (Phase.RECORDED, DEAD, APPEND, None, None),
        (Phase.UNDOING, DEAD, APPEND, None, End.UNDO),
        (Phase.RECORDED, LATER, WHOLE, "supersede", End.UNDO),
        (Phase.RECORDED, LATER, WHOLE, "finish", End.FINISH),
        (Phase.RECORDED, DEAD, APPEND, "supersede", End.UNDO),
        (Phase.RECORDED, DEAD, APPEND, "finish", End.FINISH),
        (Phase.SEALED, DEAD, APPEND, "supersede", None),
        (Phase.SEALED, DEAD, PART, "supersede", None),
        (Phase.SEALED, DEAD, WHOLE, "supersede", End.FINISH),
        (Phase.SEALED, DEAD, APPEND, "finish", End.FINISH),
        (Phase.UNDOING, DEAD, APPEND, "finish", End.UNDO),
        (Phase.RECORDED, DEAD, WHOLE, "refuse", None),
        (Phase.UNDOING, DEAD, WHOLE, "refuse", None),
    ],
)
def test_what_is_in_the_way_is_ended_before_the_job_is_set_up_as_the_option_says(
    phase: Phase, owner: Owner, replaces: tuple[str, ...], unfinished: Unfinished | None, how: End | None
):
    store, asked = beside(phase, owner), list[End]()

    def end(other: JobStatus, way: End) -> list[str]:
        assert store.get_status(JOB.directory) is None
        asked.append(way)
        store.delete_directory(other.job.job_directory)
        return ["a notice of that"]

    run = partial(set_up, store, replaces=replaces, unfinished=unfinished, end=end)
    if how is None:
        with pytest.raises(CommitConflictError, match=rf"job_2, {phase}"):
            run()
        assert asked == []
    else:
        was = "given up" if how is End.UNDO else "finished"
        done, notice = run()
        assert shown(done).startswith(f"{OTHER_JOB.directory}: job job_2 was {was} before this job")
        assert (asked, notice) == ([how], "a notice of that")


@pytest.mark.parametrize("unfinished", ["finish", "supersede", None])
def test_beside_several_nothing_is_ended_if_one_refuses(unfinished: Unfinished | None):
    store, asked = MemoryStore(), list[str]()
    deferred(store, 1)
    setup_job(store, OTHER_JOB)
    bring_to(store, Phase.SEALED, job=OTHER_JOB)

    def end(other: JobStatus, _: End) -> list[str]:
        asked.append(other.job.job_id)
        store.delete_directory(other.job.job_directory)
        return []

    if unfinished is None:
        with pytest.raises(CommitConflictError, match="old_1"):
            set_up(store, replaces=WHOLE, unfinished=unfinished, end=end)
        assert asked == []
    else:
        assert len(set_up(store, replaces=WHOLE, unfinished=unfinished, end=end)) == 2
        assert sorted(asked) == ["job_2", "old_1"]


def test_a_job_that_stays_unfinished_refuses_in_the_end():
    tries = []

    def end(other: JobStatus, how: End) -> list[str]:
        tries.append(how)
        raise StateChangedError(other.seen)

    with pytest.raises(CommitConflictError, match="job_2"):
        set_up(beside(), unfinished="finish", end=end)
    assert len(tries) == ROUNDS


@pytest.mark.parametrize("again", [JOB, SECOND])
def test_a_job_that_cannot_be_set_up_ends_no_other_before(again: JobAttempt):
    store = MemoryStore()
    for job in (JOB, OTHER_JOB):
        setup_job(store, job)
    for job in (JOB, OTHER_JOB):
        bring_to(store, Phase.RECORDED, job=job)
    with pytest.raises((TaskCommitError, CommitRecordExistsError)):
        set_up(store, again, replaces=WHOLE, unfinished=None)
    assert state_of(store, OTHER_JOB).phase is Phase.RECORDED


def test_the_next_attempt_of_a_job_is_set_up_beside_the_first_and_is_not_warned_of_it():
    store = with_job()
    assert set_up(store, SECOND) == []


@pytest.mark.parametrize("phase", [Phase.RECORDED, Phase.SEALED, Phase.COMMITTED, Phase.UNDOING])
def test_the_next_attempt_of_a_job_whose_commit_has_begun_is_refused(phase: Phase):
    store = with_job(phase=phase)
    with pytest.raises(CommitRecordExistsError) as caught:
        set_up(store, SECOND)
    named = "memory://test/table --job-id job_1 --attempt 0"
    assert (f"ray-committer commit {named}" in str(caught.value)) is (phase is not Phase.UNDOING)
    is_undone = f"ray-committer abort {named} --undo" in str(caught.value)
    assert is_undone is (phase in (Phase.RECORDED, Phase.UNDOING))
    assert store.get_status(SECOND.directory) is None


@pytest.mark.parametrize("has_directories", [True, False])
def test_an_attempt_that_an_older_one_overtakes_while_it_is_set_up_fails_and_leaves_nothing(
    has_directories: bool,
):
    store = with_job(store=MemoryStore(real_directories=has_directories))
    overtake = do_at("mkdirs", lambda: bring_to(store, Phase.RECORDED), "/manifests")
    with pytest.raises(CommitRecordExistsError, match="--attempt 0"):
        set_up(WrappedStore(store, before=overtake), SECOND)
    assert not read_job(store, SECOND).exists
    assert [attempt.number for attempt in list_attempts(store, JOB)] == [JOB.number]


def test_an_attempt_that_is_older_than_another_is_not_set_up():
    store = with_job(job=SECOND)
    with pytest.raises(CommitRecordExistsError, match="--attempt 1"):
        set_up(store, JOB)


def test_a_replacement_waits_with_its_commit_for_one_that_is_at_work():
    assert set_up(beside(owner=ALIVE), replaces=WHOLE) == []


@pytest.mark.parametrize("where", ["a/table/_temporary", "a/table", "a"])
@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_in_the_place_of_a_directory_that_the_job_needs_is_refused_with_the_command_that_moves_it(
    tmp_path: Path, where: str, is_replaced: bool
):
    store, blocking = LocalStore(StoreSpec("file")), tmp_path / where
    job = new_job_attempt(f"{tmp_path}/a/table", "job_1", 0)
    replaces = (job.destination,) if is_replaced else ()
    put_file(store, str(blocking), b"in the way")
    with pytest.raises(CommitConflictError) as caught:
        setup_job(store, job, replaces=replaces)
    move = f"mv {blocking} {blocking}.old"
    assert str(caught.value) == (
        f"{blocking}: is a file where the job needs a directory; nothing was changed: write to another "
        f"destination, or move it away: {move}"
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [blocking]
    subprocess.run(move.split(), check=True)
    setup_job(store, job, replaces=replaces)
    assert Path(f"{blocking}.old").read_bytes() == b"in the way"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("replaces", [(), ("/table",), ("/table/p=1",)])
def test_a_destination_that_is_a_file_is_refused(kind: str, replaces: tuple[str, ...]):
    store = KINDS[kind]()
    store.mkdirs("/")
    put_file(store, "/table", b"old")
    with pytest.raises(CommitConflictError, match="/table: is a file where the job needs a directory"):
        set_up(store, replaces=replaces)
    assert store.files() == {"/table": b"old"}


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_destination_that_is_a_link_to_nothing_is_refused(tmp_path: Path, is_replaced: bool):
    """It may lead to a disk that is not mounted."""
    (tmp_path / "table").symlink_to(tmp_path / "disk" / "table")
    job = new_job_attempt(f"{tmp_path}/table", "job_1", 0)
    with pytest.raises(CommitConflictError, match="/table: is a link where the job needs a directory"):
        setup_job(LocalStore(StoreSpec("file")), job, replaces=(job.destination,) if is_replaced else ())
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


def set_up_everything(store) -> None:
    setup_job(store, JOB, replaces=("/table/p=1",), must_be_empty=("/table",))


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_request_that_fails_is_an_error_of_the_set_up(when: str, error: type[OSError]):
    for call in calls_of(MemoryStore(), set_up_everything):
        faulty = WrappedStore(store := MemoryStore(), **{when: fail_at(call.number, error)})
        is_others = call.paths == (JOB.success,) and error is PermissionError  # an unreadable _SUCCESS
        if is_others or (when == "after" and call.operation == "move_directory"):
            set_up_everything(faulty)  # it looks whether the state is there
            assert state_of(store).phase is Phase.OPEN
            continue
        with pytest.raises(error):
            set_up_everything(faulty)


def test_after_a_crash_anywhere_the_next_attempt_can_be_set_up():
    for store in each_crash(MemoryStore, set_up_everything):
        assert set_up(store, SECOND) == []
        assert store.list_status(SECOND.manifests) == []


@pytest.mark.parametrize("operation", ["list_status", "read_state", "mkdirs", "move_directory"])
def test_the_marker_of_an_earlier_job_is_deleted_last(operation: str):
    store = with_job({0: {}})
    run_commit(store, JOB)
    before = store.read(JOB.success)
    with pytest.raises(PermissionError):
        setup_job(WrappedStore(store, before=at(operation, PermissionError("denied"))), JOB)
    assert store.read(JOB.success) == before
    run_abort(store, JOB)
    setup_job(store, JOB)
    assert store.get_status(JOB.success) is None


@pytest.mark.parametrize("request_name", ["write", "move_directory"])
@pytest.mark.parametrize("meanwhile", [run_abort, adopt_state])
def test_a_job_that_another_process_takes_up_or_ends_meanwhile_is_refused(
    request_name: str, meanwhile: Callable[..., Any]
):
    """It is seen as soon as its directory is there, and taken for one that Hadoop's committer set up."""
    store = MemoryStore()
    woken = WrappedStore(store, before=do_at(request_name, partial(meanwhile, store, JOB)))
    with pytest.raises(
        TaskCommitError, match=f"{JOB.directory}: another process set it up, or ended it"
    ):
        setup_job(woken, JOB)
    assert not any(GONE_PREFIX in path for path in store.files("/table/_temporary"))


def test_a_set_up_beside_the_clean_up_of_another_job_makes_its_directory_again():
    store, removed = MemoryStore(), iter(range(3))

    def clean_up(call: StoreCall) -> None:
        if call.operation == "mkdirs" and call.paths[0] == JOB.packs and next(removed, None) is not None:
            raise FileNotFoundError(call.paths[0])

    setup_job(WrappedStore(store, before=clean_up), JOB)
    assert next(removed, None) is None
    assert read_job(store, JOB).phase is Phase.OPEN


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("phase", [Phase.ABORTED, Phase.RECORDED, Phase.UNDOING])
def test_a_job_that_is_decided_while_its_set_up_is_refused_is_no_error_of_its_own(
    kind: str, phase: Phase
):
    """Another process aborts or commits it, and has not ended when this one looks."""
    store = KINDS[kind]()

    def decide_and_fail(call: StoreCall) -> None:
        if call.operation == "mkdirs" and call.paths[0].endswith("/manifests"):
            bring_to(store, phase)
            raise CommitConflictError("the set-up is refused")

    with pytest.raises(CommitConflictError, match="the set-up is refused"):
        setup_job(WrappedStore(store, before=decide_and_fail), JOB)
    state = read_job(store, JOB)
    assert state.phase is (None if phase is Phase.ABORTED else phase)


# ``_SUCCESS`` of an earlier job


def committed_before(store: Any, job: JobAttempt = JOB) -> Any:
    """A store with the ``_SUCCESS`` of an earlier job of the id, and a later one of another."""
    with_job({0: {}}, store=store, job=job)
    run_commit(store, job)
    other = new_job_attempt(job.destination, "other", 0)
    with_job({0: {"of_the_other": b"1"}}, store=store, job=other)
    return store


@pytest.mark.parametrize("kind", [*KINDS, "links", "s3"])
def test_the_marker_of_another_job_that_came_meanwhile_stays(kind: str, tmp_path: Path):
    """The set-up has looked, sleeps before each of its next requests, and wakes up."""
    for number in range(1, 60):
        store: Any = KINDS[kind]() if kind in KINDS else None
        if kind == "links":
            store = LinkingStore(StoreSpec("file"))
        elif kind == "s3":
            store = direct_store(FakeS3())
        root = str(tmp_path / str(number)) if kind == "links" else "/bucket/table"
        job, other = new_job_attempt(root, "job_1", 0), new_job_attempt(root, "other", 0)
        committed_before(store, job)
        marker: list[bytes] = []

        def commit_other(store: Any = store, other: JobAttempt = other, marker=marker) -> None:
            run_commit(store, other)
            marker.append(store.read(other.success))

        setup_job(WrappedStore(store, before=at_call(number, commit_other)), job)
        if not marker:
            assert store.get_status(job.success) is None
            break
        assert store.read(job.success) == marker[0]
    assert number > 10


@pytest.mark.parametrize("kind", [one for one in KINDS if old_files_of(KINDS[one]()).puts_aside])
def test_a_marker_that_a_set_up_took_by_mistake_and_died_is_back_after_the_abort(kind: str):
    """The set-up sleeps before a request, another job is committed, and one request later it dies."""
    for number in range(1, 60):
        job, other = (new_job_attempt("/bucket/table", name, 0) for name in ("job_1", "other"))
        store = committed_before(KINDS[kind](), job)
        marker: list[bytes] = []

        def commit_other(store: Any = store, other: JobAttempt = other, marker=marker) -> None:
            run_commit(store, other)
            marker.append(store.read(other.success))

        woken = WrappedStore(store, before=at_call(number, commit_other), after=crash_at(number))
        with suppress(SimulatedCrash):
            setup_job(woken, job)
        if not marker:
            break
        run_abort(store, job)
        assert store.read(job.success) == marker[0], number
    assert number > 10


def test_a_set_up_whose_job_is_gone_deletes_no_marker_of_a_later_job_of_the_id():
    """It sleeps before it looks. By then its job was aborted, and a later one of the id is committed."""

    def later() -> None:
        run_abort(store, JOB)
        with_job({0: {"later": b"1"}}, store=store)
        run_commit(store, JOB)

    for number in range(6, 40):
        store = committed_before(MemoryStore())
        woken = WrappedStore(store, before=at_call(number, later))
        with suppress(RayCommitterError):
            setup_job(woken, JOB)
        if state_if_any(store) is None:
            assert read_success(store, "/table") is not None, number


def state_if_any(store: Any) -> Phase | None:
    state = read_job(store, JOB)
    return state.seen.phase if state.seen else None


# File systems that cannot be used


_SET_UP = """
import sys
from ray_committer.errors import RayCommitterError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
try:
    setup_job(LocalStore(StoreSpec("file")), new_job_attempt(sys.argv[1], "job_1", 0))
    print("set up")
except RayCommitterError as e:
    print(type(e).__name__, e)
"""


@pytest.mark.parametrize("without", ["flags", "links"])
def test_a_file_system_that_cannot_be_used_is_refused_before_any_task_runs(without: str, tmp_path: Path):
    """As exFAT and S3 mounts are: they have neither a rename that replaces nothing, nor links."""
    forbidden = ["--links"] if without == "links" else []
    command = [sys.executable, "-m", "tests.forbidden_calls", *forbidden, sys.executable, "-c", _SET_UP]
    ended = subprocess.run(
        [*command, str(tmp_path / "table")], capture_output=True, text=True, check=True, timeout=60
    )
    if without == "flags":
        assert ended.stdout == "set up\n"
        made = [one.name for one in (tmp_path / "table/_temporary/job_1").rglob("*-*")]
        assert [name.startswith(MARK) for name in made] == [True]
        return
    assert ended.stdout.startswith(f"StoreRefusedError {tmp_path}/table/_temporary/job_1/00: the file ")
    assert "can neither rename without replacing nor link files" in ended.stdout
    assert "use another file system" in ended.stdout
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_system_whose_renames_replace_files_is_refused(tmp_path: Path):
    store = LocalStore(StoreSpec("file"), rename=os.replace)
    with pytest.raises(StoreRefusedError, match="has replaced another file, although it must not"):
        setup_job(store, new_job_attempt(str(tmp_path / "table"), "job_1", 0))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("kind", "warns"), [("fuse.sshfs", True), ("fuse", True), ("nfs4", False), (None, False)]
)
def test_a_file_system_in_user_space_is_warned_of_in_one_line(
    kind: str | None, warns: bool, tmp_path: Path
):
    store = LocalStore(StoreSpec("file"), mounts=Mounts(lambda _: kind or "ext4"))
    warnings = set_up(store, new_job_attempt(str(tmp_path / "table"), "job_1", 0))
    assert len(warnings) == warns
    for text in warnings:
        assert text.startswith(f"{tmp_path}/table: is on a file system in user space ({kind})")
        assert "\n" not in text


# Beside an abort of the same job, and a file that comes


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("kind", [*KINDS, "table"])
def test_a_job_that_is_aborted_while_it_is_set_up_is_not_set_up(kind: str, when: str):
    """Whatever request the abort comes at: at most one of the two says that it has succeeded."""

    def new() -> MemoryStore:
        return table_on(MemoryStore()) if kind == "table" else KINDS[kind]()

    def set_up(store: Any, job: JobAttempt) -> None:
        setup_job(store, job, now_milliseconds=NOW)

    last = len(calls_of(new(), lambda one: set_up(one, JOB))) - (when == "after")
    answers = list[tuple[bool, bool]]()
    for number in range(1, last + 1):
        store, aborted = new(), list[bool]()
        note = partial(_abort_and_note, store, aborted)
        before = store.files()
        try:
            set_up(WrappedStore(store, **{when: at_call(number, note)}), JOB)
        except TaskCommitError:
            left = {path for path in store.files().keys() - before.keys() if "/_temporary" in path}
            assert (left, store.get_status(JOB.job_directory)) == (set(), None)
            answers.append((False, aborted[0]))
        else:
            assert read_job(store, JOB).phase is Phase.OPEN
            answers.append((True, aborted[0]))
    assert (True, True) not in answers
    assert (False, True) in answers


def _abort_and_note(store: MemoryStore, aborted: list[bool]) -> None:
    aborted.append(run_abort(store, JOB))


@pytest.mark.parametrize("when", WHEN)
def test_a_file_that_comes_while_a_job_is_set_up_is_named_and_stays(tmp_path: Path, when: str):
    local = LocalStore(StoreSpec("file"))

    def set_up(store: Any, name: str) -> Path:
        setup_job(store, new_job_attempt(f"{tmp_path}/{name}", "job_1", 0), now_milliseconds=NOW)
        return tmp_path / name

    def spoil(dest: Path) -> None:
        shutil.rmtree(dest, ignore_errors=True)
        dest.write_text("another program's")

    for number in range(1, len(calls_of(local, lambda one: set_up(one, "first"))) + 1):
        dest = tmp_path / str(number)
        come = at_call(number, partial(spoil, dest))
        with suppress(RayCommitterError):
            set_up(WrappedStore(local, **{when: come}), dest.name)
        assert dest.read_text() == "another program's"
