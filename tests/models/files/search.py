"""Search the interleavings of processes that write, commit and give up the files of a job."""

from __future__ import annotations

from dataclasses import dataclass

from tests.models.files.commit_steps import CommitSteps
from tests.models.files.end_steps import EndSteps
from tests.models.files.judge import Judge
from tests.models.files.task_steps import TaskSteps
from tests.models.files.world import Job, Manifest, Option, Plan, Process, Rule, Shared
from tests.models.interleavings import Found, Search


class Model(TaskSteps, CommitSteps, EndSteps):
    """All that processes do."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The job of a `plan`, and the `processes`; some attempts (task, attempt) have `staged` their files
    and have not saved, and some have `saved` before, and told the driver."""

    processes: tuple[Process, ...]
    plan: Plan
    options: frozenset[Option] = frozenset()
    saved: tuple[tuple[int, int], ...] = ()
    staged: tuple[tuple[int, int], ...] = ()


def check(situation: Situation, without: frozenset[Rule] = frozenset()) -> Found:
    """Try every interleaving, with death anywhere, but for the rules `without`."""
    model = Model(situation.plan, situation.options, without)
    spoils = any(one.does in ("remover", "trailer") for one in situation.processes)
    staged = frozenset(model.path(rows) for one in situation.staged for rows in _rows(model, one))
    judge = Judge(model, staged, spoils=spoils)
    first = _first(model, situation)
    return Search(model, judge, first, situation.processes).run()


def _first(model: Model, situation: Situation) -> Shared:
    """The store in the beginning."""
    saved = tuple(
        Manifest(0, task, attempt, frozenset((model.path(rows), rows) for rows in _rows(model, one)))
        for one in situation.saved
        for task, attempt in [one]
    )
    attempts = (*situation.saved, *situation.staged)
    staged = frozenset((model.path(rows), rows) for one in attempts for rows in _rows(model, one))
    return Shared(Job(0, saved=frozenset(saved), staged=staged), messages=saved)


def _rows(model: Model, attempt: tuple[int, int]) -> list[tuple[int, int, int, int]]:
    return [(0, *attempt, piece) for piece in range(model.plan.pieces)]
