"""Judge the result of processes at a table, without reading any state of a job.

The table must be the result of the committed jobs one after the other, in some order. If a process got
the answer "committed", nothing of that job is missing; if it got the answer that nothing was changed,
nothing of that job is there. Of two attempts of a job only one is committed, unless another job is
committed between them. Of the jobs of one run id only one is committed, and who was told that another
one has done its work has left nothing. Each job can be brought to its end. At a table with a log, the
order of the jobs is that of the log, and its files are those that the log names.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from ray_committer.protocol.paths import TEMPORARY
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.stores.base import StoreOperations, is_there
from ray_committer.testing.harness import visible_files
from tests.machines.operations import (
    BY_ANOTHER_RUN,
    Files,
    Job,
    Operation,
    abort,
    commit,
    undo,
    vacuum,
)
from tests.machines.processes import Told, attempt
from tests.machines.table_oracle import Committed, data_files, judge_log, replay

ROUNDS = 4
COMMITTED = ("committed", "already committed")
ABORTED = "aborted"

_NOT_COUNTED = Told("failed", 1, "")

Answers = Sequence[tuple[Operation, Told]]


@dataclass(slots=True)
class Ends:
    """How each job ended: committed or not, None if it is not known; which could only be given up; and
    all answers on the way."""

    committed: dict[str, bool | None] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)
    said: list[tuple[Operation, Told]] = field(default_factory=list)


def judge(
    store: StoreOperations,
    table: str,
    jobs: Sequence[Job],
    old: Files,
    answers: Answers,
    random: Random,
    *,
    has_log: bool = False,
) -> str | None:
    """Bring every job to its end, and compare; return what is wrong, or None."""
    ends = _bring_to_their_ends(store, table, jobs, answers, random)
    differs = _not_by_version if has_log else not_serial
    for wrong in (
        _crashed(answers),
        _refused(answers),
        _without_end(jobs, ends),
        _spoilt(jobs, ends, answers),
        _told_wrong(answers, ends) if len(ends.committed) == len(jobs) else None,
        differs(store, table, jobs, old, ends, answers) if len(ends.committed) == len(jobs) else None,
        _left(store, table, jobs),
    ):
        if wrong is not None:
            said = [f"{one.name}: {told}" for one, told in ends.said]
            return f"{wrong}; said: {said}; ends: {ends.committed}"
    return None


def _bring_to_their_ends(
    store: StoreOperations,
    table: str,
    jobs: Sequence[Job],
    answers: Answers,
    random: Random,
) -> Ends:
    """Run the command that finishes each job, as a user would do by the answers."""
    ends = Ends(said=list(answers))
    for _ in range(ROUNDS):
        waiting = [job for job in jobs if job.name not in ends.committed]
        random.shuffle(waiting)
        for job in waiting:
            is_alone = sum(other.place == job.place for other in jobs) == 1
            for end in _bring_to_its_end(store, table, job, answers, ends, is_alone=is_alone):
                ends.committed[job.name] = end if is_alone else None
    return ends


def _bring_to_its_end(
    store: StoreOperations, table: str, job: Job, answers: Answers, ends: Ends, *, is_alone: bool
) -> Iterator[bool | None]:
    """Yield whether it is committed, None if that is not known; nothing if it has not ended. A job that
    `is_alone` has its id for itself."""

    def run(operation: Operation) -> Told:
        told = attempt(lambda store: operation.run(store, table), store)
        ends.said.append((operation, told))
        return told

    told = run(commit(job))
    text = str(told.text)
    if told.how == "ended":
        yield text != BY_ANOTHER_RUN
    elif "CommitAbortedError" in text:
        run(abort(job))
        yield False
    elif "is being undone" in text:
        run(undo(job))
        yield False
    elif "JobNotFoundError" in text or "JobGoneError" in text:
        if store.get_status(job.attempt(table).directory) is not None:  # a notice says so
            run(abort(job))
        yield _was_told(answers, job)
    elif any(error in text for error in _given_up(job, is_alone=is_alone)):
        ends.given_up.add(job.name)
        run(abort(job))
        yield False


def _given_up(job: Job, *, is_alone: bool) -> tuple[str, ...]:
    """The errors after which a job is aborted: its tasks have not committed, or data exists. Of an id
    that is used again, a late process can have frozen files of tasks that still ran."""
    errors = ["IncompleteJobError", "MissingManifestsError", "not written for this job"]
    errors += ["CommitConflictError"] if job.wants_none else []
    errors += [] if is_alone else ["missing or changed; abort the job and run it again"]
    return tuple(errors)


def _was_told(answers: Answers, job: Job) -> bool | None:
    """Whether an answer was that the job is committed, or that it is aborted; None without these."""
    texts = {answer.text for one, answer in answers if one.is_of(job)}
    if texts & set(COMMITTED):
        return True
    return False if ABORTED in texts else None


def _crashed(answers: Answers) -> str | None:
    return next(
        (f"{one.name} crashed: {told.text}" for one, told in answers if told.how == "crashed"), None
    )


def _refused(answers: Answers) -> str | None:
    """Find an operation that failed although nothing can prevent its success.

    Only a log seals a job that appends. It can be an earlier run of the same application then, and
    cannot be given up, so a set-up is refused.
    """
    appends = {one.job.place[1] for one, _ in answers if one.job and not one.job.mode.replaces}
    refused = [(one, told) for one, told in answers if told.how not in ("ended", "killed")]
    return next(
        (
            f"{one.name}: {told}"
            for one, told in refused
            if one.must_end_well and not any(f"(job {name}, sealed)" in told.text for name in appends)
        ),
        None,
    )


def _without_end(jobs: Sequence[Job], ends: Ends) -> str | None:
    without = [job.name for job in jobs if job.name not in ends.committed]
    return f"{without} cannot be brought to an end" if without else None


def _spoilt(jobs: Sequence[Job], ends: Ends, answers: Answers) -> str | None:
    """Find a job whose tasks had all committed, and which nobody could abort, but which had to be. None
    that an operation sets up itself: it can die while tasks run."""
    again = [(one.instead_of, one.job) for one, _ in answers if one.instead_of]
    places = {job.place for pair in again for job in pair if job}
    if any(one.may_abort for one, _ in answers):
        return None
    wanted = (job for job in jobs if not job.wants_none and job.place not in places)
    spoilt = [job.name for job in wanted if job.name in ends.given_up]
    return f"the tasks of {spoilt} had committed, and it cannot be" if spoilt else None


def _told_wrong(answers: Answers, ends: Ends) -> str | None:
    for operation, told in answers:
        if operation.job is None:
            continue
        is_committed = ends.committed[operation.job.name]
        if told.text in COMMITTED and is_committed is False:
            return f"{operation.name} was told {told}, but the job is aborted"
        # A driver may refuse what tasks have saved since, before another commit takes it; and a commit
        # can come before the tasks have saved anything.
        is_early = operation.knows_tasks or "contains no task manifest" in str(told.text)
        since = answers[: answers.index((operation, told))] if is_early else answers
        others = [other for one, other in since if one.is_of(operation.job) and other is not told]
        is_refused = operation.is_commit and told.exit_code == 1
        was_wrong = is_refused and any(other.text in COMMITTED for other in others)
        if is_committed and (told.text in (ABORTED, BY_ANOTHER_RUN) or was_wrong):
            return f"{operation.name} was told {told}, but the job is committed"
    return None


def not_serial(
    store: StoreOperations, table: str, jobs: Sequence[Job], old: Files, ends: Ends, answers: Answers
) -> str | None:
    """Find the files that no order of the committed jobs leaves."""
    found = visible_files(store, table).items()
    visible = {name: data for name, data in found if "/_" not in name}
    allowed = list(_serial(jobs, old, ends, _kept(answers)))
    return None if visible in allowed else f"there is {visible}, not one of {allowed}"


def _not_by_version(
    store: StoreOperations, table: str, jobs: Sequence[Job], old: Files, ends: Ends, answers: Answers
) -> str | None:
    """Find what is wrong with the log of a table, or with its files: they are what the jobs make of the
    old files, one by one in the order of their commits."""
    places = TablePlaces(table)
    if (wrong := judge_log(store, places)) is not None:
        return wrong
    late = _late(ends)
    there, committed = dict(old), list[Job]()
    for one in replay(store, places).commits:
        if one.claim.is_import:
            continue
        job, files = _output(jobs, one, late)
        after = job.applied(there, files) if job else None
        if job is None or after is None:
            return f"version {one.version} is not a commit of one of the jobs: {one}"
        there = after
        committed.append(job)
    told = [ends.committed[job.name] in (None, job in committed) for job in jobs]
    lost = [job.name for job in _kept(answers) if job not in committed]
    if not (all(told) and not lost and _may_follow(committed) and _agrees(jobs, committed, ends.said)):
        return f"the log has the commits of {[job.name for job in committed]}"
    visible = data_files(store, places)
    return None if visible == there else f"there is {visible}, not {there}"


def _output(jobs: Sequence[Job], one: Committed, late: Mapping[str, Told]) -> tuple[Job | None, Files]:
    """The job of a commit, and those of its outputs that have exactly the files of the commit."""
    claimed = (one.claim.job_id, one.claim.job_attempt)
    for job in (job for job in jobs if job.place[1:] == claimed):
        for files in _outputs(job, late):
            if {name: len(data) for name, data in files.items()} == one.added:
                return job, files
    return None, {}


def _kept(answers: Answers) -> list[Job]:
    """The jobs that were set up again with an old id, and that only a commit can have ended.

    A process that slept until then cannot end them; but a late task can replace a manifest, and then no
    job is in this list.
    """
    if any(one.may_abort or one.is_late_task for one, _ in answers):
        return []
    again = [(one.job, one.instead_of) for one, told in answers if told.how == "ended"]
    return [job for job, old in again if job and old and job.place == old.place]


def _left(store: StoreOperations, table: str, jobs: Sequence[Job]) -> str | None:
    """What vacuum leaves of the jobs, except files that a late attempt wrote after its job was over."""
    vacuum(store, table)
    left = _temporaries(store, table)
    if left and not any(job.late for job in jobs):
        return f"left {[file.path for path in left for file in store.list_files(path)]} in {left}"
    return None


def _temporaries(store: StoreOperations, table: str) -> list[str]:
    found: list[str] = []
    level = [table]
    while level:
        below = [one for path in level for one in store.list_status(path) if one.is_directory]
        listed = [one for one in below if is_there(store, one)]
        found += [one.path for one in listed if one.name == TEMPORARY]
        level = [one.path for one in listed if one.name != TEMPORARY]
    return found


def _serial(
    jobs: Sequence[Job], old: Files, ends: Ends, kept: Sequence[Job]
) -> Iterator[dict[str, bytes]]:
    """The table after the committed jobs, one after the other, in each order.

    If it is not known whether a job is committed, both cases are tried that agree with all answers.
    """
    late = _late(ends)
    unsure = [job for job in jobs if ends.committed[job.name] is None]
    for count in range(len(unsure) + 1):
        for some in itertools.combinations(unsure, count):
            committed = [job for job in jobs if ends.committed[job.name] or job in some]
            if not _agrees(jobs, committed, ends.said) or any(job not in committed for job in kept):
                continue
            for order in filter(_may_follow, itertools.permutations(committed)):
                for chosen in itertools.product(*(_outputs(job, late) for job in order)):
                    there: dict[str, bytes] | None = dict(old)
                    for job, files in zip(order, chosen, strict=True):
                        there = None if there is None else job.applied(there, files)
                    if there is not None:
                        yield there


def _late(ends: Ends) -> dict[str, Told]:
    """The answers that late attempts got, by the names of their jobs. Of a job whose driver was told
    that it is committed, by itself, none counts of which the driver does not know."""
    late = {one.job.name: told for one, told in ends.said if one.job and one.is_late_task}
    by_driver = [one.job for one, told in ends.said if one.knows_tasks and told.text == COMMITTED[0]]
    return late | {job.name: _NOT_COUNTED for job in by_driver if job}


def _agrees(jobs: Sequence[Job], committed: Sequence[Job], said: Answers) -> bool:
    """Whether exactly these jobs can be committed.

    An answer about an attempt is true of a job that was set up
    as that attempt; if the operation set up a job itself, the answer is true of that job.
    """
    runs = [job.run_id for job in committed if job.run_id is not None]
    if len(runs) > len(set(runs)):
        return False
    for one, told in said:
        if told.text == BY_ANOTHER_RUN and one.job and one.job.run_id not in runs:
            return False
        meant = [job for job in jobs if one.job and job.place == one.job.place]
        ends = [job in committed for job in meant if one.instead_of is None or one.is_of(job)]
        has_failed = one.instead_of is not None and told.exit_code == 1
        is_refused = told.text == ABORTED or has_failed
        if (told.text in COMMITTED and not any(ends)) or (is_refused and all(ends)):
            return False
    return True


def _may_follow(order: Sequence[Job]) -> bool:
    """Whether these jobs can be committed in this order.

    A newer attempt of a job that is committed is refused. If it is set up later than that, only
    ``_SUCCESS`` can tell, and that of another job can have taken its place.
    """
    for (at, job), (later, other) in itertools.combinations(enumerate(order), 2):
        is_same = job.place[:2] == other.place[:2]
        between = (one for one in order[at + 1 : later] if one.place[:2] != job.place[:2])
        if is_same and job.place != other.place and (job.place > other.place or not any(between)):
            return False
    return True


def _outputs(job: Job, late: Mapping[str, Told]) -> list[Files]:
    """The outputs that a job can have.

    The late attempt's output is possible unless the attempt got the answer that it failed while the job
    existed. After a job is over, an attempt cannot know whether it counted.
    """
    told = late.get(job.name)
    may_count = told is None or told.how in ("ended", "killed") or "is over" in told.text
    return [job.files, job.late] if job.late and may_count else [job.files]
