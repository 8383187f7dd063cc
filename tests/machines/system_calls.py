"""Processes that commit and undo one job, stopped or killed just before any of their system calls.

What a process does is chosen by chance, and so are the calls. Run it as ``python -m
tests.machines.system_calls``; after ``python -m tests.forbidden_calls`` each rename is a link and an
unlink. Nothing is wrapped or imitated: Python's audit hooks show each call that can change a name or
read a directory just before it, and there the process sends itself a signal.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from ray_committer.errors import CommitRecordExistsError, RayCommitterError
from ray_committer.job_files import owners
from ray_committer.job_files.job_state import read_state
from ray_committer.protocol.paths import JobAttempt, new_job_attempt
from ray_committer.protocol.state import Phase
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.testing.harness import (
    all_files,
    put_file,
    run_commit,
    run_undo,
    visible_files,
    write_job,
)
from tests.opening import is_of_task

NAMES = ("p=1/a", f"p=1/b-{1:08x}{0:08x}", "p=2/c", f"d-{3:08x}{0:08x}")
"""Of two tasks the files are staged: those whose names have the tokens."""
OLD = {"old": b"old"}
WATCHED = ("os.link", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.listdir", "open")
RECORDED = range(1, 12)
"""The calls of a commit, counted from its record on, before its job is committed."""

Work = Callable[[LocalStore, str], object]


@dataclass(frozen=True, slots=True)
class Process:
    """One that does its work, and that is stopped before some of its calls, or killed at the last."""

    pid: int

    def goes_on(self) -> bool:
        """Let it run until it is stopped (True) or has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
        return os.WIFSTOPPED(os.waitpid(self.pid, os.WUNTRACED)[1])


def start(work: Work, root: str, stops: Sequence[int], *, dies: bool) -> Process:
    """Fork a process, which stops itself at once, and then before the calls of these numbers, counted
    from the first one at which the job is recorded."""
    pid = os.fork()
    if pid:
        os.waitpid(pid, os.WUNTRACED)
        return Process(pid)
    owners.DEAD_SECONDS = -1.0  # all others are taken for dead
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if event not in WATCHED or not str(arguments[0]).startswith(root):
            return
        if not seen and not _is_recorded(root):
            return
        seen += 1
        if seen in stops:
            is_last = dies and seen == stops[-1]
            os.kill(os.getpid(), signal.SIGKILL if is_last else signal.SIGSTOP)

    try:
        os.kill(os.getpid(), signal.SIGSTOP)
        sys.addaudithook(hook)
        with suppress(RayCommitterError, OSError):
            work(LocalStore(StoreSpec("file")), root)
    finally:
        os._exit(0)


def _is_recorded(root: str) -> bool:
    with suppress(FileNotFoundError), os.scandir(job(root).state) as names:
        return any(name.name.startswith(Phase.RECORDED) for name in names)
    return False


def job(root: str, name: str = "job_1") -> JobAttempt:
    return new_job_attempt(os.path.join(root, "table"), name, 0)


def files(name: str) -> dict[str, bytes]:
    """The files of a job; those of all jobs have the same names and sizes."""
    return {path: f"{name} {path}".encode() for path in NAMES}


def commit(store: LocalStore, root: str) -> object:
    return run_commit(store, job(root))


def undo(store: LocalStore, root: str) -> object:
    return run_undo(store, job(root))


def undo_and_write_later(store: LocalStore, root: str) -> None:
    """Undo the job, and commit another of the same names; an empty file says that it was committed."""
    run_undo(store, job(root))
    run_undo(store, job(root))
    write_job(store, job(root, "later"), {0: files("later")})
    run_commit(store, job(root, "later"))
    store.write(os.path.join(root, "later"), b"")


CALLS = {commit: range(1, 22), undo: range(1, 70), undo_and_write_later: range(1, 110)}
"""The calls of each before which it is stopped, counted from the first look at a recorded job."""
PAIRS: tuple[tuple[Work, Work], ...] = (
    (commit, undo),
    (undo, commit),
    (undo, undo),
    (commit, undo_and_write_later),
    (undo, undo_and_write_later),
)


def run_round(root: str, seed: int) -> str | None:
    """One round; what is wrong in the end, if anything is."""
    random = Random(seed)
    store = LocalStore(StoreSpec("file"))
    for name, data in OLD.items():
        put_file(store, os.path.join(root, "table", name), data)
    write_job(store, job(root), {number: {name: data} for number, (name, data) in _numbered()})
    pair = PAIRS[seed % len(PAIRS)]
    if pair[0] is not commit:  # it is recorded, and some of its files were moved, perhaps half
        first = start(commit, root, [random.choice(RECORDED)], dies=True)
        first.goes_on()
    waiting = [
        start(
            work,
            root,
            sorted(random.sample(CALLS[work], random.choice((1, 1, 2, 4)))),
            dies=random.random() < 0.3,
        )
        for work in pair
    ]
    while waiting:
        one = waiting[0] if random.random() < 0.4 else random.choice(waiting)
        if not one.goes_on():
            waiting.remove(one)
    return _wrong_end(store, root)


def _numbered() -> list[tuple[int, tuple[str, bytes]]]:
    return list(enumerate(files("job_1").items()))


def _wrong_end(store: LocalStore, root: str) -> str | None:
    """Undo the job as often as needed, and judge what is there."""
    was_later = os.path.exists(os.path.join(root, "later"))
    answers = []
    for _ in range(3):
        try:
            answers.append(str(run_undo(store, job(root))))
        except CommitRecordExistsError:
            answers.append("committed")
            with suppress(RayCommitterError):
                run_commit(store, job(root))
        except (RayCommitterError, OSError) as e:
            answers.append(f"{type(e).__name__}: {e}")
    seen = visible_files(store, os.path.join(root, "table"))
    own = {name: data for name, data in seen.items() if data.startswith(b"job_1")}
    later = {name: data for name, data in seen.items() if data.startswith(b"later")}
    there = read_state(store, job(root))
    left = [path for path in all_files(store, job(root).directory) if is_of_task(path)]
    is_ours = own == files("job_1")
    if answers[-1] not in ("False", "True") and not is_ours:
        return f"the undo does not end: {answers}"
    if there is not None and there.phase is not Phase.ABORTED:
        return f"the job is {there.phase}: {answers}"
    if own and not is_ours:
        return f"a part of the job is visible: {sorted(own)}; {answers}"
    if was_later and later != files("later") and not is_ours:
        return f"files of the later job are gone: {sorted(files('later').keys() - later.keys())}"
    if OLD.items() - seen.items():
        return "an old file is gone"
    return f"files are left: {left}" if left and not is_ours else None


def main() -> int:
    """Run rounds; print the wrong ones and the counts; return 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first round")
    parser.add_argument("--rounds", type=int, default=100)
    asked = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="system-calls-") as directory:
        for seed in range(asked.first, asked.first + asked.rounds):
            root = os.path.join(directory, str(seed))
            os.mkdir(root)
            what = run_round(root, seed)
            if what is not None:
                wrong += 1
                print(json.dumps({"seed": seed, "wrong": what}), flush=True)
            shutil.rmtree(root, ignore_errors=True)
    print(json.dumps({"ran": asked.rounds, "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
