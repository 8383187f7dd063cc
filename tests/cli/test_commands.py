"""What each command does, and its exit code; what it prints is in the golden files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ray_committer
from ray_committer.cli.main import main
from ray_committer.version import __version__
from tests.cli.commands import COMMANDS, run, snapshot


def test_commit_says_what_was_done(write_job, dest: Path, tree):
    write_job({0: {"p=1/a": "x"}, 1: {"p=2/b": "yy"}})
    result = run("commit", str(dest), "--expect-tasks", "2")
    assert result.exit_code == 0
    assert "job job_1 is committed" in result.stdout
    assert "2 files, 3 bytes, from 2 task manifests, into 2 leaf directories" in result.stdout
    assert "rename_files" in result.stderr
    assert tree() == {"p=1/a": "x", "p=2/b": "yy"}


def test_commit_again_says_that_it_is_done(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    assert run("commit", str(dest), "--assume-complete").exit_code == 0
    for arguments in ([], ["--job-id", "job_1"], ["--job-id", "job_1", "--attempt", "0"]):
        result = run("commit", str(dest), *arguments)
        assert result.exit_code == 0
        assert "already committed" in result.stdout


def test_json_is_one_object_on_standard_output(write_job, dest: Path):
    write_job({0: {"a": "x"}})
    report = json.loads(run("commit", str(dest), "--assume-complete", "--output", "json").stdout)
    assert report["outcome"] == "committed"
    assert report["moved"] == report["files"] == 1
    assert report["executor"] == "threads"
    assert report["executor_reason"]


def test_a_job_without_a_record_needs_to_be_told_complete(write_job, dest: Path, tree):
    write_job({0: {"a": "x"}})
    result = run("commit", str(dest))
    assert result.exit_code == 1
    assert "--expect-tasks N or --assume-complete" in result.stderr
    assert tree() == {}


def test_a_recorded_job_needs_no_such_word(write_job, dest: Path, tree):
    write_job({0: {"a": "x"}})
    ray_committer.record_job(str(dest))
    assert run("commit", str(dest)).exit_code == 0
    assert tree() == {"a": "x"}


def test_dry_run_changes_nothing(write_job, dest: Path):
    write_job({0: {"p=1/a": "x"}, 1: {"p=2/b": "yy"}})
    before = snapshot(dest)
    result = run("commit", str(dest), "--dry-run")
    assert result.exit_code == 0
    assert "would move 2 files, 3 bytes, of 2 tasks" in result.stdout
    plan = json.loads(run("commit", str(dest), "--dry-run", "--output", "json").stdout)
    assert (plan["files"], plan["directories"], plan["state"]) == (2, 2, "running")
    assert snapshot(dest) == before


@pytest.fixture
def partitions(write_job, dest: Path) -> None:
    """A job for two partitions, with old data in one of them and in another."""
    write_job({0: {"p=1/a": "x"}, 1: {"p=2/b": "yy"}})
    for name in ("p=2", "p=3"):
        (dest / name).mkdir()
        (dest / name / "old").write_text("old")


@pytest.mark.usefixtures("partitions")
def test_an_overwrite_of_partitions_replaces_those_that_the_job_writes_to(dest: Path, tree):
    mode = ("--mode", "overwrite_partitions")
    plan = json.loads(run("commit", str(dest), "--dry-run", *mode, "--output", "json").stdout)
    assert (plan["files"], plan["replaced"]) == (2, 1)
    assert run("commit", str(dest), "--expect-tasks", "2", *mode).exit_code == 0
    assert tree() == {"p=1/a": "x", "p=2/b": "yy", "p=3/old": "old"}


@pytest.mark.usefixtures("partitions")
def test_a_job_that_wants_empty_partitions_is_refused_by_data_in_them_alone(dest: Path, tree):
    mode = ("--mode", "error_partitions")
    for arguments in (("--dry-run",), ("--expect-tasks", "2")):
        result = run("commit", str(dest), *arguments, *mode)
        assert result.exit_code == 4
        assert f"{dest}/p=2: holds data already (old)" in result.stderr
    (dest / "p=2" / "old").unlink()
    assert run("commit", str(dest), "--expect-tasks", "2", *mode).exit_code == 0
    assert tree() == {"p=1/a": "x", "p=2/b": "yy", "p=3/old": "old"}


def test_status_lists_jobs_and_how_far_they_got(write_job, dest: Path):
    write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"b": "x"}, 1: {}}, job_id="job_2")
    ray_committer.record_job(str(dest), "job_2")
    jobs = json.loads(run("status", str(dest), "--output", "json").stdout)["jobs"]
    states = [job["state"] for job in jobs]
    assert states == ["running", "recorded"]


def test_status_of_a_quiet_destination(write_job, dest: Path):
    dest.mkdir()
    assert run("status", str(dest)).stdout == f"{dest}: empty; no jobs\n"


def test_once_the_commit_has_begun_abort_is_refused_and_undo_takes_it_back(write_job, dest: Path, tree):
    job = write_job({0: {"a": "x", "b": "y"}})
    ray_committer.record_job(str(dest))
    before = snapshot(dest)
    result = run("abort", str(dest))
    assert result.exit_code == 4
    assert f"finish it with: ray-committer commit {dest}" in result.stderr
    assert f"ray-committer abort {dest} --job-id job_1 --undo" in result.stderr
    assert snapshot(dest) == before
    next(Path(job.directory).rglob("a")).rename(dest / "a")
    before = snapshot(dest)
    plan = json.loads(run("abort", str(dest), "--undo", "--dry-run", "--output", "json").stdout)
    assert (plan["moved"], plan["files"]) == (1, 1)
    assert snapshot(dest) == before
    assert run("abort", str(dest), "--undo").exit_code == 0
    assert tree() == {}
    assert not (dest / "_temporary").exists()


@pytest.mark.parametrize("output", ["text", "json"])
def test_an_undo_names_a_file_that_may_be_the_jobs_and_stays(write_job, dest: Path, tree, output: str):
    """A file was changed after its manifest was saved, so that the commit stops, and was moved."""
    job = write_job({0: {"a": "x", "p=1/b": "y"}})
    ray_committer.record_job(str(dest))
    next(Path(job.directory).rglob("a")).write_text("changed")
    assert run("commit", str(dest)).exit_code == 5
    undone = run("abort", str(dest), "--undo", "--output", output)
    assert undone.exit_code == 0
    text = json.loads(undone.stdout)["notices"][0] if output == "json" else undone.stdout
    assert f"{dest}/a: is kept, because it is not what the job's manifest says" in text
    assert tree() == {"a": "changed"}


def test_an_undo_with_a_root_outside_of_the_destination_needs_to_be_allowed_it(
    write_job, dest: Path, tmp_path: Path
):
    write_job({0: {"a": "x"}})
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    options = ray_committer.CommitOptions(allowed_roots=(str(outside),))
    ray_committer.record_job(str(dest), options=options)
    refused = run("abort", str(dest), "--undo")
    assert refused.exit_code == 3
    assert str(outside) in refused.stderr
    assert run("abort", str(dest), "--undo", "--allowed-root", str(outside)).exit_code == 0
    assert not (dest / "_temporary").exists()


@pytest.mark.parametrize("named", [["--job-id", "job_7"], ["--job-id", "job_7", "--attempt", "0"]])
@pytest.mark.parametrize("later", [True, False], ids=["a later job was committed", "no job was"])
def test_a_named_job_that_is_not_there_is_unknown_and_not_unchanged(
    write_job, dest: Path, named: list[str], later: bool
):
    write_job({0: {"a": "x"}})
    if later:
        assert run("commit", str(dest), "--assume-complete").exit_code == 0
    before = snapshot(dest)
    result = run("commit", str(dest), "--assume-complete", *named)
    assert result.exit_code == 3
    assert (
        "the job may have been committed before another job was, or deleted: look for its files in "
        f"{dest}" in (result.stderr)
    )
    assert snapshot(dest) == before


@pytest.mark.parametrize(("job", "code"), [((), 1), (("--job-id", "job_1", "--attempt", "0"), 3)])
def test_a_destination_that_does_not_exist_is_misspelled_or_was_deleted_after_the_named_job(
    dest: Path, job: tuple[str, ...], code: int
):
    result = run("commit", str(dest), *job)
    assert result.exit_code == code
    assert "check the destination's spelling" in result.stderr
    assert ("may have been committed before" in result.stderr) is (code == 3)


def test_show_reads_markers_and_manifests(write_job, dest: Path):
    job = write_job({0: {"a": "x"}})
    shown = run("show", job.manifest("task_1_m_000000")).stdout
    assert "1 file, 1 byte" in shown
    run("commit", str(dest), "--assume-complete")
    assert "job job_1 succeeded" in run("show", str(dest)).stdout
    shown = json.loads(run("show", str(dest), "--output", "json").stdout)
    assert (shown["kind"], shown["content"]["jobId"]) == ("success", "job_1")
    (dest / "_SUCCESS").write_bytes(b"")
    assert "classic committer" in run("show", str(dest)).stdout


def test_show_names_the_job_that_has_written_a_file_of_json_lines(write_job, dest: Path):
    dest.mkdir()
    ray_committer.init_table(str(dest))
    write_job({0: {"p=1/part-0.json": '{"x": 1}\n{"x": 2}\n'}})
    run("commit", str(dest), "--assume-complete")
    assert "written by job job_1 (append)" in run("show", str(dest / "p=1" / "part-0.json")).stdout


def test_a_durable_commit_is_one_by_a_flag(write_job, dest: Path, tree):
    write_job({0: {"p=1/a": "x"}})
    command = ("commit", str(dest), "--assume-complete", "--output", "json", "--durable")
    report = json.loads(run(*command).stdout)
    assert "job_stage_sync_to_disk" in report["stage_seconds"]
    assert tree() == {"p=1/a": "x"}


def test_doctor_prints_a_line_for_each_thing_and_exits_with_0_if_none_failed(dest: Path):
    result = run("doctor", str(dest))
    assert result.exit_code == 0
    rows = result.stdout.splitlines()
    assert rows[-1] == f"{dest}: nothing failed"
    assert {row.split()[0] for row in rows[:-1]} <= {"ok", "warning", "note"}
    assert any(row.startswith("ok       rename never replaces") for row in rows)
    assert any("not used: local files gain nothing" in row for row in rows)
    assert not dest.exists()


def test_a_dry_run_lists_ten_renames(dest: Path, write_job):
    write_job({0: {f"f{number:02d}": "x" for number in range(12)}})
    printed = run("commit", str(dest), "--dry-run").stdout
    assert "by these renames, the first 10\n" in printed
    assert printed.count("-> f") == 10


def test_doctor_as_json_is_one_object(dest: Path):
    report = json.loads(run("doctor", str(dest), "--output", "json").stdout)
    assert (report["destination"], report["failed"]) == (str(dest), False)
    names = [line["name"] for line in report["lines"]]
    assert names[:4] == ["store", "write", "rename", "rename never replaces"]
    assert set(report["lines"][0]) == {"name", "verdict", "measured", "advice"}


def test_doctor_of_a_refused_store_is_one_check_and_exits_with_1():
    result = run("doctor", "oss://bucket/table")
    assert result.exit_code == 1
    first, advice, last = result.stdout.splitlines()
    assert first.startswith("failed   store  oss://bucket/table: cannot be committed to: this")
    assert advice.strip().startswith("-> use ")
    assert last == "oss://bucket/table: a commit would fail or would not be safe"
    assert json.loads(run("doctor", "oss://bucket/table", "--output", "json").stdout)["failed"] is True


def test_doctor_as_a_person_runs_it(dest: Path):
    command = [sys.executable, "-m", "ray_committer.cli", "doctor", str(dest), "--executor", "threads"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stderr == ""
    assert "not used: it was not requested" in result.stdout


def test_version():
    assert run("--version").stdout.strip().endswith(__version__)


@pytest.mark.slow
def test_ctrl_c_cancels_in_order_and_the_same_command_finishes(write_job, dest: Path, tree):
    files = {f"p={n % 50}/f{n}": "x" for n in range(20_000)}
    write_job({0: files})
    command = [sys.executable, "-m", "ray_committer.cli", "commit", str(dest), "--assume-complete"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("rename_files" in line for line in process.stderr)
    while not any(dest.glob("p=*/f*")):
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "the commit of job job_1 was cancelled\n  -> run the same command to finish it" in rest
    assert "Traceback" not in rest
    assert 0 < len(tree()) < 20_000
    time.sleep(0.2)
    left = len(tree())
    time.sleep(0.2)
    assert len(tree()) == left  # nothing goes on in the background
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert tree() == files


STUCK = """
import sys, time
import ray_committer.jobs.open_job as open_job
from ray_committer.cli.main import main
from ray_committer.testing import WrappedStore

def stick(call):
    if call.operation == "rename" and call.paths[1] == sys.argv[1] + "/p=0/stuck":
        print("stuck", file=sys.stderr, flush=True)
        time.sleep(30)

opened = open_job.open_store
open_job.open_store = lambda spec, **_: WrappedStore(opened(spec), before=stick)
main(["commit", sys.argv[1], "--assume-complete"])
"""


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_ends_at_once_and_the_same_command_finishes(
    write_job, dest: Path, tree, second: signal.Signals
):
    files = {f"p={n % 5}/f{n}": "x" for n in range(100)} | {"p=0/stuck": "y"}
    write_job({0: files})
    command = [sys.executable, "-c", STUCK, str(dest)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line.strip())
        if "stuck" in line:
            process.send_signal(signal.SIGINT)
        if "cancelling" in line:
            break
    assert process.poll() is None  # it waits for the request in flight
    process.send_signal(second)
    _, rest = process.communicate(timeout=10)
    assert process.returncode == 3
    assert "stopped at once; run the same command to finish" in rest
    assert "see: ray-committer explain RC-commit-cancelled" in rest
    assert "Traceback" not in rest
    assert (dest / "_temporary").exists()
    assert "p=0/stuck" not in tree()
    again = run("commit", str(dest), "--assume-complete")
    assert again.exit_code == 0
    assert tree() == files


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_of_each_what_its_own_help_begins_with(name: str):
    assert main.summaries[name] == (COMMANDS[name].help or "").partition("\n")[0]
