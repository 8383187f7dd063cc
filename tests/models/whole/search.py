"""Search the interleavings of processes that put the directories of a job in place."""

from __future__ import annotations

from dataclasses import dataclass, field

from ray_committer.protocol.state import Phase
from tests.models.interleavings import Found, Search
from tests.models.whole.commit_steps import CommitSteps
from tests.models.whole.judge import Judge
from tests.models.whole.other_steps import OtherSteps
from tests.models.whole.publish_steps import PublishSteps
from tests.models.whole.steps import TASKS
from tests.models.whole.world import (
    OTHERS,
    Entry,
    File,
    Job,
    Layout,
    Manifest,
    Option,
    Process,
    Record,
    Rule,
    Shared,
    Staging,
)


class Model(CommitSteps, PublishSteps, OtherSteps):
    """All that processes do."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The job of a `layout`, and the `processes`. Some attempts (task, attempt) have `saved`, others
    have `staged` their files and have not. Some directories are `there`, and some are `filled` with a
    file of others. A job that `is_recorded` has lost the freeze of its files in a power cut. Directories
    that are `whole` are never seen in part. `driver_knows` what was told to it, else all `saved`."""

    processes: tuple[Process, ...]
    layout: Layout
    options: frozenset[Option] = frozenset()
    saved: tuple[tuple[int, int], ...] = ((0, 0),)
    staged: tuple[tuple[int, int], ...] = ()
    there: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    is_set_up: bool = True
    is_recorded: bool = False
    driver_knows: tuple[tuple[int, int], ...] = field(default=())


def check(situation: Situation, without: frozenset[Rule] = frozenset()) -> Found:
    """Try every interleaving, with death anywhere, but for the rules `without`."""
    model = Model(situation.layout, situation.options, without)
    first = _first(situation)
    does = {one.does for one in situation.processes}
    judge = Judge(
        model,
        first,
        whole=situation.whole,
        spoils=bool(does & {"rewriter", "odd"}) or any(one.job == 1 for one in situation.processes),
        drops=bool(does & {"dropper", "stranger"}),
    )
    processes = [_knowing(situation, one) for one in situation.processes]
    return Search(model, judge, first, processes).run()


def _manifest(situation: Situation, attempt: tuple[int, int]) -> Manifest:
    return Manifest(0, *attempt, frozenset(situation.layout.entries(*attempt)))


def _knowing(situation: Situation, process: Process) -> Process:
    """A driver knows what its tasks have told."""
    known = situation.driver_knows or situation.saved
    loaded = frozenset(_manifest(situation, one) for one in known)
    return process._replace(loaded=loaded) if process.is_named else process


def _first(situation: Situation) -> Shared:
    """The store in the beginning."""
    there = frozenset({"", *situation.there, *situation.filled})
    visible = frozenset((place, File(OTHERS, 7)) for place in situation.filled)
    if not situation.is_set_up:
        return Shared(None, there=there, visible=visible)
    files = frozenset(
        (entry.key, entry.file)
        for one in (*situation.saved, *situation.staged)
        for entry in situation.layout.entries(*one)
    )
    marks = frozenset[int]() if Option.UNMARKED in situation.options else frozenset({0})
    saved = frozenset(_manifest(situation, one) for one in situation.saved)
    job = Job(0, saved=saved, stagings=frozenset({Staging(TASKS, marks, files)}))
    if situation.is_recorded:
        entries = frozenset[Entry]().union(*(one.entries for one in saved))
        record = Record(entries, frozenset(one.place for one in entries) - there)
        job = job._replace(phase=Phase.RECORDED, saved=None, frozen=saved, record=record)
    return Shared(job, there=there, visible=visible)
