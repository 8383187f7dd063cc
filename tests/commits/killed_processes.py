"""Processes of a test that are killed again and again while they run, and started again."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.commits.drivers import Journal, size_of

NOTES_PER_KILL = 4

_CONTEXT = multiprocessing.get_context("forkserver")  # what they import is imported once
_CONTEXT.set_forkserver_preload(["tests.commits.drivers", "tests.commits.table_readers"])


@dataclass(eq=False)
class Life:
    """A process that does `work` in its own directory, where it leaves its journal and its error."""

    target: Callable[[Any], None]
    work: Any
    kills: int = 0
    _process: Any = field(default=None, init=False)
    _seen: int = field(default=0, init=False)

    @property
    def journal(self) -> Path:
        return Path(self.work.directory, "journal")

    def start(self) -> None:
        self._seen = size_of(self.journal)
        self._process = _CONTEXT.Process(target=self.target, args=(self.work,))
        self._process.start()

    def kill(self) -> None:
        self.kills += 1
        self.end()

    def end(self) -> None:
        """Kill it if it still runs, and forget it."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
            self._process = None

    def has_noted(self) -> bool:
        """Whether it has done something since it was started."""
        return size_of(self.journal) > self._seen

    def is_in_commit(self) -> bool:
        return [line["step"] for line in Journal(self.journal).lines[-1:]] == ["written"]

    def has_ended(self) -> bool:
        """Whether it has ended; its error is raised here."""
        if self._process.exitcode:
            error = Path(self.work.directory, "error")
            raise AssertionError(error.read_text() if error.exists() else f"{self.work} crashed")
        return self._process.exitcode == 0

    @property
    def sentinel(self) -> int:
        return int(self._process.sentinel)


def run(
    lives: Sequence[Life],
    *,
    victims: Sequence[Life],
    kill_seconds: float,
    until: Sequence[Life] = (),
    then: Callable[[], None] = lambda: None,
) -> None:
    """Run some processes until all have ended. One of the `victims` is killed from time to time, mostly
    in a commit, and started again at once or later. After those in `until` have ended, `then` tells the
    others to end.

    A process is killed only after it has noted something, and there are `NOTES_PER_KILL` notes of
    progress for each kill: so all come to an end, also where the start of a process takes long.
    """
    chance, next_kill = random.Random(1), time.monotonic() + kill_seconds
    running, dead, first = list(lives), dict[float, Life](), list(until)
    try:
        for one in lives:
            one.start()
        while running or dead:
            multiprocessing.connection.wait([one.sentinel for one in running], 0.02)
            running = [one for one in running if not one.has_ended()]
            for due in [due for due in dead if time.monotonic() >= due]:
                dead[due].start()
                running.append(dead.pop(due))
            if first and not any(one in (*running, *dead.values()) for one in first):
                first = []
                then()
            if time.monotonic() < next_kill:
                continue
            next_kill = time.monotonic() + kill_seconds
            may_die = [one for one in running if one in victims and one.has_noted()]
            kills = sum(one.kills for one in victims)
            if may_die and kills * NOTES_PER_KILL <= _progress(victims):
                victim = chance.choice([one for one in may_die if one.is_in_commit()] or may_die)
                victim.kill()
                running.remove(victim)
                dead[time.monotonic() + chance.choice([0.0, chance.uniform(0, kill_seconds)])] = victim
    finally:
        for one in lives:
            one.end()


def _progress(victims: Sequence[Life]) -> int:
    """The notes of processes, except those that they have begun something."""
    lines = [line for one in victims for line in Journal(one.journal).lines]
    return sum(line["step"] != "begun" for line in lines)
