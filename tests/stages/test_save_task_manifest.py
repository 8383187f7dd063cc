"""A manifest is saved whole or not at all, and never into a job that is decided or over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from ray_committer.errors import CommitRecordExistsError, CommitStateUnknownError, TaskCommitError
from ray_committer.job_files.job_state import advance, begin_state, read_state
from ray_committer.limits.waiting import LOOK_SECONDS
from ray_committer.options import TEXT_BYTES, CommittedTask
from ray_committer.protocol.manifest import (
    FileEntry,
    TaskManifest,
    decode_manifest,
    digest,
    encode_manifest,
)
from ray_committer.protocol.record import encode
from ray_committer.protocol.state import Phase, new_state
from ray_committer.stages.save_task_manifest import LOOKS, save_task_manifest
from ray_committer.testing import MemoryStore, SimulatedCrash, StoreCall, WrappedStore
from tests.machines.fault_schedule import Fault, FaultKind, FaultSchedule
from tests.stages.support import (
    JOB,
    WHEN,
    at,
    bring_to,
    do_at,
    files_of,
    freeze,
    record_of,
    requests,
    seen_in,
)

STAMP = "stamp"
TASK, ATTEMPT = "task_1_m_000000", "attempt_1_m_000000_0"
PATH = JOB.manifest(TASK)


def with_job(*, real_directories: bool = True) -> MemoryStore:
    store = MemoryStore(real_directories=real_directories)
    store.mkdirs(JOB.manifests)
    begin_state(store, JOB, new_state(stamp=STAMP))
    return store


def manifest_of(files: int, attempt: str = ATTEMPT) -> TaskManifest:
    entries = [FileEntry(s=f"/s/{number}", d=f"/d/{number}", z=number) for number in range(files)]
    return TaskManifest(job_id=JOB.job_id, task_attempt_id=attempt, files=entries)


def save_files(
    store,
    files: int = 1,
    *,
    attempt: str = ATTEMPT,
    attempts: int = 1,
    stamp: str = STAMP,
    sleep: Callable[[float], None] = lambda _: None,
) -> CommittedTask:
    return save_task_manifest(
        store,
        JOB,
        manifest_of(files, attempt),
        task_id=TASK,
        task_attempt_id=attempt,
        stamp=stamp,
        attempts=attempts,
        sleep=sleep,
    )


@pytest.mark.parametrize(("files", "is_small"), [(0, True), (16, True), (17, False), (1000, False)])
def test_the_result_describes_what_was_saved_and_holds_a_small_manifest(files: int, is_small: bool):
    store = with_job()
    saved = save_files(store, files)
    data = store.read(PATH)
    assert decode_manifest(data, PATH) == manifest_of(files)
    expected = CommittedTask(f"{TASK}-manifest.json", digest(data), ATTEMPT, len(data), files)
    assert saved == replace(expected, text=data if is_small else None)


def test_a_manifest_of_long_names_is_not_sent_with_the_result():
    manifest = manifest_of(1, attempt="a" * TEXT_BYTES)
    saved = save_task_manifest(
        with_job(), JOB, manifest, task_id=TASK, task_attempt_id=ATTEMPT, stamp=STAMP
    )
    assert saved.size > TEXT_BYTES
    assert saved.text is None


@pytest.mark.parametrize("files", [0, 1, 1000])
def test_a_manifest_is_saved_by_one_write_and_one_rename_between_two_looks(files: int):
    found = requests(with_job(), lambda one: save_files(one, files))
    assert found == Counter(read_state=2, write=1, replace=1)


def test_each_further_try_looks_again_whether_the_job_is_open():
    calls: list[StoreCall] = []

    def fail(call: StoreCall) -> None:
        calls.append(call)
        if call.operation == "replace":
            raise TimeoutError("no answer")

    with pytest.raises(TaskCommitError, match="in 3 tries"):
        save_files(WrappedStore(with_job(), before=fail), attempts=3)
    assert Counter(call.operation for call in calls) == Counter(read_state=3, write=3, replace=3)


def test_a_commit_that_begins_between_two_tries_is_not_given_another_manifest():
    store = with_job()

    def decide_and_fail(call: StoreCall) -> None:
        if call.operation == "replace":
            bring_to(store, Phase.RECORDED)
            raise TimeoutError("no answer")

    with pytest.raises(CommitRecordExistsError, match="too late"):
        save_files(WrappedStore(store, before=decide_and_fail), attempts=5)
    assert store.get_status(PATH) is None


def test_the_manifest_of_a_later_attempt_takes_the_place_of_an_earlier_one():
    store = with_job()
    save_files(store, 1)
    save_files(store, 2, attempt="attempt_1_m_000000_1")
    assert len(store.files(JOB.manifests)) == 1
    assert len(decode_manifest(store.read(PATH), PATH).files) == 2


@pytest.mark.parametrize("operation", ["write", "replace"])
@pytest.mark.parametrize("error", [PermissionError, FileNotFoundError, IsADirectoryError])
def test_the_manifest_of_an_earlier_attempt_stays_when_a_later_one_cannot_be_saved(
    operation: str, error: type[OSError]
):
    store = with_job()
    save_files(store, 1)
    before = store.read(PATH)
    with pytest.raises(TaskCommitError, match=f"{PATH}: could not be saved in 2 tries"):
        save_files(WrappedStore(store, before=at(operation, error("denied"))), 2, attempts=2)
    assert store.read(PATH) == before


@pytest.mark.parametrize("when", WHEN)
def test_nothing_is_saved_where_the_job_cannot_be_looked_at(when: str):
    store = with_job()
    with pytest.raises(TaskCommitError, match="could not be saved in 1 tries"):
        save_files(WrappedStore(store, **{when: at("read_state", PermissionError("denied"))}))
    assert files_of(store) == {}


def clean_up(store: MemoryStore) -> None:
    store.delete_directory(JOB.job_directory)


def clean_up_and_set_up_again(store: MemoryStore) -> None:
    clean_up(store)
    store.mkdirs(JOB.manifests)
    begin_state(store, JOB, new_state())


@pytest.mark.parametrize("end", [clean_up, clean_up_and_set_up_again])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("operation", ["write", "replace"])
@pytest.mark.parametrize("real", [True, False], ids=["directories", "flat"])
def test_a_job_that_is_over_when_its_task_looks_again_may_have_included_the_task(
    real: bool, operation: str, when: str, end: Callable[[MemoryStore], None]
):
    store = with_job(real_directories=real)
    hooked = WrappedStore(store, **{when: do_at(operation, lambda: end(store))})
    with pytest.raises(CommitStateUnknownError, match=f"not known .* included {ATTEMPT}") as caught:
        save_files(hooked, attempts=5)
    assert caught.value.exit_code == 3
    assert "commit memory://test/table --job-id job_1" in caught.value.advice


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.OPEN])
def test_a_task_cannot_commit_once_anything_is_decided_or_declared(phase: Phase):
    store = with_job()
    bring_to(store, phase)
    with pytest.raises(CommitRecordExistsError, match="too late"):
        save_files(store)
    assert store.files(JOB.manifests) == {}


def test_a_task_that_was_started_for_another_job_of_that_id_cannot_commit():
    store = with_job()
    with pytest.raises(TaskCommitError, match=f"the job that {ATTEMPT} was started for is over"):
        save_files(store, stamp="of_an_ended_job")
    assert store.files(JOB.manifests) == {}


@pytest.mark.parametrize("operation", ["write", "replace"])
def test_who_slept_while_the_job_was_aborted_learns_that(operation: str):
    store = with_job()
    decide = do_at(operation, lambda: bring_to(store, Phase.ABORTED))
    with pytest.raises(CommitRecordExistsError, match="is being aborted"):
        save_files(WrappedStore(store, before=decide), attempts=5)


def test_who_slept_while_its_directory_was_frozen_saves_nothing_that_counts():
    store = with_job()
    save_files(store, 1)

    def decide() -> None:
        freeze(store)
        bring_to(store, Phase.RECORDED)

    with pytest.raises(CommitRecordExistsError, match="too late"):
        save_files(WrappedStore(store, before=do_at("replace", decide)), 2, attempts=5)
    frozen = f"{JOB.frozen}/{TASK}-manifest.json"
    assert len(decode_manifest(store.read(frozen), frozen).files) == 1


def test_a_manifest_that_was_frozen_in_time_is_committed_although_its_task_looks_late():
    store = with_job()

    def decide() -> None:
        freeze(store)
        bring_to(store, Phase.RECORDED)

    saved = save_files(WrappedStore(store, after=do_at("replace", decide)))
    assert store.read(f"{JOB.frozen}/{saved.manifest}") == saved.text


@pytest.mark.parametrize("real", [True, False], ids=["directories", "flat"])
def test_who_looks_while_the_job_is_cleaned_up_is_not_told_that_it_was_too_late(real: bool):
    """Its manifest was committed, but what shows that is gone already."""
    store = with_job(real_directories=real)
    record = record_of(digests=[digest_of(1)])

    def commit() -> None:
        if real:
            freeze(store)
        bring_to(store, Phase.COMMITTED, record=record)

    def clean_up(call: StoreCall) -> None:
        if call.operation == "read":
            store.delete_file(
                f"{JOB.frozen}/{TASK}-manifest.json" if real else JOB.content(record.nonce)
            )

    committed = WrappedStore(store, after=do_at("replace", commit), before=clean_up)
    with pytest.raises(CommitStateUnknownError, match=f"its commit included {ATTEMPT} or another"):
        save_files(committed, attempts=5)


def test_a_manifest_that_was_committed_although_its_task_had_no_answer_is_not_too_late():
    store = with_job()

    def commit_and_fail() -> None:
        freeze(store)
        bring_to(store, Phase.RECORDED)
        raise TimeoutError("no answer")

    saved = save_files(WrappedStore(store, after=do_at("replace", commit_and_fail)), attempts=2)
    assert store.read(f"{JOB.frozen}/{saved.manifest}") == saved.text


def digest_of(files: int) -> str:
    return digest(encode_manifest(manifest_of(files)))


def test_where_directories_are_not_renamed_the_record_says_whether_a_manifest_counts():
    """Its entries are in a pack, and its task looks later."""
    store = with_job(real_directories=False)
    record = record_of(digests=[digest_of(1)])
    recorded = do_at("replace", lambda: bring_to(store, Phase.RECORDED, record=record))
    assert save_files(WrappedStore(store, after=recorded)).digest == digest_of(1)


def test_where_directories_are_not_renamed_a_manifest_that_the_record_does_not_name_is_too_late():
    store = with_job(real_directories=False)
    record = record_of(digests=[digest_of(2)])
    recorded = do_at("replace", lambda: bring_to(store, Phase.RECORDED, record=record))
    with pytest.raises(CommitRecordExistsError, match="too late"):
        save_files(WrappedStore(store, after=recorded), attempts=5)


@pytest.mark.parametrize("real", [True, False], ids=["directories", "flat"])
@pytest.mark.parametrize(
    ("then", "counts"), [("recorded with it", True), ("open", True), ("aborted", False)]
)
def test_while_the_job_is_declared_a_task_waits_for_what_becomes_of_it(
    real: bool, then: str, counts: bool
):
    """Its committer may list the manifests again and find the new one."""
    store = with_job(real_directories=real)
    slept: list[float] = []

    def go_on(seconds: float) -> None:
        slept.append(seconds)
        seen = seen_in(store)
        if len(slept) < 3:
            return
        if then == "recorded with it":
            if real:
                freeze(store)
            record = record_of(digests=[digest_of(1)])
            store.write(JOB.content(record.nonce), encode(record))
            advance(store, JOB, seen, Phase.RECORDED, record.nonce)
        else:
            advance(store, JOB, seen, Phase.OPEN if then == "open" else Phase.ABORTED)

    declared = WrappedStore(store, after=do_at("replace", lambda: bring_to(store, Phase.DECLARED)))
    if counts:
        save_files(declared, sleep=go_on)
    else:
        with pytest.raises(CommitRecordExistsError, match="too late"):
            save_files(declared, sleep=go_on)
    assert len(slept) == 3


def test_a_declaration_that_is_withdrawn_between_two_requests_of_a_look_is_no_refusal():
    """Its committer has found this very manifest, and reads the manifests again."""
    store = with_job(real_directories=False)
    declared = WrappedStore(
        WrappedStore(store, after=do_at("replace", lambda: bring_to(store, Phase.DECLARED))),
        after=do_after_look(store, lambda: withdraw(store)),
    )
    assert save_files(declared).digest == digest_of(1)


def do_after_look(store: MemoryStore, action: Callable[[], None]) -> Callable[[StoreCall], None]:
    """A hook that does something once, after a look that has seen the job declared."""
    done: list[None] = []

    def hook(call: StoreCall) -> None:
        seen = read_state(store, JOB)
        if call.operation == "read_state" and seen and seen.phase is Phase.DECLARED and not done:
            done.append(None)
            action()

    return hook


def withdraw(store: MemoryStore) -> None:
    advance(store, JOB, seen_in(store), Phase.OPEN)


def test_a_task_does_not_wait_for_ever_for_a_declaration():
    store, slept = with_job(), list[float]()
    declared = WrappedStore(store, after=do_at("replace", lambda: bring_to(store, Phase.DECLARED)))
    with pytest.raises(CommitStateUnknownError, match=f"it may still include {ATTEMPT}"):
        save_files(declared, attempts=5, sleep=slept.append)
    assert sum(slept) == (LOOKS - 1) * LOOK_SECONDS


def test_a_torn_write_is_never_under_the_name_of_a_manifest():
    store = with_job()
    faulty = FaultSchedule(0, 2, (Fault(FaultKind.CRASH_WITHIN, 2),)).wrap(store)
    with pytest.raises(SimulatedCrash):
        save_files(faulty, 5)
    (torn,) = store.files(JOB.manifests)
    assert torn == JOB.manifest_temporary(ATTEMPT)
    assert not torn.endswith("-manifest.json")
    save_files(store, 5)
    assert list(store.files(JOB.manifests)) == [PATH]


@pytest.mark.parametrize("operation", ["write", "replace"])
@pytest.mark.parametrize("when", WHEN)
def test_a_manifest_is_saved_in_as_many_tries_as_asked_for(operation: str, when: str):
    store, slept, failures = with_job(), list[float](), iter([True, True])

    def fail(call: StoreCall) -> None:
        if call.operation == operation and next(failures, False):
            raise OSError("simulated")

    save_files(WrappedStore(store, **{when: fail}), attempts=5, sleep=slept.append)
    assert len(slept) == 2
    assert decode_manifest(store.read(PATH), PATH) == manifest_of(1)
    assert list(store.files(JOB.manifests)) == [PATH]


@pytest.mark.parametrize("blocked", [PATH, JOB.manifest_temporary(ATTEMPT)])
def test_a_directory_in_the_place_of_a_manifest_is_refused_and_kept(blocked: str):
    store = with_job()
    store.mkdirs(f"{blocked}/inside")
    with pytest.raises(TaskCommitError, match=r"-manifest.json: could not be saved in 2 tries"):
        save_files(store, attempts=2)
    assert store.get_status(f"{blocked}/inside") is not None
    store.delete_directory(blocked)
    save_files(store)
