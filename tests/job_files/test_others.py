"""Which other jobs are being committed, what they write, and whether somebody is at work on them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from ray_committer.errors import (
    CommitStateUnknownError,
    LinkedPathError,
    ManifestError,
    RecordGoneError,
    shown,
)
from ray_committer.job_files.job_state import advance, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.others import destinations_above, other_jobs
from ray_committer.job_files.owners import DEAD_SECONDS, at_work, owner_of
from ray_committer.job_files.read_job import read_other
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.record import Claim, Heartbeat, Owner, encode
from ray_committer.protocol.state import IN_THE_WAY, Phase
from ray_committer.stages.other_jobs.end_others import finish_first
from ray_committer.stages.setup_job import setup_job
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing import MemoryStore, StoreCall, WrappedStore
from tests.stages.support import (
    ALIVE,
    DEAD,
    JOB,
    KINDS,
    NOW,
    OTHER_JOB,
    WHEN,
    at,
    bring_to,
    do_at,
    record_of,
    requests,
    seen_in,
    with_job,
)

BEGUN = [Phase.DECLARED, Phase.RECORDED, Phase.SEALED, Phase.COMMITTED, Phase.UNDOING]
DEADLINE = round(DEAD_SECONDS * 1000)
Stores = Callable[[], MemoryStore]


kinds = pytest.mark.parametrize("kind", [MemoryStore, KINDS["flat"]], ids=["directories", "flat"])


def begun(
    phase: Phase, *, kind: Stores = MemoryStore, owner: Owner = DEAD, job: JobAttempt = OTHER_JOB
) -> MemoryStore:
    """A job in a phase, whose committer has declared that it writes to a partition."""
    claim = Claim(["/table/p=1"])
    return with_job(store=kind(), job=job, phase=phase, owner=owner, claim=claim)


def look(store, now: int = NOW) -> JobStatus | None:
    return read_other(store, OTHER_JOB, now)


def seen_as(store, now: int = NOW, *, wants_beat: bool = False) -> JobStatus:
    """How another job looks whose commit has begun."""
    other = read_other(store, OTHER_JOB, now, wants_beat=wants_beat)
    assert other is not None
    return other


@kinds
@pytest.mark.parametrize("phase", BEGUN)
def test_what_a_job_has_declared_can_be_read_once_its_commit_has_begun(kind: Stores, phase: Phase):
    store = begun(phase, kind=kind)
    other = seen_as(store)
    assert (other.job, other.seen, other.phase) == (OTHER_JOB, read_state(store, OTHER_JOB), phase)
    assert other.declaration.claim == Claim(["/table/p=1"])
    assert (other.declaration.owner, other.declaration.job_id) == (DEAD, "job_2")
    heartbeat = 1  # of somebody else, who may have gone on with the commit
    assert requests(store, look) == Counter(read_state=2, read=1 + heartbeat)


def test_who_has_declared_or_recorded_a_job_just_now_is_not_asked_for_a_heartbeat():
    store = begun(Phase.RECORDED, owner=ALIVE)
    assert requests(store, look) == Counter(read_state=1, read=1)


@kinds
@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.ABORTED])
def test_a_job_that_is_open_or_given_up_costs_one_request(kind: Stores, phase: Phase):
    store = begun(phase, kind=kind)
    assert look(store) is None
    assert requests(store, look) == Counter(read_state=1)


def test_a_job_that_is_not_there_has_declared_nothing():
    assert look(MemoryStore()) is None


@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.RECORDED])
def test_a_job_that_ends_while_it_is_looked_at_is_in_nobodys_way(phase: Phase):
    store = begun(phase)
    end = do_at("read", lambda: store.delete_directory(OTHER_JOB.directory))
    assert look(WrappedStore(store, before=end)) is None


@kinds
@pytest.mark.parametrize("when", WHEN)
def test_a_committer_that_ends_while_its_job_is_looked_at_has_not_stopped(kind: Stores, when: str):
    store = begun(Phase.RECORDED, kind=kind, owner=owner_of("run"))
    seen = seen_in(store, OTHER_JOB)
    with ExitStack() as works:
        works.enter_context(at_work("run"))

        def end() -> None:
            advance(store, OTHER_JOB, seen, Phase.COMMITTED)
            works.close()

        other = seen_as(WrappedStore(store, **{when: do_at("read", end)}))
    assert other.phase is Phase.COMMITTED


def test_a_job_whose_declaration_gives_way_to_its_record_is_read_as_it_is_then():
    store = begun(Phase.DECLARED)
    seen = seen_in(store, OTHER_JOB)

    def go_on() -> None:
        record = record_of(job_id="job_2", claim=Claim(["/table/p=1"]))
        store.write(OTHER_JOB.content("nonce"), encode(record))
        store.delete_file(OTHER_JOB.content(seen.state.nonce))
        advance(store, OTHER_JOB, seen, Phase.RECORDED, "nonce")

    other = seen_as(WrappedStore(store, before=do_at("read", go_on)))
    assert (other.phase, other.declaration.nonce) == (Phase.RECORDED, "nonce")


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("operation", ["read_state", "read"])
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_job_that_cannot_be_read_is_an_error_and_not_out_of_the_way(when: str, operation: str, error):
    store = begun(Phase.RECORDED)
    with pytest.raises(error):
        look(WrappedStore(store, **{when: at(operation, error("simulated"))}))


@kinds
@pytest.mark.parametrize("phase", sorted(IN_THE_WAY))
def test_a_job_whose_declaration_or_record_is_gone_is_an_error_and_not_out_of_the_way(
    kind: Stores, phase: Phase
):
    store = begun(phase, kind=kind)
    seen = seen_in(store, OTHER_JOB)
    path = OTHER_JOB.content(seen.state.record or seen.state.nonce)
    store.delete_file(path)
    error = CommitStateUnknownError if phase is Phase.DECLARED else RecordGoneError
    for look in (lambda: read_other(store, OTHER_JOB, NOW), lambda: other_jobs(store, "/table", NOW)):
        with pytest.raises(error, match=f"{path}: .* is gone"):
            look()


def test_a_record_that_this_version_cannot_read_is_an_error_and_not_out_of_the_way():
    store = begun(Phase.RECORDED)
    store.write(OTHER_JOB.content("nonce"), b"{}")
    with pytest.raises(ManifestError, match=r"nonce\.json"):
        look(store)


def is_alive(store: MemoryStore, now: int) -> bool:
    return seen_as(store, now).is_alive


@pytest.mark.parametrize("phase", [Phase.DECLARED, Phase.RECORDED])
def test_a_committer_elsewhere_is_alive_until_its_last_sign_is_too_old(phase: Phase):
    store = begun(phase, owner=ALIVE)
    assert is_alive(store, NOW)
    assert is_alive(store, NOW + DEADLINE)
    assert not is_alive(store, NOW + DEADLINE + 1)


def beat(store: MemoryStore, owner: Owner, at_milliseconds: int, files: int = 0) -> Heartbeat:
    sign = Heartbeat(owner=owner, at_milliseconds=at_milliseconds, files=files)
    store.write(OTHER_JOB.heartbeat, encode(sign))
    return sign


def test_a_heartbeat_keeps_a_committer_alive_as_long_as_it_is_fresh():
    store, later = begun(Phase.RECORDED, owner=ALIVE), NOW + 5 * DEADLINE
    assert not is_alive(store, later)
    beat(store, ALIVE, later)
    assert is_alive(store, later + DEADLINE)
    assert not is_alive(store, later + DEADLINE + 1)


SECOND = Owner("elsewhere", "boot", 3, 4, "second run")


@pytest.mark.parametrize(
    ("began", "beats", "owner"),
    [(DEAD, SECOND, SECOND), (DEAD, DEAD, DEAD), (ALIVE, SECOND, SECOND), (ALIVE, DEAD, ALIVE)],
)
def test_the_owner_is_who_is_alive_by_the_last_beat_or_else_who_began(
    began: Owner, beats: Owner, owner: Owner
):
    store = begun(Phase.RECORDED, owner=began)
    sign = beat(store, beats, NOW, files=3)
    other = seen_as(store, wants_beat=True)
    assert (other.declaration.owner, other.owner, other.beat) == (began, owner, sign)
    assert other.is_alive is (owner != DEAD)


def test_a_beat_is_read_unasked_only_if_it_is_needed_to_tell_who_is_alive():
    store = begun(Phase.RECORDED, owner=ALIVE)
    sign = beat(store, SECOND, NOW)
    other, later = seen_as(store), seen_as(store, NOW + DEADLINE + 1)
    assert (other.owner, other.beat, later.beat) == (ALIVE, None, sign)


def found(store, job: JobAttempt = JOB, destination: str = "/table") -> list[JobStatus]:
    return list(other_jobs(store, destination, NOW, asking=job))


@kinds
def test_all_attempts_of_all_other_jobs_are_found_and_none_of_the_own(kind: Stores):
    store = kind()
    others = [new_job_attempt("/table", f"job_{number}", number % 2) for number in range(2, 6)]
    for job in (JOB, new_job_attempt("/table", JOB.job_id, 1), *others):
        setup_job(store, job) if job.number == 0 or job in others else store.mkdirs(job.manifests)
        bring_to(store, Phase.DECLARED, job=job)
    assert [other.job for other in found(store)] == others


@pytest.mark.parametrize("jobs", [0, 1, 5])
def test_each_job_whose_commit_has_stopped_costs_a_listing_and_four_reads(jobs: int):
    store = with_job()
    for number in range(jobs):
        job = new_job_attempt("/table", f"other_{number}", 0)
        setup_job(store, job)
        bring_to(store, Phase.DECLARED, job=job)
    cost = Counter(list_status=1 + jobs, read_state=2 * jobs, read=2 * jobs)
    assert requests(store, found) == cost - Counter()


# Taken away by mistake: by a process that slept while the id was set up again

GONE = OTHER_JOB.gone("slept")


def take_away(store: MemoryStore) -> None:
    store.move_directory(OTHER_JOB.directory, GONE.directory)


def put_back(store: MemoryStore) -> None:
    store.move_directory(GONE.directory, OTHER_JOB.directory)


@pytest.mark.parametrize("phase", sorted(IN_THE_WAY))
@pytest.mark.parametrize("owner", [ALIVE, DEAD])
def test_a_job_that_was_taken_away_by_mistake_is_found(phase: Phase, owner: Owner):
    store = begun(phase, owner=owner)
    take_away(store)
    is_lost = phase is Phase.DECLARED and owner == DEAD  # who would record it looks for it elsewhere
    found_there = [(one.job, one.phase, one.is_alive) for one in found(store)]
    assert found_there == ([] if is_lost else [(GONE, phase, owner == ALIVE)])


@pytest.mark.parametrize("phase", [Phase.OPEN, Phase.COMMITTED, Phase.ABORTED])
def test_a_job_that_was_taken_away_and_has_ended_is_not_found(phase: Phase):
    store = begun(phase)
    take_away(store)
    assert found(store) == []


def test_the_own_job_that_was_taken_away_by_mistake_is_not_found():
    store = begun(Phase.RECORDED)
    take_away(store)
    assert found(store, job=OTHER_JOB) == []


@pytest.mark.parametrize("phase", [Phase.RECORDED, Phase.UNDOING])
@pytest.mark.parametrize("first", [take_away, put_back])
def test_a_job_that_is_taken_away_or_put_back_between_two_requests_is_found(phase: Phase, first):
    moments = 0
    for moment in range(30):
        store = begun(phase)
        if first is put_back:
            take_away(store)
        left = itertools.count()

        def move(call: StoreCall, store=store, left=left, moment=moment) -> None:
            if next(left) == moment:
                first(store)

        assert [one.phase for one in found(WrappedStore(store, before=move))] == [phase]
        moments += next(left) > moment
    assert 4 <= moments < 30  # it was done before each of the requests


def test_a_job_that_is_taken_away_and_put_back_between_two_requests_is_found():
    for away, back in itertools.combinations(range(12), 2):
        store, left = begun(Phase.RECORDED), itertools.count()
        moves = {away: take_away, back: put_back}

        def move(call: StoreCall, store=store, left=left, moves=moves) -> None:
            moves.get(next(left), lambda _: None)(store)

        assert [one.phase for one in found(WrappedStore(store, before=move))] == [Phase.RECORDED]


def test_who_meets_a_job_that_was_taken_away_is_told_where_it_belongs():
    store = begun(Phase.RECORDED)
    take_away(store)
    (other,) = found(store)
    text = shown("; ".join(finish_first(store, other)))
    assert f"move it back to {OTHER_JOB.directory}, then finish it with: " in text
    assert text.startswith(f"{GONE.directory}: ")
    assert text.endswith("ray-committer commit memory://test/table --job-id job_2")


def test_a_directory_without_a_job_costs_two_listings_more_and_those_of_jobs_no_second_look():
    store = begun(Phase.RECORDED, owner=ALIVE)
    store.mkdirs("/table/_temporary/0/_temporary/attempt_0")  # a classic committer's
    assert requests(store, found) == Counter(list_status=3 + 2, read_state=1, read=1)


def test_where_no_job_was_set_up_none_is_found():
    store = MemoryStore()
    store.write("/file", b"x")
    assert found(store, destination="/nowhere") == found(store, destination="/file") == []


def test_a_temporary_directory_that_is_a_link_is_not_looked_behind(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "_temporary").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LinkedPathError):
        found(LocalStore(StoreSpec("file")), destination=str(tmp_path))


@pytest.mark.parametrize(
    ("paths", "above"),
    [
        ([], set()),
        (["/"], {"/"}),
        (["/a"], {"/"}),
        (["/a/b/c"], {"/", "/a", "/a/b"}),
        (["/a/b", "/a/c/d"], {"/", "/a", "/a/c"}),
    ],
)
def test_jobs_in_the_directories_above_may_write_there(paths: list[str], above: set[str]):
    assert destinations_above(paths) == above


@pytest.mark.parametrize("phase", BEGUN)
def test_the_command_that_ends_another_commit_is_named(phase: Phase):
    store = begun(phase)
    other = seen_as(store)
    text = shown("; ".join(finish_first(store, other)))
    command = "abort" if phase is Phase.UNDOING else "commit"
    assert f"ray-committer {command} memory://test/table --job-id job_2" in text
    assert ("--undo" in text) is (phase in (Phase.RECORDED, Phase.UNDOING))
    assert f"(job job_2, {phase})" in text
    assert text.startswith(f"{OTHER_JOB.directory}: ")
