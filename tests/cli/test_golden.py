"""What each command prints, byte by byte, at 80 columns, with its exit code.

``RAY_COMMITTER_TEST_GOLDEN=write python -m pytest tests/cli/test_golden.py`` writes the files anew; look
at what `git diff` says then. Times, rates, hosts and random ids are replaced, since each run has others.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions
from ray_committer.job_files.job_state import advance, read_state
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.record import ConflictMode, Heartbeat, Owner, encode
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.table_jobs.table import init_table
from tests.cli.commands import HADOOP, run

GOLDEN = Path(__file__).parent / "golden"
WRITES = os.environ.get("RAY_COMMITTER_TEST_GOLDEN") == "write"

Prepare = Callable[[Path, Callable, Callable], None]


def nothing(dest: Path, write_job, make_old) -> None:
    dest.mkdir()


def two_tasks(dest: Path, write_job, make_old) -> None:
    write_job({0: {"p=1/a": "x", "p=2/b": "yy"}, 1: {"p=2/c": "zzz"}})


def committed(dest: Path, write_job, make_old) -> None:
    two_tasks(dest, write_job, make_old)
    ray_committer.commit_job(str(dest), executor="inline")


def kept(dest: Path, write_job, make_old) -> None:
    two_tasks(dest, write_job, make_old)
    ray_committer.commit_job(str(dest), executor="inline", options=CommitOptions(cleanup=False))
    make_old(dest / "_temporary", 2.5)


def edited(dest: Path, write_job, make_old) -> None:
    kept(dest, write_job, make_old)
    (dest / "p=1" / "a").write_text("longer")
    (dest / "p=2" / "c").unlink()


def recorded(dest: Path, write_job, make_old) -> None:
    two_tasks(dest, write_job, make_old)
    ray_committer.record_job(str(dest), executor="threads")


def sealed(dest: Path, write_job, make_old) -> None:
    recorded(dest, write_job, make_old)
    advance_to(dest, Phase.SEALED)


def undoing(dest: Path, write_job, make_old) -> None:
    recorded(dest, write_job, make_old)
    advance_to(dest, Phase.UNDOING)


def aborting(dest: Path, write_job, make_old) -> None:
    two_tasks(dest, write_job, make_old)
    advance_to(dest, Phase.ABORTED)


def half_moved(dest: Path, write_job, make_old) -> None:
    """A commit that stopped when it had moved one of three files."""
    recorded(dest, write_job, make_old)
    (dest / "p=1").mkdir()
    job = new_job_attempt(str(dest), "job_1", 0)
    next(Path(job.directory).rglob("p=1/a")).rename(dest / "p=1" / "a")


def goes_on(dest: Path, write_job, make_old) -> None:
    """Another process goes on with a commit that stopped when it had moved one of three files."""
    half_moved(dest, write_job, make_old)
    job, owner = new_job_attempt(str(dest), "job_1", 0), Owner("elsewhere", "boot", 7, 8, "run")
    sign = Heartbeat(owner=owner, at_milliseconds=time.time_ns() // 1_000_000, files=1)
    Path(job.heartbeat).write_bytes(encode(sign))


def half_cleaned(dest: Path, write_job, make_old) -> None:
    """What clean-ups took away and did not delete: of a job that had ended, and of one that had not."""
    kept(dest, write_job, make_old)
    (dest / "_temporary" / "job_1" / "00").rename(dest / "_temporary" / ".gone-1111111111111111")
    (dest / "_temporary" / "job_1").rmdir()
    write_job({0: {"d": "x"}})
    ray_committer.record_job(str(dest), executor="threads")
    (dest / "_temporary" / "job_1" / "00").rename(dest / "_temporary" / ".gone-2222222222222222")
    (dest / "_temporary" / "job_1").rmdir()


def advance_to(dest: Path, phase: Phase) -> None:
    """Change the state of `job_1`, as a process does that dies at once."""
    store, job = LocalStore(StoreSpec("file")), new_job_attempt(str(dest), "job_1", 0)
    seen = read_state(store, job)
    assert seen is not None
    advance(store, job, seen, phase)


def beside_a_recorded_one(dest: Path, write_job, make_old) -> None:
    write_job({0: {"a": "x"}}, job_id="job_1")
    write_job({0: {"b": "yy"}}, job_id="job_2")
    ray_committer.record_job(str(dest), "job_1", executor="threads")


def four_jobs(dest: Path, write_job, make_old) -> None:
    """One that nobody has decided, one whose commit has begun, one dead, one without a manifest."""
    write_job({0: {"a": "x"}, 1: {"b": "yy", "c": "zzz"}}, job_id="job_1")
    write_job({0: {"d": "x"}, 1: {}}, job_id="job_2")
    ray_committer.record_job(str(dest), "job_2", executor="threads")
    write_job({0: {"e": "x" * 2_000_000}}, job_id="job_3")
    write_job({}, job_id="job_4")
    for number, days in enumerate((0.5, 1.2, 30, 8), 1):
        make_old(dest / "_temporary" / f"job_{number}", days)


def other_committers(dest: Path, write_job, make_old) -> None:
    """A commit of ours, and what other committers have left beside it."""
    committed(dest, write_job, make_old)
    for name in (
        "_temporary/0/task_1_m_000000",
        "_temporary/job_7",
        ".hive-staging_hive_2026",
        *(f".spark-staging-{number}" for number in range(5)),
    ):
        (dest / name).mkdir(parents=True)
    make_old(dest, 2.5)


def reported(dest: Path, write_job, make_old) -> None:
    """A commit that failed after one that did not, with their reports and one that is cut off."""
    for job_id in ("job_1", "job_2"):
        write_job({0: {"a": "x"}}, job_id=job_id)
        options = CommitOptions(summary_directory=f"{dest}/_reports")
        with suppress(ray_committer.errors.CommitConflictError):
            ray_committer.commit_job(str(dest), job_id, executor="inline", options=options)
    (dest / "_reports" / "summary-job_0.json").write_text("{")
    os.utime(dest / "_reports" / "summary-job_0.json", (0, 0))


def hadoops_success(dest: Path, write_job, make_old) -> None:
    dest.mkdir()
    shutil.copy(HADOOP / "success" / "job_202401011200_0007.json", dest / "_SUCCESS")


def classic_success(dest: Path, write_job, make_old) -> None:
    dest.mkdir()
    (dest / "_SUCCESS").touch()


def a_table(dest: Path, write_job, make_old) -> None:
    """A table with a log, and two jobs; the second one has replaced a partition."""
    dest.mkdir()
    init_table(str(dest))
    for job_id, files, mode in (
        ("job_1", {"p=1/a": "x", "p=2/b": "yy"}, "append"),
        ("job_2", {"p=1/c": "zzz"}, "overwrite_partitions"),
    ):
        write_job({0: files}, job_id=job_id)
        options = CommitOptions(mode=ConflictMode(mode))
        ray_committer.commit_job(str(dest), job_id, executor="inline", options=options)


CASES: dict[str, tuple[Prepare, list[str]]] = {
    "commit": (two_tasks, ["commit", "DEST", "--expect-tasks", "2"]),
    "commit_again": (committed, ["commit", "DEST"]),
    "commit_gone": (committed, ["commit", "DEST", "--job-id", "job_7"]),
    "commit_dry": (two_tasks, ["commit", "DEST", "--dry-run"]),
    "commit_dry_half_moved": (
        half_moved,
        ["commit", "DEST", "--dry-run", "--max-requests-per-second", "0.5e1"],
    ),
    "commit_dry_committed": (kept, ["commit", "DEST", "--dry-run"]),
    "commit_dry_refused": (
        beside_a_recorded_one,
        ["commit", "DEST", "--job-id", "job_2", "--mode", "overwrite", "--dry-run"],
    ),
    "commit_refused": (
        beside_a_recorded_one,
        ["commit", "DEST", "--job-id", "job_2", "--mode", "overwrite", "--assume-complete"],
    ),
    "status": (four_jobs, ["status", "DEST"]),
    "status_goes_on": (goes_on, ["status", "DEST"]),
    "status_committed": (kept, ["status", "DEST"]),
    "status_sealed": (sealed, ["status", "DEST"]),
    "status_undoing": (undoing, ["status", "DEST"]),
    "status_aborting": (aborting, ["status", "DEST"]),
    "status_last": (committed, ["status", "DEST"]),
    "status_classic": (classic_success, ["status", "DEST"]),
    "status_table": (a_table, ["status", "DEST"]),
    "status_left": (other_committers, ["status", "DEST"]),
    "history": (reported, ["history", "DEST", "--summary-directory", "DEST/_reports"]),
    "show_success": (committed, ["show", "DEST"]),
    "show_manifest": (
        two_tasks,
        ["show", "DEST/_temporary/job_1/00/manifests/task_1_m_000000-manifest.json"],
    ),
    "show_record": (recorded, ["show", "DEST/RECORD"]),
    "show_hadoops_success": (hadoops_success, ["show", "DEST"]),
    "show_hadoops_failure": (nothing, ["show", "HADOOP/reports/summary-job_202401011200_0009.json"]),
    "show_nothing": (nothing, ["show", "DEST"]),
    "validate": (kept, ["validate", "DEST"]),
    "validate_success": (committed, ["validate", "DEST"]),
    "validate_edited": (edited, ["validate", "DEST"]),
    "validate_recorded": (recorded, ["validate", "DEST"]),
    "abort": (two_tasks, ["abort", "DEST"]),
    "abort_nothing": (committed, ["abort", "DEST", "--job-id", "job_1"]),
    "abort_recorded": (recorded, ["abort", "DEST", "--dry-run"]),
    "abort_undo": (half_moved, ["abort", "DEST", "--undo"]),
    "abort_undo_dry": (half_moved, ["abort", "DEST", "--undo", "--dry-run"]),
    "abort_undo_sealed": (sealed, ["abort", "DEST", "--undo"]),
    "abort_undoing": (undoing, ["abort", "DEST"]),
    "vacuum": (four_jobs, ["vacuum", "DEST"]),
    "vacuum_dry": (four_jobs, ["vacuum", "DEST", "--dry-run", "--older-than", "10d"]),
    "vacuum_gone": (half_cleaned, ["vacuum", "DEST"]),
    "table_changes": (a_table, ["table", "changes", "DEST", "--since", "2"]),
    "show_data": (a_table, ["show", "DEST/p=1/a"]),
    "show_foreign_data": (edited, ["show", "DEST/p=1/a"]),
    "partitions_named": (
        kept,
        [
            *("partitions", "DEST", "--table", "db.t", "--with-locations"),
            *("--partition", "p=1", "--partition", "p=9"),
        ],
    ),
    "estimate": (
        nothing,
        ["estimate", "gs", "100000", "--partitions", "100", "--workers", "8"],
    ),
    "estimate_threads": (nothing, ["estimate", "hdfs", "2000"]),
}
REPLACED = [
    (r"\d+\.\d{3} s\b( +#+$)?", "0.000 s"),
    (r"frozen-tasks-[0-9a-f]{16}", "frozen-tasks-NONCE"),
    (r"(bytes +time\n  \d+ +\d+ bytes +)[\d.]+ s", r"\1TIME"),
    (r"(files per second .*\n  )[\d,]+ +", r"\1RATE  "),
    (r"( on )\S+, 20[\d:.TZ-]+(\[Etc/UTC\])?", r"\1HOST, TIME"),
    (r"nonce: \S+", "nonce: NONCE"),
    (r"stamp: \S+", "stamp: STAMP"),
    (r"state/[0-9a-f]{16}\.json", "state/NONCE.json"),
    (r"begun .+ ago by process \d+ on \S+,", "begun 0 s ago by process 1 on HOST,"),
    (r"begun .+ ago; process (\d+ on \S+) is", r"begun 0 s ago; process \1 is"),
    (r"moved, as of .+ ago", "moved, as of 0 s ago"),
    (
        r"from 20\S+ \S+ UTC to 20\S+ \S+ UTC,\s+on\s+\S+,\s+by\s+\S+",
        "from TIME to TIME, on HOST, by USER",
    ),
    (r"ray_committer \d[\w.]*, Python [\w.]+", "ray_committer VERSION, Python VERSION"),
    (r"(committed: job .*, (?:in|after)) [\d.]+ s", r"\1 TIME"),
    (r"\b(20|1970-)[\d:-]+ [\d:]+ UTC", "TIME UTC"),
    (r"(last commit: .+), .+ ago \(TIME UTC\)", r"\1, 0 s ago (TIME UTC)"),
    (r"(by ray_committer on )\S+$", r"\1HOST"),
    (r"[0-9a-f]{8}-[0-9a-f-]{27}", "TABLE-ID"),
    # The sizes of manifests, and estimates from them, depend on the times that they contain.
    (r"about \d+ bytes; last", "about 0 bytes; last"),
    (r"(  6 files), [\d.]+ kB; last", r"\1, 0 kB; last"),
]


def shown(result, dest: Path) -> str:
    text = f"exit code {result.exit_code}\n--- standard output\n{result.stdout}"
    text += f"--- standard error\n{result.stderr}"
    text = text.replace(str(dest), "/table").replace(str(HADOOP), "/hadoop")
    for pattern, replacement in REPLACED:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


@pytest.fixture
def dest() -> Iterator[Path]:
    """A destination whose name is always as long, since the sizes of manifests depend on it."""
    root = Path(tempfile.mkdtemp(prefix="rc-", dir="/tmp"))
    yield root / "table"
    shutil.rmtree(root)


@pytest.mark.parametrize("name", CASES)
def test_a_command_prints_what_its_golden_file_says(name: str, dest: Path, write_job, make_old):
    prepare, arguments = CASES[name]
    prepare(dest, write_job, make_old)
    arguments = [one.replace("RECORD", record_of(dest)) if "RECORD" in one else one for one in arguments]
    arguments = [
        one.replace("DEST", str(dest)).replace("HADOOP", str(HADOOP))
        if "/" in one or one == "DEST"
        else one
        for one in arguments
    ]
    found = shown(run(*arguments), dest)
    golden = GOLDEN / f"{name}.txt"
    if WRITES:
        GOLDEN.mkdir(exist_ok=True)
        golden.write_text(found)
    assert found == golden.read_text()


def record_of(dest: Path) -> str:
    """The commit record of `job_1` as a path below its destination."""
    state = read_state(LocalStore(StoreSpec("file")), new_job_attempt(str(dest), "job_1", 0))
    assert state is not None
    return f"_temporary/job_1/00/state/{state.state.record}.json"


def test_every_golden_file_is_of_a_command():
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def test_no_sentence_is_wider_than_80_columns():
    """But for names, which nobody can break: lines with a path, an id or a URL in them."""
    wide = [
        (path.stem, line)
        for path in GOLDEN.glob("*.txt")
        for line in path.read_text().splitlines()
        if len(line) > 80 and not re.search(r"/|job_|attempt_", line + path.stem)
        if not path.stem.startswith("commit") or "dry" in path.stem  # reports have tests of their own
    ]
    assert wide == []
