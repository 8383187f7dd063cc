"""Bad input, and bad places: what is said of it, word for word, the exit code, and that nothing changed.

Each is three lines on standard error: what is wrong, what to do, and where to read more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer.jobs import open_job
from tests.cli.commands import error_lines, run, snapshot

READERS = ["status", "show"]
JOB_COMMANDS = ["commit", "validate", "abort"]


def nothing(dest: Path, write_job) -> None:
    dest.mkdir()


def one_job(dest: Path, write_job) -> None:
    write_job({0: {"a": "x"}})


def two_jobs(dest: Path, write_job) -> None:
    write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"a": "x"}}, job_id="job_2")


def two_attempts(dest: Path, write_job) -> None:
    write_job({0: {"a": "x"}})
    shutil.copytree(dest / "_temporary/job_1/00", dest / "_temporary/job_1/01")


def no_manifests(dest: Path, write_job) -> None:
    write_job({})


def truncated(dest: Path, write_job) -> None:
    path = Path(write_job({0: {"a": "x"}}).manifest("task_1_m_000000"))
    path.write_bytes(path.read_bytes()[:100])


def foreign(dest: Path, write_job) -> None:
    path = Path(write_job({0: {"a": "x"}}).manifest("task_1_m_000000"))
    path.write_bytes(path.read_bytes().replace(b'"jobId":"job_1"', b'"jobId":"job_9"'))


def same_file_twice(dest: Path, write_job) -> None:
    write_job({0: {"a": "x"}, 1: {"a": "y"}})


def a_file(dest: Path, write_job) -> None:
    dest.mkdir()
    (dest / "f").write_text("x")


def recorded(dest: Path, write_job) -> None:
    one_job(dest, write_job)
    ray_committer.record_job(str(dest))


def data_in_the_way(dest: Path, write_job) -> None:
    one_job(dest, write_job)
    (dest / "a").write_text("another")


def one_file_in_no_partition(dest: Path, write_job) -> None:
    write_job({0: {"p=1/a": "x", "b": "y"}})


Prepare = Callable[[Path, Callable], None]
MANIFEST = "D/_temporary/job_1/00/manifests/task_1_m_000000-manifest.json"
OSS = (
    "oss://bucket/table: cannot be committed to: this store renames by copying",
    "use the committer of its Hadoop client",
)
SPELLING = "check the destination's spelling"
COMMIT = ("commit", "D", "--assume-complete")

BAD: list[tuple[str, Prepare, tuple[str, ...], int, str, str]] = [
    ("wrong path", nothing, ("commit", "D/x"), 1, "D/x: does not exist", SPELLING),
    ("wrong path", nothing, ("abort", "D/x"), 1, "D/x: does not exist", SPELLING),
    ("wrong path", nothing, ("status", "D/x"), 1, "D/x: does not exist", SPELLING),
    ("wrong path", nothing, ("vacuum", "D/x"), 1, "D/x: does not exist", SPELLING),
    (
        "wrong path",
        nothing,
        ("validate", "D/x"),
        1,
        "D/x: has neither the job nor a _SUCCESS, so there is nothing to compare",
        SPELLING,
    ),
    ("wrong path", nothing, ("show", "D/x"), 1, "D/x: does not exist", "check its spelling"),
    (
        "a file",
        a_file,
        ("commit", "D/f"),
        1,
        "D/f: is a file",
        "name the directory that the job wrote to",
    ),
    (
        "a file",
        a_file,
        ("vacuum", "D/f"),
        1,
        "D/f: is a file",
        "name the directory that the job wrote to",
    ),
    (
        "a file",
        a_file,
        ("show", "D/f"),
        1,
        "D/f: is not a file of a job, and not in a table with a log, which names each file's writer",
        "the file was left as it is; run `ray-committer status DEST` to see the jobs",
    ),
    (
        "no such job",
        two_jobs,
        (*COMMIT, "--job-id", "job_7"),
        3,
        "D/_temporary: holds nothing of job job_7 to commit, and _SUCCESS is not this job's",
        "the job may have been committed before another job was, or deleted: look for its files in D. "
        "The jobs that are there: job_1, job_2",
    ),
    (
        "no job",
        nothing,
        COMMIT,
        1,
        "D/_temporary: holds no job to commit",
        "if there was one, it has ended, or another job's clean-up has deleted it",
    ),
    (
        "no such attempt",
        one_job,
        (*COMMIT, "--attempt", "3"),
        1,
        "D/_temporary/job_1: has no attempt 3, only [0]",
        "run `ray-committer status DEST` to list the jobs",
    ),
    *(
        (
            "two jobs",
            two_jobs,
            (command, "D"),
            2,
            "D/_temporary: holds 2 jobs (job_1, job_2)",
            "name one with --job-id",
        )
        for command in JOB_COMMANDS
    ),
    (
        "two attempts",
        two_attempts,
        COMMIT,
        2,
        "D/_temporary/job_1: has the attempts [0, 1]",
        "name one with --attempt",
    ),
    (
        "no manifests",
        no_manifests,
        COMMIT,
        1,
        "D/_temporary/job_1/00/manifests: contains no task manifest, but each task saves one, even "
        "without output",
        "nothing was changed: no task has committed with this protocol, so check the application",
    ),
    (
        "a truncated manifest",
        truncated,
        COMMIT,
        1,
        f"{MANIFEST}: is truncated or not JSON (Input data was truncated)",
        "run the task again",
    ),
    (
        "a truncated manifest",
        truncated,
        ("show", MANIFEST),
        1,
        f"{MANIFEST}: is truncated or not JSON (Input data was truncated)",
        "run the task again",
    ),
    (
        "another job's manifest",
        foreign,
        COMMIT,
        1,
        f"{MANIFEST}: belongs to job job_9, not to job_1",
        "move it away",
    ),
    (
        "one file twice",
        same_file_twice,
        ("commit", "D", "--dry-run"),
        1,
        "D/a: would be written more than once, by "
        "D/_temporary/job_1/00/tasks/attempt_1_m_000000_0/a and "
        "D/_temporary/job_1/00/tasks/attempt_1_m_000001_0/a",
        "let each task use its own file names",
    ),
    (
        "too few tasks",
        one_job,
        ("commit", "D", "--expect-tasks", "2"),
        1,
        "D/_temporary/job_1/00/manifests: 2 tasks succeeded but only 1 manifests are here",
        "nothing was changed: wait if tasks are still running, or, if another job's clean-up may have "
        "deleted the others, run the application again",
    ),
    (
        "an abort too late",
        recorded,
        ("abort", "D"),
        4,
        "D/_temporary/job_1/00: the commit of this job has begun, so it can no longer be aborted",
        "finish it with: ray-committer commit D --job-id job_1, or give it up with: ray-committer abort "
        "D --job-id job_1 --undo",
    ),
    *(
        ("OSS", nothing, (command, "oss://bucket/table"), 1, *OSS)
        for command in (*JOB_COMMANDS, *READERS)
    ),
    ("OSS", nothing, ("vacuum", "oss://bucket/table"), 1, *OSS),
    (
        "no catalog",
        a_file,
        ("partitions", "D", "--table", "db.t"),
        1,
        "D: has data files, but is not the directory of a partition (column=value)",
        "nothing was changed: move these files, or name the partitions with --partition",
    ),
    (
        "no catalog",
        nothing,
        ("partitions", "D", "--table", "db.t", "--partition", "day"),
        2,
        "--partition day: is not the directory of a partition",
        "nothing was changed: write it relative to DEST, as day=1",
    ),
    (
        "no catalog",
        nothing,
        ("partitions", "D", "--table", "a.b.c"),
        2,
        "'a.b.c': is not the name of a table in a catalog",
        "write it as db.table, without quotes",
    ),
    (
        "no catalog",
        nothing,
        ("partitions", "D", "--table", "t", "--since", "1", "--partition", "day=1"),
        2,
        "--since and --partition cannot be used together",
        "see `ray-committer partitions --help`",
    ),
    ("no catalog", nothing, ("partitions", "D/x", "--table", "t"), 1, "D/x: does not exist", SPELLING),
    *(
        ("a bad estimate", nothing, ("estimate", *words), 2, what, "see `ray-committer estimate --help`")
        for words, what in (
            ((), "missing argument 'STORE'. Choose from: file, hdfs, abfs, gs, s3"),
            (("gs",), "missing argument 'FILES'"),
            (("gs", "0"), "files: 0 is not in the range x>=1"),
            (("oss", "9"), "store: 'oss' is not one of 'file', 'hdfs', 'abfs', 'gs', 's3'"),
            (("gs", "9", "--partitions", "10"), "--partitions 10: there are only 9 files"),
            (
                ("file", "9", "--workers", "2"),
                "--workers: one machine renames its local files, so workers gain nothing",
            ),
            (
                ("gs", "9", "--latency-ms", "0"),
                "--latency-ms: 0.0 is not in the range 0.01<=x<=60000",
            ),
        )
    ),
    (
        "no Ray",
        one_job,
        (*COMMIT, "--executor", "ray"),
        1,
        "RAY_ADDRESS=127.0.0.1:1: no Ray cluster answers there ([Errno 111] Connection refused)",
        "start that cluster, name another in RAY_ADDRESS, or commit with --executor threads",
    ),
    (
        "Ray Client",
        one_job,
        (*COMMIT, "--executor", "ray", "RAY_ADDRESS=ray://head:10001"),
        1,
        "RAY_ADDRESS=ray://head:10001 is an address of Ray Client, which commits do not support",
        "run this program on a node of the cluster with ray.init(address='auto'), or with `ray job "
        "submit`, or commit without Ray (executor='threads', or commit='deferred' and `ray-committer "
        "commit` in the cluster)",
    ),
    (
        "bad option value",
        one_job,
        (*COMMIT, "--threads", "many"),
        2,
        "--threads: 'many' must be a whole number",
        "see `ray-committer commit --help`",
    ),
    (
        "bad option value",
        one_job,
        (*COMMIT, "--workers", "0"),
        2,
        "--workers: '0' must be at least 1",
        "see `ray-committer commit --help`",
    ),
    (
        "bad option value",
        one_job,
        ("vacuum", "D", "--older-than", "a week"),
        2,
        "--older-than: 'a week' must be a time such as 10s, 500ms, 5m, 1h or 7d (a number without a "
        "unit: seconds)",
        "see `ray-committer vacuum --help`",
    ),
    (
        "bad option value",
        one_job,
        ("vacuum", "D", "--older-than", "5m"),
        2,
        "--older-than: '5m' must be at least 3600 seconds",
        "see `ray-committer vacuum --help`",
    ),
    (
        "bad option value",
        one_job,
        (*COMMIT, "--executor", "mapreduce"),
        2,
        "--executor: 'mapreduce' is not one of 'auto', 'threads', 'inline', 'ray'",
        "see `ray-committer commit --help`",
    ),
    (
        "a storage option that may be a secret",
        one_job,
        (*COMMIT, "-o", "account_key:s3cret"),
        2,
        "-o: it must be KEY=VALUE (the value is not shown, because it may be a secret)",
        "see `ray-committer commit --help`",
    ),
    (
        "bad variable",
        one_job,
        (*COMMIT, "RAY_COMMITTER_RETRY_SECONDS=soon"),
        2,
        "RAY_COMMITTER_RETRY_SECONDS: 'soon' must be a time such as 10s, 500ms, 5m, 1h or 7d (a "
        "number without a unit: seconds)",
        "see `ray-committer commit --help`",
    ),
    (
        "bad variable",
        one_job,
        (*COMMIT, "RAY_COMMITTER_DURABLE=yes"),
        2,
        "RAY_COMMITTER_DURABLE: 'yes' must be true or false",
        "see `ray-committer commit --help`",
    ),
    (
        "unknown variable",
        one_job,
        (*COMMIT, "RAY_COMMITTER_WORKER=3"),
        2,
        "RAY_COMMITTER_WORKER: is not an option",
        "did you mean workers?",
    ),
    (
        "unknown option",
        one_job,
        (*COMMIT, "--fast"),
        2,
        "no such option --fast; did you mean --reads?",
        "see `ray-committer commit --help`",
    ),
    (
        "unknown option",
        one_job,
        ("--fast", *COMMIT),
        2,
        "no such option --fast",
        "see `ray-committer --help`",
    ),
    (
        "unknown error",
        nothing,
        ("explain", "preflight"),
        2,
        "no such error 'preflight'; did you mean RC-preflight-failed?",
        "run `ray-committer explain` to list them",
    ),
    (
        "contradiction",
        one_job,
        (*COMMIT, "--expect-tasks", "1"),
        2,
        "--expect-tasks and --assume-complete cannot be used together",
        "see `ray-committer commit --help`",
    ),
    (
        "contradiction",
        one_job,
        (*COMMIT, "--replace", "D/p=1"),
        2,
        "--replace needs --mode overwrite",
        "see `ray-committer commit --help`",
    ),
    (
        "contradiction",
        one_job,
        (*COMMIT, "--mode", "overwrite_partitions", "--replace", "D/p=1"),
        2,
        "--replace needs --mode overwrite",
        "see `ray-committer commit --help`",
    ),
    *(
        (
            "a file in no partition",
            one_file_in_no_partition,
            (*COMMIT, "--mode", mode),
            1,
            "D/b: is in no partition, but the mode is one for partitions",
            "nothing was changed: commit the job with another mode, or abort it and let its tasks write "
            "to partitions",
        )
        for mode in ("error_partitions", "overwrite_partitions")
    ),
    (
        "no destination",
        one_job,
        ("commit",),
        2,
        "missing argument 'DEST'",
        "see `ray-committer commit --help`",
    ),
    (
        "no such command",
        one_job,
        ("merge", "D"),
        2,
        "no such command 'merge'",
        "see `ray-committer --help`",
    ),
]


def check(result, exit_code: int, what: str, advice: str) -> None:
    *lines, more = error_lines(result)
    assert lines == [f"ray-committer: {what}", f"  -> {advice}"]
    assert more.startswith("  see: ray-committer explain RC-")
    assert result.exit_code == exit_code
    assert "Traceback" not in result.output
    assert "s3cret" not in result.output


@pytest.mark.parametrize(
    ("prepare", "arguments", "exit_code", "what", "advice"),
    [row[1:] for row in BAD],
    ids=[f"{row[0]}: {' '.join(row[2])}" for row in BAD],
)
def test_bad_input_is_three_clear_lines_and_changes_nothing(
    dest: Path,
    write_job,
    prepare: Prepare,
    arguments: tuple[str, ...],
    exit_code: int,
    what: str,
    advice: str,
):
    prepare(dest, write_job)
    before = snapshot(dest)
    environment = {"RAY_ADDRESS": "127.0.0.1:1"}
    environment |= dict(one.split("=", 1) for one in arguments if one.startswith("RAY_"))
    given = [
        str(dest) + one[1:] if one == "D" or one.startswith("D/") else one
        for one in arguments
        if not one.startswith("RAY_")
    ]
    result = run(*given, **environment)
    here = str(dest)
    what = what.replace("D/", f"{here}/").replace("D:", f"{here}:")
    check(result, exit_code, what, advice.replace(" D ", f" {here} ").replace(" D. ", f" {here}. "))
    assert snapshot(dest) == before


def test_data_at_the_destination_is_three_clear_lines_and_nothing_visible_changes(
    dest: Path, write_job, tree
):
    data_in_the_way(dest, write_job)
    result = run("commit", str(dest), "--assume-complete", "--mode", "error")
    check(result, 4, f"{dest}: holds data already (a)", "this job has changed nothing")
    assert tree() == {"a": "another"}
    assert [job.state for job in ray_committer.list_jobs(str(dest))] == ["running"]


def test_several_kinds_of_things_in_the_way_are_three_clear_lines(dest: Path, write_job, tree):
    job = write_job({0: {"a": "x"}, 1: {"b": "y"}})
    source = Path(job.task_attempt("attempt_1_m_000001_0")) / "b"
    source.unlink()
    (dest / "a").write_text("another")
    result = run("commit", str(dest), "--assume-complete")
    (frozen,) = Path(job.directory).glob("frozen-tasks-*")
    source = frozen / source.relative_to(job.tasks)
    wrong = f"{job.manifests}: names 1 files that are missing or changed"
    check(
        result,
        1,
        f"{wrong}. Also: {dest}/a: is there already",
        f"abort the job and run it again: {source}: is not there; nothing was changed: move what is "
        f"there away, or let the tasks write under other names, and run the same command",
    )
    assert tree() == {"a": "another"}


def test_a_read_only_destination_is_three_clear_lines_and_changes_nothing(open_dest: Path, request):
    ray_committer.setup_job(str(open_dest), "job_1")
    with ray_committer.task_attempt(str(open_dest), "job_1", 0) as attempt:
        Path(attempt.path("a")).write_text("x")
    before = snapshot(open_dest)
    for path in [path for path in (open_dest, *open_dest.rglob("*")) if path.is_dir()]:
        path.chmod(0o555)
    request.getfixturevalue("unprivileged")
    result = run("commit", str(open_dest), "--assume-complete")
    what = result.stderr[result.stderr.rindex("ray-committer: ") :].splitlines()[0]
    assert what.startswith(f"ray-committer: {open_dest}/_temporary/job_1/00/")
    assert what.endswith(": Permission denied")
    check(
        result,
        1,
        what.removeprefix("ray-committer: "),
        "no file was moved: fix that and run the same command",
    )
    aborted = run("abort", str(open_dest))
    assert aborted.exit_code == 3
    assert "the abort is possibly not complete: run the same command again" in aborted.stderr
    assert snapshot(open_dest) == before


@pytest.mark.parametrize("command", ["commit", "abort", "validate"])
def test_a_destination_that_may_not_be_read_is_three_clear_lines(open_dest: Path, request, command: str):
    ray_committer.setup_job(str(open_dest), "job_1")
    (open_dest / "_temporary").chmod(0)
    request.getfixturevalue("unprivileged")
    what = f"{open_dest}/_temporary: no permission (Permission denied), so the state of the job is not "
    what += "known"
    check(
        run(command, str(open_dest)),
        3,
        what,
        "nothing was changed: grant the permission and run the same command",
    )


@pytest.mark.parametrize("command", ["status", "vacuum"])
def test_jobs_that_may_not_be_listed_are_three_clear_lines(open_dest: Path, request, command: str):
    ray_committer.setup_job(str(open_dest), "job_1")
    (open_dest / "_temporary").chmod(0)
    request.getfixturevalue("unprivileged")
    what = f"{open_dest}/_temporary: no permission (Permission denied)"
    check(run(command, str(open_dest)), 1, what, "grant it and run the same command")


def test_doctor_of_a_directory_that_may_not_be_written_says_what_to_grant(open_dest: Path, request):
    open_dest.mkdir()
    assert run("doctor", str(open_dest)).exit_code == 0  # and all is imported that only root may read
    open_dest.chmod(0o555)
    request.getfixturevalue("unprivileged")
    result = run("doctor", str(open_dest))
    assert result.exit_code == 1
    assert "Permission denied" in result.stdout
    assert "-> grant permission to read, write, rename and delete" in result.stdout


def test_an_unexpected_exception_is_three_lines_and_a_traceback_only_when_asked_for(
    dest: Path, monkeypatch
):
    def fail(*_args, **_options) -> None:
        raise ZeroDivisionError("of a bug")

    monkeypatch.setattr(open_job, "open_store", fail)
    advice = "this is a bug in ray-committer: run the command again with -vv and report the output"
    check(run("status", str(dest)), 1, "ZeroDivisionError: of a bug", advice)
    check(run("-v", "status", str(dest)), 1, "ZeroDivisionError: of a bug", advice)
    check(run("abort", str(dest)), 3, "ZeroDivisionError: of a bug", advice)  # it may have begun
    told = run("-vv", "status", str(dest)).stderr
    assert "Traceback" in told
    assert told.endswith(
        f": ZeroDivisionError: of a bug\n  -> {advice}\n  see: ray-committer explain RC-bug\n"
    )


def test_an_error_of_several_lines_is_told_in_one(dest: Path, monkeypatch):
    def fail(*_args, **_options) -> None:
        raise ray_committer.errors.RayLostError("Ray failed:\n  a trace\nof it", "fix the cluster")

    monkeypatch.setattr(open_job, "open_store", fail)
    check(run("status", str(dest)), 3, "Ray failed:   a trace of it", "fix the cluster")


def test_each_error_says_what_to_do():
    """An error without advice of its own takes that of its class, so each class has one."""
    found = [ray_committer.errors.RayCommitterError]
    for one in found:
        found += one.__subclasses__()
        assert one.usual_advice
        assert one.usual_advice[0].islower() or one.usual_advice[0] == "`"
    assert len(found) > 15


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_report_that_cannot_be_printed_leaves_the_commit_as_it_is(
    dest: Path, write_job, tree, output: str
):
    write_job({0: {"a": "x"}})
    command = [sys.executable, "-m", "ray_committer.cli", "commit", str(dest), "--output", output]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*command, "--assume-complete"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 0
    assert done.stderr.endswith(
        "ray-committer: the report could not be printed (No space left on device): committed\n"
    )
    assert tree() == {"a": "x"}


def test_a_broken_opentelemetry_stops_no_commit(dest: Path, write_job, tree, tmp_path: Path):
    """An agent of the machine can have imported a part of it in every Python program."""
    write_job({0: {"a": "x"}})
    (tmp_path / "site" / "opentelemetry").mkdir(parents=True)
    (tmp_path / "site" / "opentelemetry" / "__init__.py").touch()
    program = "import opentelemetry; from ray_committer.cli.main import main; main()"
    command = [sys.executable, "-c", program, "commit", str(dest), "--assume-complete"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), *sys.path])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no spans: OpenTelemetry is not usable here: ImportError" in done.stderr
    assert tree() == {"a": "x"}
