"""Commits of new partitions: each is put in place by one rename, and whatever goes wrong, by file."""

from __future__ import annotations

import errno
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitConflictError, CommitStateUnknownError, StoreUnavailableError
from ray_committer.job_files.job_state import advance, read_state
from ray_committer.protocol.commit_result import CommitResult, Outcome
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.state import Phase
from ray_committer.protocol.whole import ByFile
from ray_committer.stores.base import FileStatus
from ray_committer.stores.forwarding import ForwardingStore
from ray_committer.testing import (
    Identity,
    MemoryStore,
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    chaos_executor,
    run_commit,
    visible_files,
    write_job,
)
from ray_committer.testing.harness import (
    commit_attempt,
    load_ahead,
    put_file,
    run_undo,
    set_up_attempt,
    write_attempt,
)
from tests.commits.tables import data_of_log
from tests.opening import is_of_task, opening
from tests.stages.support import JOB, OTHER_JOB, at, calls_of, died, do_at, phase_of, staged_name
from tests.tables.support import table_on
from tests.threads import at_once

pytestmark = pytest.mark.usefixtures("no_pauses")
NEW = ("p=1", "p=2", "q=1/r=1")
Files = dict[str, bytes]


def tasks_of(*directories: str, tasks: int = 2, content: bytes = b"x") -> dict[int, Files]:
    """Each task writes a file into each directory, under a name with its token."""
    return {
        task: {
            f"{directory}/{staged_name('f', task)}": content * (task + 1) for directory in directories
        }
        for task in range(tasks)
    }


def files_in(tasks: Mapping[int, Files]) -> Files:
    return {name: data for files in tasks.values() for name, data in files.items()}


def with_job(
    *directories: str, store: Any = None, old: Mapping[str, bytes] | None = None, **more: Any
) -> tuple[Any, Files]:
    """A store with a job that writes to these directories, or to three new ones, and its files."""
    store = MemoryStore() if store is None else store
    for name, data in (old or {}).items():
        put_file(store, f"/table/{name}", data)
    tasks = tasks_of(*(directories or NEW))
    write_job(store, JOB, tasks, **more)
    return store, files_in(tasks)


def commit(
    store: Any, options: CommitOptions | None = None, *, job: JobAttempt = JOB, **hooks: Any
) -> tuple[CommitResult, list[StoreCall]]:
    """Commit a job; the result, and the requests that move something of its tasks."""
    calls: list[StoreCall] = []
    noted = WrappedStore(WrappedStore(store, **hooks), before=calls.append)
    result = run_commit(noted, job, options)
    return result, [call for call in calls if moves(call)]


def moves(call: StoreCall) -> bool:
    """Whether a request moves what tasks wrote to its place."""
    is_move = call.operation in ("move_whole", "rename", "set_aside")
    return is_move and "tasks" in call.paths[0] and "_temporary" not in call.paths[-1]


def kinds(calls: list[StoreCall]) -> Counter[str]:
    return Counter(call.operation for call in calls)


IDENTITIES = (Identity.MODIFICATION_TIME, Identity.ETAG, Identity.GENERATION)


@pytest.mark.parametrize("identity", IDENTITIES)
def test_each_new_partition_is_put_in_place_by_one_request(identity: Identity):
    store, files = with_job(store=MemoryStore(identity=identity))
    result, calls = commit(store)
    assert kinds(calls) == Counter(move_whole=3)
    assert (result.moved, result.files, result.directories) == (6, 6, 3)
    assert visible_files(store, "/table") == files


@pytest.mark.parametrize("identity", [Identity.SIZE_ONLY, Identity.FILE_ID])
def test_what_no_listing_could_prove_is_moved_by_file(identity: Identity):
    store, files = with_job(store=MemoryStore(identity=identity))
    _, calls = commit(store)
    assert kinds(calls) == Counter(rename=6)
    assert visible_files(store, "/table") == files


def test_a_reader_sees_each_partition_complete_or_not_at_all():
    store, files = with_job(old={"p=9/old": b"old"})
    seen: list[set[str]] = []
    commit(store, after=lambda call: seen.append(set(visible_files(store, "/table"))))
    for directory in NEW:
        all_of_it = {name for name in files if name.startswith(f"{directory}/")}
        assert all(names & all_of_it in (set(), all_of_it) for names in seen)


def test_partitions_that_exist_are_filled_by_file_and_their_files_stay():
    old = {"p=1/old": b"old"}
    store, files = with_job(old=old)
    result, calls = commit(store)
    assert kinds(calls) == Counter(move_whole=2, rename=2)
    assert result.moved == 6
    assert visible_files(store, "/table") == {**old, **files}


def test_a_partition_with_files_without_a_token_is_moved_by_file():
    """Only what is complete at once goes whole."""
    tasks = tasks_of("p=1", "p=2")
    tasks[0]["p=1/named by its format"] = b"own"
    tasks[1]["p=3/alone"] = b"alone"
    store = MemoryStore()
    write_job(store, JOB, tasks)
    result, calls = commit(store)
    assert kinds(calls) == Counter(move_whole=1, rename=4)
    assert (result.whole, result.whole_files, result.by_file) == (1, 2, {ByFile.OWN_NAMES.value: 2})
    assert visible_files(store, "/table") == files_in(tasks)


def test_leftovers_stay_until_the_job_is_recorded():
    """Another committer of the job can know of other attempts that count."""
    store, files = with_job("p=1")
    attempt = set_up_attempt(store, JOB, 0, 1)
    write_attempt(store, JOB, attempt, {f"p=1/{staged_name('f', 0, 1)}": b"does not count"})
    is_there: list[bool] = []

    def look() -> None:
        name = staged_name("f", 0, 1)
        is_there.append(any(path.endswith(name) for path in store.files(JOB.directory)))

    recorded, committed = do_at("advance", look, "recorded"), do_at("advance", look, "committed")
    commit(WrappedStore(store, before=recorded), before=committed)
    assert is_there == [True, False]
    assert visible_files(store, "/table") == files


def test_who_loses_the_record_deletes_nothing_that_it_names():
    """This run knows one attempt of a task, as the driver does, and the other one has recorded another:
    what that names was a leftover when this one looked."""
    store = MemoryStore()
    results = write_job(store, JOB, tasks_of("p=1", "p=2"))
    ahead = load_ahead(store, JOB, results)
    files = files_in(tasks_of("p=1", "p=2", tasks=1)) | {
        f"{directory}/{staged_name('f', 1, 1)}": b"yy" for directory in ("p=1", "p=2")
    }
    again = {name: data for name, data in files.items() if data == b"yy"}
    attempt = set_up_attempt(store, JOB, 1, 1)
    write_attempt(store, JOB, attempt, again)
    commit_attempt(store, JOB, 1, attempt, files=again)

    def overtake() -> None:
        current = read_state(store, JOB)
        assert current is not None
        assert advance(store, JOB, current, Phase.OPEN).phase is Phase.OPEN
        options = CommitOptions(ignore_other_attempts=True)
        died(store, lambda one: run_commit(one, JOB, options), "move_whole", "p=1")

    options = CommitOptions(committed_tasks=tuple(results), expected_tasks=2)
    hooked = WrappedStore(store, before=do_at("advance", overtake, "recorded"))
    result = run_commit(hooked, JOB, options, ahead=ahead)
    assert result.resumed
    assert visible_files(store, "/table") == files


REFUSALS = {
    "denied": PermissionError(errno.EACCES, "denied"),
    "another file system": OSError(errno.EXDEV, "cross-device"),
    "quota": OSError(errno.EDQUOT, "quota"),
    "not supported": OSError(errno.ENOTSUP, "not here"),
    "it is there": FileExistsError(errno.EEXIST, "exists"),
    "missing": FileNotFoundError(errno.ENOENT, "no parent"),
}


@pytest.mark.parametrize("directory", NEW)
@pytest.mark.parametrize("error", REFUSALS.values(), ids=REFUSALS)
def test_a_refused_move_is_no_error_and_the_others_go_whole(error: OSError, directory: str):
    store, files = with_job()
    result, calls = commit(store, before=at("move_whole", error, directory))
    assert kinds(calls) - Counter(move_whole=4) == Counter(rename=2)
    assert (result.outcome, result.moved) == (Outcome.COMMITTED, 6)
    assert visible_files(store, "/table") == files


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("directory", NEW)
def test_a_move_without_an_answer_is_judged_by_what_is_there(directory: str, when: str):
    store, files = with_job()
    once: list[StoreCall] = []

    def lose(call: StoreCall) -> None:
        if call.operation == "move_whole" and call.paths[-1].endswith(directory) and not once:
            once.append(call)
            raise StoreUnavailableError(errno.EIO, "lost")

    result, calls = commit(store, **{when: lose})
    assert "rename" not in kinds(calls)
    assert (result.moved, sum(result.proved.values())) == ((6, 0) if when == "before" else (4, 2))
    assert visible_files(store, "/table") == files


def test_a_partition_that_comes_between_keeps_its_files():
    store, files = with_job()
    rival = do_at("move_whole", lambda: put_file(store, "/table/p=2/rows", b"of others"), "p=2")
    _, calls = commit(store, before=rival)
    assert kinds(calls) == Counter(move_whole=3, rename=2)
    assert visible_files(store, "/table") == {**files, "p=2/rows": b"of others"}


def test_an_empty_partition_that_comes_between_is_filled_by_file():
    """Another job can have made it, and be about to move files there."""
    store, files = with_job()
    _, calls = commit(store, before=do_at("move_whole", lambda: store.mkdirs("/table/p=2"), "p=2"))
    assert kinds(calls) == Counter(move_whole=3, rename=2)
    assert visible_files(store, "/table") == files


def test_a_partition_that_is_taken_away_again_is_made_again():
    store, files = with_job()

    def come_and_go(call: StoreCall) -> None:
        if call.operation == "move_whole" and call.paths[-1] == "/table/p=2":
            store.mkdirs("/table/p=2")
        if call.operation == "rename" and "/p=2/" in call.paths[-1] and not gone:
            gone.append(store.remove_empty_directory("/table/p=2"))

    gone: list[bool] = []
    commit(store, before=come_and_go)
    assert gone == [True]
    assert visible_files(store, "/table") == files


def test_a_parent_that_is_taken_away_is_made_again():
    store, files = with_job()
    away = do_at("move_whole", lambda: store.remove_empty_directory("/table/q=1"), "r=1")
    _, calls = commit(store, before=away)
    assert kinds(calls) == Counter(move_whole=4)
    assert visible_files(store, "/table") == files


class Folding(ForwardingStore):
    """A file system on which ``p=A`` and ``p=a`` are one name: the one that was made first."""

    def _request(self, operation, request, args, kwargs):
        answer = request(*map(_folded, args), **kwargs)
        asked = args[0] if isinstance(args[0], str) else ""
        if "/p=A" not in asked or operation.name not in ("list_status", "list_page", "get_status"):
            return answer
        shown = [answer] if isinstance(answer, FileStatus) else answer or []
        shown = [replace(one, path=one.path.replace("/p=a", "/p=A")) for one in shown]
        return shown[0] if isinstance(answer, FileStatus) else answer and shown


def _folded(argument: Any) -> Any:
    is_folded = isinstance(argument, str) and "_temporary" not in argument
    return argument.replace("/p=A", "/p=a") if is_folded else argument


def test_of_two_names_that_the_store_takes_for_one_the_second_is_filled_by_file():
    names = {f"p=A/{staged_name('f')}": b"1", f"p=a/{staged_name('g')}": b"2"}
    store = MemoryStore()
    write_job(store, JOB, {0: names})
    _, calls = commit(Folding(store))
    assert kinds(calls) == Counter(move_whole=2, rename=1)
    assert visible_files(store, "/table") == {
        name.replace("A", "a"): data for name, data in names.items()
    }


def two_jobs(store: Any) -> dict[JobAttempt, Files]:
    """Two jobs that append to one new partition."""
    jobs: dict[JobAttempt, Files] = {}
    for job in (JOB, OTHER_JOB):
        tasks = {
            task: {f"p=1/{staged_name(job.job_id, task)}": job.job_id.encode()} for task in range(2)
        }
        write_job(store, job, tasks)
        jobs[job] = files_in(tasks)
    return jobs


@pytest.mark.parametrize("identity", IDENTITIES)
def test_of_two_appends_into_one_new_partition_one_goes_whole_and_nothing_is_lost(identity: Identity):
    """Both have seen that it is not there; the other one moves its files into what is there then."""
    store = MemoryStore(identity=identity)
    jobs = two_jobs(store)
    both, found = threading.Barrier(2), list[str]()

    def meet(call: StoreCall) -> None:
        if call.operation == "move_whole" and call.paths[-1] == "/table/p=1":
            both.wait()

    def run(job: JobAttempt) -> None:
        found.append(str(sorted(kinds(commit(store, job=job, before=meet)[1]).items())))

    at_once([lambda: run(JOB), lambda: run(OTHER_JOB)])
    assert sorted(found) == ["[('move_whole', 1), ('rename', 2)]", "[('move_whole', 1)]"]
    assert visible_files(store, "/table") == jobs[JOB] | jobs[OTHER_JOB]


def test_a_partition_that_another_job_has_filled_meanwhile_proves_nothing():
    """It has as many files, of the same sizes, and this job's source is gone: taken away by somebody."""
    store = MemoryStore()
    jobs = two_jobs(store)
    commit(store, job=OTHER_JOB)

    def rob(call: StoreCall) -> None:
        if call.operation == "move_whole" and call.paths[-1] == "/table/p=1":
            store.delete_directory(call.paths[0])

    store.move_directory("/table/p=1", "/table/hidden")
    back = do_at("advance", lambda: store.move_directory("/table/hidden", "/table/p=1"), "recorded")

    def before(call: StoreCall) -> None:
        back(call)
        rob(call)

    with pytest.raises(CommitStateUnknownError):
        commit(store, before=before)
    assert phase_of(store) is Phase.RECORDED
    assert visible_files(store, "/table") == jobs[OTHER_JOB]


@pytest.mark.parametrize("mode", [ConflictMode.OVERWRITE_PARTITIONS, ConflictMode.OVERWRITE])
def test_a_job_that_replaces_data_moves_new_partitions_whole_and_old_ones_by_file(mode: ConflictMode):
    kept = {"p=9/old": b"kept"} if mode is ConflictMode.OVERWRITE_PARTITIONS else {}
    store, files = with_job(old={"p=1/old": b"goes", "p=9/old": b"kept"}, mode=mode)
    result, calls = commit(store, CommitOptions(mode=mode))
    assert kinds(calls) == Counter(move_whole=2, rename=2)
    assert result.replaced == 2 - len(kept)
    assert visible_files(store, "/table") == {**kept, **files}


def test_files_that_take_the_names_of_old_ones_are_moved_after_the_whole_partitions():
    name = f"p=1/{staged_name('f')}"
    store, files = with_job(old={name: b"old"}, mode=ConflictMode.OVERWRITE_PARTITIONS)
    result, _ = commit(store, CommitOptions(mode=ConflictMode.OVERWRITE_PARTITIONS))
    assert (result.moved, result.files) == (6, 6)
    assert visible_files(store, "/table") == files


@pytest.mark.parametrize("old", [NEW[:1], NEW])
def test_old_namesakes_that_are_gone_with_their_partitions_are_counted_once(old: tuple[str, ...]):
    """The run that goes on asks for each directory again, and finds nothing in the place of some."""
    namesakes = {f"{directory}/{staged_name('f')}": b"old" for directory in old}
    mode = ConflictMode.OVERWRITE_PARTITIONS
    options = CommitOptions(mode=mode, validate=True)
    store, files = with_job(old=namesakes | {"q=1/r=1/other": b"old"}, mode=mode)
    died(store, lambda one: run_commit(one, JOB, options), "move_whole" if old == NEW[:1] else "rename")
    store.delete_file(f"/table/p=1/{staged_name('f')}")
    store.remove_empty_directory("/table/p=1")
    result, _ = commit(store, options)
    assert (result.moved, result.files) == (6, 6)
    assert visible_files(store, "/table") == files


@pytest.mark.parametrize("mode", [ConflictMode.ERROR, ConflictMode.ERROR_PARTITIONS])
def test_a_job_that_wants_no_data_moves_new_partitions_whole_and_is_refused_beside_data(
    mode: ConflictMode,
):
    store, files = with_job(mode=mode)
    _, calls = commit(store, CommitOptions(mode=mode))
    assert kinds(calls) == Counter(move_whole=3)
    assert visible_files(store, "/table") == files
    store, _ = with_job(mode=mode)
    put_file(store, "/table/p=1/old", b"old")
    with pytest.raises(CommitConflictError):
        commit(store, CommitOptions(mode=mode))
    assert visible_files(store, "/table") == {"p=1/old": b"old"}


def test_a_table_with_a_log_names_the_files_of_whole_partitions():
    store = MemoryStore()
    table_on(store)
    files = files_in(tasks := tasks_of(*NEW))
    write_job(store, JOB, tasks)
    result, calls = commit(store)
    assert kinds(calls) == Counter(move_whole=3)
    assert result.table_version is not None
    assert data_of_log(store) == {name: len(data) for name, data in files.items()}


def test_a_run_that_moves_nothing_any_more_looks_at_no_source():
    """The files of a sealed job with a log are in place, and nothing is moved again."""
    store = MemoryStore()
    table_on(store)
    write_job(store, JOB, tasks_of(*NEW))
    died(store, lambda one: run_commit(one, JOB), "advance", "sealed", "after")
    calls = calls_of(store, lambda one: run_commit(one, JOB))
    sources = [path for call in calls for path in call.paths[:1] if is_of_task(f"{path}/")]
    assert {path.split("/")[-1][:6] for path in sources} == {"frozen", "set-up"}


@pytest.mark.parametrize("seed", range(12))
def test_work_that_is_lost_and_done_twice_moves_each_directory_once(seed: int):
    store, files = with_job(old={"p=2/old": b"old"})
    executor = chaos_executor(store, JOB, seed)
    result = run_commit(store, JOB, executor=executor)
    assert (result.outcome, result.files) == (Outcome.COMMITTED, 6)
    assert result.moved + sum(result.proved.values()) == 6
    assert visible_files(store, "/table") == {**files, "p=2/old": b"old"}


def test_a_worker_that_dies_between_a_move_and_its_answer_leaves_it_to_be_proved():
    store, files = with_job()
    with pytest.raises(SimulatedCrash):
        commit(store, after=at("move_whole", SimulatedCrash(), "p=2"))
    result, calls = commit(store)
    assert result.resumed
    assert result.proved.keys() == {"modification time and size"}
    assert "rename" not in kinds(calls)
    assert visible_files(store, "/table") == files


@pytest.mark.parametrize("listing_is_cheap", [True, False])
def test_a_run_that_goes_on_lists_the_sources_and_proves_what_is_in_place(listing_is_cheap: bool):
    """Three requests for a directory that is in place, whatever its number of files: a move that
    misses, a look at its source, and a listing."""
    store, _ = with_job(store=MemoryStore(identity=Identity.ETAG, listing_is_cheap=listing_is_cheap))
    died(store, lambda one: run_commit(one, JOB), "advance", "committed")
    result, calls = commit(store)
    assert kinds(calls) == Counter(move_whole=3)
    assert (result.moved, sum(result.proved.values())) == (0, 6)


@pytest.mark.parametrize("listing_is_cheap", [True, False])
def test_a_source_that_was_emptied_by_file_is_not_moved_for_its_files(listing_is_cheap: bool):
    store, _ = with_job("p=1", "p=2", store=MemoryStore(listing_is_cheap=listing_is_cheap))
    refuse = at("move_whole", PermissionError(errno.EACCES, "denied"), "p=1")
    with pytest.raises(SimulatedCrash):
        commit(WrappedStore(store, before=refuse), before=at("advance", SimulatedCrash(), "committed"))
    for path in store.files("/table/p=1"):
        store.delete_file(path)
    store.remove_empty_directory("/table/p=1")
    with pytest.raises(CommitStateUnknownError):
        commit(store)
    assert phase_of(store) is Phase.RECORDED


def test_new_directories_are_noted_while_the_record_is_still_written():
    store, _ = with_job()
    noted, is_noted = threading.Event(), list[bool]()

    def before(call: StoreCall) -> None:
        if call.operation == "write" and "/packs/" in call.paths[0]:
            is_noted.append(noted.wait(20))

    def after(call: StoreCall) -> None:
        if call.operation == "write" and call.paths[0].endswith("-new.json"):
            noted.set()

    with opening(store, before=before, after=after):
        ray_committer.commit_job("file:///table", JOB.job_id, executor="threads")
    assert is_noted == [True]


@pytest.mark.parametrize("number", range(3))
def test_an_undo_takes_files_back_and_removes_what_the_job_has_made(number: int):
    store, _ = with_job(old={"p=9/old": b"old"})
    died(store, lambda one: run_commit(one, JOB), "move_whole", NEW[number], "after")
    run_undo(store, JOB)
    assert visible_files(store, "/table") == {"p=9/old": b"old"}
    assert [one.name for one in store.list_status("/table")] == ["p=9"]


def test_an_undo_leaves_directories_that_were_there_and_those_that_hold_files_of_others():
    store, _ = with_job()
    store.mkdirs("/table/p=1")
    died(store, lambda one: run_commit(one, JOB), "advance", "committed")
    put_file(store, "/table/p=2/other", b"of others")
    run_undo(store, JOB)
    assert visible_files(store, "/table") == {"p=2/other": b"of others"}
    assert [one.name for one in store.list_status("/table")] == ["p=1", "p=2"]


def test_an_undo_moves_no_directory_back():
    store, _ = with_job()
    died(store, lambda one: run_commit(one, JOB), "advance", "committed")
    put_file(store, "/table/p=2/other", b"of others")
    calls: list[StoreCall] = []
    run_undo(WrappedStore(store, before=calls.append), JOB)
    from_table = [call for call in calls if call.paths[0].startswith(("/table/p=", "/table/q="))]
    assert {call.operation for call in from_table if len(call.paths) > 1} == {"set_aside"}
    assert visible_files(store, "/table") == {"p=2/other": b"of others"}
