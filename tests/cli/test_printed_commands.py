"""Each command that a text prints for a first attempt, beside another one, runs as it is printed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

import ray_committer
from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import CommitConflictError
from ray_committer.job_files.job_state import advance, begin_state, read_state
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import Phase, new_state
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from tests.cli.commands import run

FIRST = ("--job-id", "job_1", "--attempt", "0")
STORE = LocalStore(StoreSpec("file"))


def two_attempts(dest: Path, phase: Phase) -> JobAttempt:
    """A first attempt in a phase, and another, whose driver died when it had made its state."""
    first, second = (new_job_attempt(str(dest), "job_1", number) for number in (0, 1))
    ray_committer.setup_job(str(dest), "job_1")
    with ray_committer.task_attempt(str(dest), "job_1", 0) as attempt:
        Path(attempt.path("a")).write_text("x")
    if phase is not Phase.ABORTED:
        ray_committer.record_job(str(dest), "job_1")
    seen = read_state(STORE, first)
    assert seen is not None
    if phase is not Phase.RECORDED:
        advance(STORE, first, seen, phase)
    STORE.mkdirs(second.manifests)
    begin_state(STORE, second, new_state())
    return first


def told_by(*words: str) -> Callable[[Path], str]:
    def tell(dest: Path) -> str:
        result = run(*(word.replace("DEST", str(dest)) for word in words))
        return result.stdout + result.stderr

    return tell


def warning(dest: Path) -> str:
    told: list[str] = []
    ray_committer.setup_job(str(dest), "job_2", on_warning=told.append)
    return "\n".join(told)


def conflict(dest: Path) -> str:
    ray_committer.setup_job(str(dest / "p=1"), "job_2")
    with ray_committer.task_attempt(str(dest / "p=1"), "job_2", 0) as attempt:
        Path(attempt.path("b")).write_text("x")
    options = CommitOptions(mode=ConflictMode.OVERWRITE, conflict_wait_seconds=0, unfinished="refuse")
    with pytest.raises(CommitConflictError) as caught:
        ray_committer.commit_job(str(dest / "p=1"), "job_2", options=options)
    return str(caught.value)


def vacuumed(dest: Path) -> str:
    for path in dest.rglob("*"):
        os.utime(path, (0, 0))
    return run("vacuum", str(dest), "--dry-run").stdout


STATUS = told_by("status", "DEST")
ABORT, COMMIT = told_by("abort", "DEST", *FIRST), told_by("commit", "DEST", *FIRST)
UNDO, VALIDATE = told_by("abort", "DEST", "--undo", *FIRST), told_by("validate", "DEST", *FIRST)
RECORDED, SEALED, COMMITTED = Phase.RECORDED, Phase.SEALED, Phase.COMMITTED
UNDOING, ABORTED = Phase.UNDOING, Phase.ABORTED
CASES: list[tuple[str, Callable[[Path], str], Phase, list[str]]] = [
    *(("status", STATUS, phase, ["commit", "abort --undo"]) for phase in (RECORDED, SEALED)),
    ("status", STATUS, COMMITTED, ["commit"]),
    ("status", STATUS, UNDOING, ["abort --undo"]),
    ("status", STATUS, ABORTED, ["abort"]),
    ("abort", ABORT, RECORDED, ["commit", "abort --undo"]),
    ("abort", ABORT, SEALED, ["commit", "abort --undo"]),
    ("abort", ABORT, UNDOING, ["abort --undo"]),
    ("commit", COMMIT, UNDOING, ["abort --undo"]),
    ("undo", UNDO, COMMITTED, ["commit"]),
    ("validate", VALIDATE, RECORDED, ["commit"]),
    ("set-up", warning, RECORDED, ["commit"]),
    ("set-up", warning, UNDOING, ["abort --undo"]),
    ("conflict", conflict, RECORDED, ["commit"]),
    ("conflict", conflict, UNDOING, ["abort --undo"]),
    ("vacuum", vacuumed, RECORDED, ["commit"]),
    ("vacuum", vacuumed, UNDOING, ["abort --undo"]),
]
PRINTED = [
    pytest.param(tell, phase, kind, id=f"{name}-{phase.value}-{kind}")
    for name, tell, phase, kinds in CASES
    for kind in kinds
]


def command_in(text: str, kind: str) -> list[str]:
    """The one command of a kind that a text prints, as a shell reads it."""
    found = {*re.findall(r"ray-committer ((?:commit|abort) [^;,\n]+)", text)}
    verb, *options = kind.split()
    (words,) = [
        words
        for words in map(shlex.split, found)
        if words[0] == verb and {*options} == {*words} & {"--undo"}
    ]
    return words


@pytest.mark.parametrize(("tell", "phase", "kind"), PRINTED)
def test_a_command_that_is_printed_for_a_first_attempt_beside_another_runs_as_printed(
    dest: Path, tell: Callable[[Path], str], phase: Phase, kind: str
):
    first = two_attempts(dest, phase)
    times = {path: path.stat().st_mtime_ns for path in dest.rglob("*")}
    command = command_in(tell(dest), kind)
    for path, nanoseconds in times.items():
        os.utime(path, ns=(nanoseconds, nanoseconds))
    result = run(*command)
    assert result.exit_code == 0, result.stderr
    assert not Path(first.directory).exists()
    assert (dest / "a").exists() is (kind == "commit" and phase is not COMMITTED)


def test_the_report_of_a_first_attempt_that_stopped_beside_another_says_what_runs(dest: Path):
    first = two_attempts(dest, RECORDED)
    (dest / "a").write_text("of others")
    stopped = run("commit", str(dest), *FIRST)
    assert stopped.exit_code == 4
    (dest / "a").unlink()
    result = run(*command_in(stopped.stderr, "commit"))
    assert result.exit_code == 0, result.stderr
    assert (dest / "a").read_text() == "x"
    assert not Path(first.directory).exists()
