"""What must hold on each store alike, with its server: schedules, tables with a log, their readers."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from threading import Barrier
from urllib.parse import unquote

import pyarrow as pa
import pytest
from _pytest.mark.structures import ParameterSet

import ray_committer
from ray_committer import CommitOptions, ConflictMode, Outcome
from ray_committer.errors import IncompleteJobError, JobGoneError, ManifestError
from ray_committer.jobs.destination_status import destination_status
from ray_committer.protocol.commit_result import CommitResult
from ray_committer.protocol.paths import JobAttempt, new_job_attempt, parent
from ray_committer.protocol.staging import is_staged
from ray_committer.protocol.whole import ByFile
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.registry import destination_url, open_store
from ray_committer.testing import (
    SimulatedCrash,
    StoreCall,
    WrappedStore,
    harness,
    run_commit,
    visible_files,
)
from ray_committer.testing.harness import put_file, set_up_attempt, source_of, write_attempt
from ray_committer.testing.harness import write_job as write_any_job
from ray_committer.writers import job as arrow_job
from ray_committer.writers.files import FileLayout
from ray_committer.writers.job import WriteMode
from tests.doubles import pending_uploads
from tests.integration.snapshots import check_snapshots
from tests.integration.store_jobs import all_of, tasks_of
from tests.opening import is_of_task
from tests.schedules import PART_OF_A_TABLE, PARTS_OF_A_SERVER, check_server
from tests.servers.dfs import ACCOUNT, DfsServer
from tests.servers.fake_s3 import SERVERS, FakeS3, FakeS3Server
from tests.servers.gcs import GcsServer
from tests.servers.hdfs import HdfsServer
from tests.servers.moto import MotoServer
from tests.servers.s3_bucket import new_bucket
from tests.servers.seaweedfs import SeaweedServer
from tests.stages.support import now, staged_name
from tests.table_crashes import CASES_OF_A_SERVER, check_finished, check_resolved
from tests.threads import at_once


@dataclass(frozen=True)
class Place:
    """A directory of a test's own on a server; nothing is there."""

    spec: StoreSpec
    directory: str

    def opened(self) -> StoreOperations:
        store = open_store(self.spec)
        store.mkdirs(self.directory)
        return store


@pytest.fixture
def on_adls(dfs: DfsServer) -> StoreSpec:
    authority = f"lake@{ACCOUNT}.dfs.core.windows.net"
    return StoreSpec("abfs", authority, {"connection_string": dfs.connection_string()})


@pytest.fixture
def on_gcs(gcs_server: GcsServer) -> StoreSpec:
    gcs_server.proxy.reset()
    return StoreSpec("gs", gcs_server.new_bucket(), gcs_server.storage_options)


@pytest.fixture
def on_hdfs(hdfs: HdfsServer) -> StoreSpec:
    return StoreSpec("hdfs", hdfs.authority)


@pytest.fixture
def on_webhdfs(hdfs: HdfsServer) -> StoreSpec:
    return StoreSpec("webhdfs", hdfs.http_url.removeprefix("http://"))


@pytest.fixture
def on_s3() -> Iterator[StoreSpec]:
    """The strict S3, which answers as Amazon does."""
    yield from strict_s3("amazon")


@pytest.fixture
def on_forgetful_s3() -> Iterator[StoreSpec]:
    yield from strict_s3("minio")


def strict_s3(server_name: str) -> Iterator[StoreSpec]:
    server = FakeS3Server(FakeS3(buckets={"bucket": {}}, **SERVERS[server_name])).start()
    yield StoreSpec("s3", "bucket", server.storage_options)
    server.stop()


@pytest.fixture
def on_moto(moto: MotoServer) -> Iterator[StoreSpec]:
    options = {"endpoint_url": moto.url, "key": "test", "secret": "test", "region": "us-east-1"}
    with new_bucket(moto.url) as bucket:
        yield StoreSpec("s3", bucket.name, options)


@pytest.fixture
def on_seaweedfs(seaweedfs: SeaweedServer) -> Iterator[StoreSpec]:
    with new_bucket(seaweedfs.url) as bucket:
        yield StoreSpec("s3", bucket.name, seaweedfs.storage_options)


GROUPS = {
    "adls": "adls",
    "gcs": "gcs",
    "hdfs": "ray",
    "webhdfs": "ray",
    "s3": "s3",
    "forgetful_s3": "s3",
    "moto": "s3",
    "seaweedfs": "s3",
}


def on(*names: str, wide: tuple[str, ...] = ()) -> list[ParameterSet]:
    """These servers, for the fixture `place`; tests of one server run in one process."""
    marks = {name: [pytest.mark.server, pytest.mark.xdist_group(GROUPS[name])] for name in names + wide}
    for name in wide:
        marks[name].append(pytest.mark.wide)
    return [pytest.param(name, marks=found) for name, found in marks.items()]


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    return Place(request.getfixturevalue(f"on_{request.param}"), f"/tests/{uuid.uuid4()} ö")


@pytest.mark.parametrize("part", PARTS_OF_A_SERVER)
@pytest.mark.parametrize(
    "place",
    on("adls", "gcs", "webhdfs", "s3", "forgetful_s3", "seaweedfs", wide=("hdfs",)),
    indirect=True,
)
def test_no_schedule_of_processes_ends_in_what_must_not_be(place: Place, part: int):
    check_server(place.spec, place.directory, part)


@pytest.mark.parametrize("part", PART_OF_A_TABLE)
@pytest.mark.parametrize(
    "place", on("adls", "gcs", "hdfs", "webhdfs", "s3", "forgetful_s3", "seaweedfs"), indirect=True
)
def test_no_schedule_at_a_table_with_a_log_ends_in_what_must_not_be(place: Place, part: int):
    check_server(place.spec, place.directory, part, "--log")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("work", "fate", "stride"), CASES_OF_A_SERVER)
@pytest.mark.parametrize("place", on("adls", "gcs", "hdfs", "webhdfs"), indirect=True)
def test_a_job_that_was_hit_at_any_request_to_the_log_is_finished_by_the_same_command(
    place: Place, work: str, fate: str, stride: int
):
    check_finished(place.opened(), place.directory, work, fate, stride)


@pytest.mark.wide
@pytest.mark.timeout(600)
@pytest.mark.parametrize("work", ["append", "replace"])
@pytest.mark.parametrize("place", on("adls", "gcs", "hdfs", "webhdfs"), indirect=True)
def test_a_job_that_died_at_any_request_to_the_log_is_resolved_if_its_directory_is_deleted(
    place: Place, work: str
):
    check_resolved(place.opened(), place.directory, work, "after", 1)


@pytest.mark.parametrize("place", on("adls", "gcs", "webhdfs", "moto", "seaweedfs"), indirect=True)
def test_each_version_of_a_table_with_a_log_is_read_whole_and_alone(place: Place):
    url = destination_url(place.spec, place.directory)
    now = check_snapshots(url, dict(place.spec.storage_options))
    assert now.urls("day=1") == [f"{unquote(url)}/day=1/part-9.csv"]


TASKS = {
    0: {staged_name("p=1 ö%/a"): b"1", "p=2/b ö%": b"22"},
    1: {staged_name("p=1 ö%/c", 1): b"333"},
}


@pytest.mark.parametrize(
    "place", on("adls", "gcs", "hdfs", "webhdfs", "s3", "moto", "seaweedfs"), indirect=True
)
def test_what_has_ended_is_not_there_any_more(place: Place):
    """A job is committed, committed again, aborted, undone, and committed beside another one."""
    store, url = place.opened(), destination_url(place.spec, place.directory)
    named = {"storage_options": dict(place.spec.storage_options)}

    def written(number: int) -> JobAttempt:
        tasks = {
            task: {f"{name}-{number}": data for name, data in files.items()}
            for task, files in TASKS.items()
        }
        job = new_job_attempt(place.directory, f"job_{number}", 0)
        harness.write_job(store, job, tasks)
        return job

    def visible() -> list[str]:
        return sorted({name.rpartition("-")[2] for name in visible_files(store, place.directory)})

    def check_over(number: int) -> None:
        assert ray_committer.list_jobs(url, **named) == []
        assert ray_committer.vacuum_jobs(url, **named) == []
        assert destination_status(url, **named).jobs == ()
        assert pending_uploads(store) == []
        assert store.get_status(new_job_attempt(place.directory, f"job_{number}", 0).temporary) is None

    job = written(1)
    for outcome in (Outcome.COMMITTED, Outcome.ALREADY_COMMITTED):
        assert ray_committer.commit_job(url, job.job_id, executor="inline", **named).outcome is outcome
    check_over(1)

    job = written(2)
    assert ray_committer.abort_job(url, job.job_id, **named)
    check_over(2)
    with pytest.raises(JobGoneError):
        ray_committer.abort_job(url, job.job_id, **named)
    with pytest.raises(JobGoneError):
        ray_committer.commit_job(url, job.job_id, executor="inline", **named)

    job = written(3)
    operation = "publish" if store.has(StoreOperations.publish) else "rename"
    moves = itertools.count()

    def die(call: StoreCall) -> None:
        if call.operation == operation and call.paths[0].endswith("-3") and next(moves) == 1:
            raise SimulatedCrash(call)

    with pytest.raises(SimulatedCrash):
        run_commit(WrappedStore(store, after=die), job)
    assert visible() == ["1", "3"]
    assert ray_committer.abort_job(url, job.job_id, undo=True, **named)
    assert visible() == ["1"]
    check_over(3)

    jobs = [written(4), written(5)]
    at_once([partial(run_commit, open_store(place.spec), job) for job in jobs])
    assert visible() == ["1", "4", "5"]
    assert len(visible_files(store, place.directory)) == 9
    check_over(5)


@pytest.mark.parametrize("place", on("adls", "hdfs", "webhdfs"), indirect=True)
def test_of_two_appends_into_new_partitions_each_goes_whole_once_and_nothing_is_lost(place: Place):
    """Both have seen that the partitions are not there. Whose rename comes second moves file by file."""
    store, files, found = place.opened(), dict[str, bytes](), list[CommitResult]()
    jobs = [new_job_attempt(place.directory, f"job_{number}", 0) for number in range(2)]
    for job in jobs:
        names = [
            [staged_name(f"{p}/{job.job_id}", task) for p in ("p=1 ö%", "p=2")] for task in range(2)
        ]
        tasks = {task: dict.fromkeys(some, job.job_id.encode()) for task, some in enumerate(names)}
        harness.write_job(store, job, tasks)
        files |= {name: data for some in tasks.values() for name, data in some.items()}
    both = Barrier(2)

    def meet(call: StoreCall) -> None:
        if call.operation == "move_whole" and call.paths[-1] == f"{place.directory}/p=1 ö%":
            both.wait()

    def commit(job: JobAttempt) -> None:
        found.append(run_commit(WrappedStore(open_store(place.spec), before=meet), job))

    at_once([partial(commit, job) for job in jobs])
    assert visible_files(store, place.directory) == files
    assert [(result.moved, result.directories) for result in found] == [(4, 2)] * 2
    assert sum(result.whole for result in found) == 2
    assert {reason for result in found for reason in result.by_file} == {ByFile.THERE.value}


@pytest.mark.parametrize("place", on("adls", "gcs", "hdfs", "moto"), indirect=True)
@pytest.mark.parametrize("shared", [False, True])
def test_files_of_a_task_without_a_manifest_stop_a_commit_that_was_not_told_the_number(
    place: Place, shared: bool
):
    store, job = place.opened(), new_job_attempt(place.directory, "job_1", 0)
    name = (lambda task: staged_name("p=1/a", task)) if shared else (lambda task: f"p=1/{task}")
    write_any_job(store, job, {0: {name(0): b"x"}})
    write_attempt(store, job, set_up_attempt(store, job, 1, 0), {name(1): b"x"})
    url, options = destination_url(place.spec, place.directory), dict(place.spec.storage_options)
    with pytest.raises(IncompleteJobError, match=r"here: attempt[_ ].*1"):
        ray_committer.commit_job(url, "job_1", storage_options=options)
    told = ray_committer.CommitOptions(expected_tasks=1)
    report = ray_committer.commit_job(url, "job_1", options=told, storage_options=options)
    assert report.files == 1


@pytest.mark.parametrize("place", on("adls", "gcs", "webhdfs", "s3"), indirect=True)
def test_what_writers_wrote_side_by_side_is_committed_and_what_failed_is_not(place: Place):
    store, url = place.opened(), destination_url(place.spec, place.directory)
    job = arrow_job.start(
        url,
        FileLayout("csv", ("p",)),
        mode=WriteMode.APPEND,
        options=ray_committer.CommitOptions(),
        storage_options=dict(place.spec.storage_options),
    )
    assert job is not None

    def rows(task: int) -> Iterator[pa.Table]:
        yield pa.table({"id": [task, task], "p": ["a", "A é%"]})

    def failing() -> Iterator[pa.Table]:
        yield from rows(0)
        raise RuntimeError("simulated")

    with pytest.raises(RuntimeError, match="simulated"):
        arrow_job.write_attempt(job, 0, failing())
    results = [arrow_job.write_attempt(job, task, rows(task)) for task in range(3)]
    tasks = new_job_attempt(place.directory, job.job_id, 0).tasks
    staged = [one.path for one in store.list_files(tasks) if one.path.endswith(".csv")]
    assert len(staged) == (0 if store.has(StoreOperations.publish) else 6)
    assert all(is_staged(parent(path), tasks) for path in staged)
    report = arrow_job.commit(job, results, executor="inline")
    assert report is not None
    visible = visible_files(store, place.directory)
    assert (report.moved, len(visible), len({parent(name) for name in visible})) == (6, 6, 2)
    assert sorted(data.split()[1] for data in visible.values()) == [b"0", b"0", b"1", b"1", b"2", b"2"]
    assert store.get_status(new_job_attempt(place.directory, job.job_id, 0).temporary) is None


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
@pytest.mark.usefixtures("ray_cluster", "small_shards")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("place", on("s3", wide=("adls", "gcs", "hdfs")), indirect=True)
def test_workers_on_several_nodes_commit_what_tasks_wrote(place: Place):
    """Each worker opens the store by its description, on another node."""
    url, named = (
        destination_url(place.spec, place.directory),
        {"storage_options": place.spec.storage_options},
    )
    tasks = tasks_of(120, tasks=6)
    ray_committer.setup_job(url, "job_1", **named)
    for task, files in tasks.items():
        with ray_committer.task_attempt(url, "job_1", task, **named) as attempt:
            for name, data in files.items():
                with attempt.open(name) as file:
                    file.write(data)
    options = CommitOptions(workers=2, expected_tasks=6, validate=True)
    report = ray_committer.commit_job(url, executor="ray", options=options, **named)
    assert (report.outcome, report.moved, report.validated) == (Outcome.COMMITTED, 120, 120)
    store = place.opened()
    assert visible_files(store, place.directory) == all_of(tasks)
    assert store.get_status(f"{place.directory}/_temporary") is None


NEW = {0: {f"p={n}/new": b"x" for n in range(6)}}
LOOKS = ("list_status", "list_page", "list_exact", "find_names", "get_status", "mkdirs")


@pytest.mark.parametrize("mode", [ConflictMode.APPEND, ConflictMode.OVERWRITE_PARTITIONS])
@pytest.mark.parametrize("place", on("adls", "gcs", "hdfs", "webhdfs", "s3", "moto"), indirect=True)
def test_one_page_shows_which_partitions_are_new_and_each_other_one_costs_one_request(
    place: Place, mode: ConflictMode
):
    store, calls = place.opened(), list[StoreCall]()
    old = new_job_attempt(place.directory, "old", 0)
    write_any_job(store, old, {0: {f"p={n}/old": b"x" for n in range(3)}})
    run_commit(store, old)
    job = new_job_attempt(place.directory, "job_1", 0)
    write_any_job(store, job, NEW, mode=mode)
    options = CommitOptions(mode=mode, validate=False)
    run_commit(WrappedStore(store, before=calls.append), job, options)
    above = f"{place.directory}/p="
    asked = [call for call in calls if call.operation in LOOKS and call.paths[0].startswith(above)]
    is_there = [call for call in asked if call.operation != "mkdirs"]
    assert sorted(call.paths[0].removeprefix(above)[0] for call in is_there) == ["0", "1", "2"]
    made = [call.paths[0][-1] for call in asked if call.operation == "mkdirs"]
    assert sorted(made) == (["3", "4", "5"] if store.capabilities.has_directories else [])
    assert sum(call.operation == "find_names" for call in calls) == 1
    left = {"p=0/old", "p=1/old", "p=2/old"} if mode is ConflictMode.APPEND else set()
    assert visible_files(store, place.directory).keys() == left | {f"p={n}/new" for n in range(6)}


@pytest.mark.parametrize("place", on("adls", "gcs", "hdfs", "webhdfs"), indirect=True)
def test_files_that_are_missing_changed_or_named_by_no_manifest_stop_a_commit(place: Place):
    store, job = place.opened(), new_job_attempt(place.directory, "job_1", 0)
    tasks = {task: {f"p={n}/{staged_name(f'f{n}', task)}": b"x" for n in range(4)} for task in range(3)}
    write_any_job(store, job, tasks)

    def path(name: str, task: int, attempt: int = 0) -> str:
        attempt_id = f"attempt_{job.job_id}_m_{task:06d}_{attempt}"
        return source_of(now(store, job), attempt_id, f"p=1/{staged_name(name, task, attempt)}")

    put_file(store, path("dead", 1, attempt=1), b"of an attempt that does not count")
    put_file(store, path("late", 2), b"of one that does")
    with pytest.raises(IncompleteJobError, match=r"1 files of task attempts that count are named by no"):
        run_commit(store, job)
    store.delete_file(path("late", 2))
    store.delete_file(path("f1", 0))
    put_file(store, path("f1", 1), b"longer")
    with pytest.raises(ManifestError, match="names 2 files that are missing or changed"):
        run_commit(store, job)
    assert visible_files(store, place.directory) == {}
    assert store.get_status(path("dead", 1, attempt=1)) is not None


@pytest.mark.parametrize(
    ("place", "listings"),
    [
        pytest.param(*param.values, listings, marks=param.marks)
        for param, listings in zip(on("adls", "gcs", "hdfs", "webhdfs"), (4, 2, 7, 7), strict=True)
    ],
    indirect=["place"],
)
def test_the_files_of_many_tasks_are_listed_at_once(place: Place, listings: int):
    """On Azure by pages, with the rights of shared directories by two listings more, on Google also for
    their versions, and elsewhere by shared directories; where files are frozen, one finds the mark."""
    store, calls = place.opened(), list[StoreCall]()
    job = new_job_attempt(place.directory, "job_1", 0)
    names = {task: [f"p={n}/{staged_name(f'f{n}', task)}" for n in range(4)] for task in range(8)}
    write_any_job(store, job, {task: dict.fromkeys(one, b"x") for task, one in names.items()})
    run_commit(WrappedStore(store, before=calls.append), job, CommitOptions(expected_tasks=8))
    kinds = ("list_status", "list_files", "list_files_page", "get_status")
    looks = [call for call in calls if call.operation in kinds and is_of_task(f"{call.paths[0]}/")]
    assert len(looks) == listings
    assert len(visible_files(store, place.directory)) == 32
