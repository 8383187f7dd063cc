"""Set up a job: end or refuse other jobs with unfinished commits, and make its directory and its state.

Source: Hadoop SetupJobStage.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from ray_committer.errors import CommitConflictError, RayCommitterError, TaskCommitError, mark, some_of
from ray_committer.job_files.job_state import Seen, advance_if_unchanged, begin_state, read_state
from ray_committer.job_files.job_status import JobStatus
from ray_committer.job_files.listing import not_read
from ray_committer.job_files.others import other_jobs, until_certain
from ray_committer.job_files.read_job import read_job
from ray_committer.job_files.set_up_here import new_declaration, remember
from ray_committer.options import Unfinished
from ray_committer.places.choose import output_of, places_of
from ray_committer.protocol.hidden_names import first_visible
from ray_committer.protocol.paths import JobAttempt
from ray_committer.protocol.record import Claim, Declaration, encode
from ray_committer.protocol.state import UNDECIDED, Intent, Phase, new_nonce, new_state
from ray_committer.stages.old_data.old_success import forget_earlier_success
from ray_committer.stages.other_jobs.end_others import (
    ROUNDS,
    Choice,
    EndJob,
    cannot_end,
    end_jobs,
    finish_first,
    none_refused,
    refusal,
    unfinished_beside,
    would_repeat,
)
from ray_committer.stages.other_jobs.other_attempts import refuse_other_attempts
from ray_committer.stages.take_away import delete_gone, take_away
from ray_committer.stages.turns.find_table import find_table, require_table
from ray_committer.stages.turns.run_once import is_committed, require_log
from ray_committer.stores.base import StoreOperations
from ray_committer.stores.registry import store_command
from ray_committer.tables.other_tables import refuse_partitions_of_tables
from ray_committer.work.directory import blocking_file

_log = logging.getLogger(__name__)


def setup_job(
    store: StoreOperations,
    job: JobAttempt,
    *,
    replaces: Sequence[str] = (),
    must_be_empty: Sequence[str] = (),
    from_log: bool = False,
    unfinished: Unfinished | None = "refuse",
    finish_others: bool = False,
    needs_table: bool = False,
    run_id: str | None = None,
    writes: Sequence[str] = (),
    is_new_id: bool = False,
    end: EndJob = cannot_end,
    on_warning: Callable[[str], None] = _log.warning,
    now_milliseconds: int | None = None,
) -> str:
    """Make the job attempt's directories and its state; `TaskCommitError` if it was set up before.

    Returns the job's stamp, which its tasks put into their manifests. `on_warning` gets a text for each
    job that was ended first, at once, since this job can still be refused after that; for each other
    unfinished commit at the destination, whose application run again would double rows; for each
    symbolic link there, behind which one may be; and for a file system in user space.

    `replaces` are the directories that the job replaces. If a stopped commit is in its way, `end` ends
    that one first, or the job is refused, as `unfinished` says (see `CommitOptions`): to finish that
    commit later would bring its rows back, or double them. Nothing that readers see changes.
    `must_be_empty` are the directories in which the job wants no data. If the destination is one and
    contains data, the job is refused before its tasks run. Its commit checks all this again.
    `run_id` is what the job does once, which only the log of a table can tell: `SettingsError` without
    one. If that is done already, the commit says so, whatever data is there.
    `writes` are the directories to which a job that replaces nothing may write; with them, its commit
    can declare it by one request. `is_new_id` says that the id was drawn for this job alone: then its
    commit by this process need not look for what is known.
    A job `from_log` is made from the log of its table. It can only be committed by its own process,
    which knows the files that the job has read.
    """
    with _files_refused(store, job):
        if read_job(store, job).exists:
            raise TaskCommitError(
                f"{mark(job.directory)}: exists already",
                "give every job and every job attempt its own id",
            )
        require_log(store, job.destination, run_id)
        refuse_partitions_of_tables(store, (job.destination,))
        refuse_other_attempts(store, job)
        look = partial(_look, store, job, now_milliseconds)
        is_refused = job.destination in must_be_empty
        beside = partial(
            unfinished_beside,
            store,
            job,
            unfinished,
            replaces=replaces,
            must_be_empty=is_refused,
            finish_others=finish_others,
            run_id=run_id,
        )
        refuse = partial(_refusal, store, unfinished, replaces)
        rivals = _end_stopped(store, look, beside, refuse, end, on_warning)
        is_refused = is_refused and not is_committed(store, job.destination, run_id)
        if is_refused and (name := first_data(store, job.destination)):
            raise data_error({job.destination: name})
        intent = Intent.REPLACES if replaces else Intent.REFUSED if must_be_empty else Intent.APPENDS
        intent = Intent.FROM_LOG if from_log else intent
        # After the checks: until here a refused job has changed nothing but the jobs that it has ended.
        first = _begin(store, job, intent, needs_table=needs_table, run_id=run_id)
        if is_new_id:
            remember(store, job, first, _prepare(store, job, intent, writes, run_id))
    ended = (rival for rival in rivals if rival.is_decided and not rival.is_alive)
    stopped = ["; ".join(finish_first(store, rival)) for rival in ended]
    links = [
        f"{not_read(rival.closed, rival.job.directory)}; a job there may have begun its commit"
        for rival in rivals
        if rival.closed is not None
    ]
    for warning in (*stopped, *links, *_in_user_space(store, job.destination)):
        on_warning(warning)
    return first.state.stamp


def _prepare(
    store: StoreOperations, job: JobAttempt, intent: Intent, writes: Sequence[str], run_id: str | None
) -> Declaration | None:
    """Write the declaration of a job that replaces nothing, where that takes time in its commit."""
    places = places_of(store)
    if intent is not Intent.APPENDS or not writes or not places.waits_in_freeze:
        return None
    claim, now = Claim(sorted(map(store.real_path, writes))), time.time_ns() // 1_000_000
    declaration = new_declaration(job, claim, new_nonce(), run_id, now)
    places.add_content(job, declaration.nonce, encode(declaration))
    return declaration


def _in_user_space(store: StoreOperations, destination: str) -> list[str]:
    """A warning, if a file system in user space (FUSE) holds the destination."""
    kind = store.network_file_system(destination) or ""
    if not kind.startswith("fuse"):
        return []
    return [
        f"{destination}: is on a file system in user space ({kind}), and many of these show changes of "
        f"others late or rename in several steps; check it with ray-committer doctor, and let no other "
        f"job run beside one that replaces data"
    ]


@contextmanager
def _files_refused(store: StoreOperations, job: JobAttempt) -> Iterator[None]:
    """`CommitConflictError` if a file is at the destination, or in the place of another directory."""
    status = store.get_status(job.destination)
    if status is not None and not status.is_directory:
        raise _no_directory(store, job.destination, "a link" if status.is_link else "a file")
    try:
        yield
    except (NotADirectoryError, FileExistsError) as e:  # also one that has just come
        path = blocking_file(store, job.directory) or job.directory
        raise _no_directory(store, path, "a file") from e


def _no_directory(store: StoreOperations, path: str, kind: str) -> CommitConflictError:
    move = store_command(store.spec, "mv", path, f"{path}.old")
    return CommitConflictError(
        f"{mark(path)}: is {kind} where the job needs a directory",
        f"nothing was changed: write to another destination, or move it away: {move}",
    )


def _begin(
    store: StoreOperations, job: JobAttempt, intent: Intent, *, needs_table: bool, run_id: str | None
) -> Seen:
    state = new_state(intent)
    places_of(store).make_job(job, state.stamp)
    try:
        first = begin_state(store, job, state)
    except (FileExistsError, FileNotFoundError) as e:
        raise TaskCommitError(
            f"{mark(job.directory)}: another process set it up, or ended it, at the same time",
            "give every job and every job attempt its own id",
        ) from e
    try:
        first = _finish(store, job, first, needs_table=needs_table, run_id=run_id)
    except RayCommitterError:
        _give_up(store, job, first)
        raise
    return first


def _finish(
    store: StoreOperations, job: JobAttempt, first: Seen, *, needs_table: bool, run_id: str | None
) -> Seen:
    """Do what is left once the job has its state; return the state then."""
    try:
        store.mkdirs(job.manifests)
        store.check_renames(job.directory)
        refuse_other_attempts(store, job)
        first = find_table(store, job, first, run_id)
        if needs_table:
            require_table(job, first)
            output_of(store).refuse_to_keep(job.destination)
        forget_earlier_success(store, job, first)
        _refuse_ended(store, job, first)
    except FileNotFoundError:  # perhaps since the job is gone
        _refuse_ended(store, job, first)
        raise
    return first


def _refuse_ended(store: StoreOperations, job: JobAttempt, first: Seen) -> None:
    """`TaskCommitError` if the job was aborted while it was set up."""
    current = read_state(store, job)
    if current is None or current.state.stamp != first.state.stamp or current.phase is Phase.ABORTED:
        raise TaskCommitError(
            f"{mark(job.directory)}: was aborted while it was set up",
            "if that was a mistake, set up a job again, with another id",
        )


def _look(store: StoreOperations, job: JobAttempt, now_milliseconds: int | None) -> Sequence[JobStatus]:
    def look() -> Sequence[JobStatus]:
        now = time.time_ns() // 1_000_000 if now_milliseconds is None else now_milliseconds
        return other_jobs(store, job.destination, now, asking=job)

    return until_certain(look)


def _end_stopped(
    store: StoreOperations,
    look: Callable[[], Sequence[JobStatus]],
    beside: Callable[[Sequence[JobStatus]], list[Choice]],
    refuse: Callable[[JobStatus], CommitConflictError],
    end: EndJob,
    on_warning: Callable[[str], None],
) -> Sequence[JobStatus]:
    """End the jobs in the way, or refuse; return the other jobs after that."""
    for _ in range(ROUNDS):
        rivals = look()
        choices = beside(rivals)
        if not choices:
            return rivals
        for text in end_jobs(store, none_refused(choices, refuse), end):
            on_warning(text)
    raise refuse(choices[0][0])


def _refusal(
    store: StoreOperations, unfinished: Unfinished | None, replaces: Sequence[str], rival: JobStatus
) -> CommitConflictError:
    why = "and this job must not replace data there before the other one has ended"
    if not replaces:
        why = would_repeat(rival)
    return refusal(store, rival, unfinished, then="run the application again", why=why)


def _give_up(store: StoreOperations, job: JobAttempt, first: Seen) -> None:
    """Abort a job that was set up but is refused; ``vacuum`` deletes what remains after an error."""
    # Only a courtesy: whatever fails here, the refusal is the answer, and `vacuum` finds the rest.
    with suppress(OSError, RayCommitterError):
        current = read_state(store, job)
        if current is None:  # it was aborted, and set-up has made directories since
            for directory in (job.manifests, job.packs, job.directory, job.job_directory, job.temporary):
                store.remove_empty_directory(directory)
            return
        # Another job of this id, or a commit that has begun since: neither is this call's to end (D7).
        if current.state.stamp != first.state.stamp or current.phase not in (*UNDECIDED, Phase.ABORTED):
            return
        is_over = current.phase is Phase.ABORTED
        aborted = current if is_over else advance_if_unchanged(store, job, current, Phase.ABORTED)
        if aborted is not None and (gone := take_away(store, job, aborted)) is not None:
            delete_gone(store, gone, aborted)


def data_error(names: Mapping[str, str]) -> CommitConflictError:
    """The error that names directories with data in which a job wants none, each with a name there."""
    named = [f"{mark(path)}: holds data already ({names[path]})" for path in sorted(names)]
    return CommitConflictError(some_of(named), "this job has changed nothing")


def first_data(store: StoreOperations, directory: str) -> str | None:
    """Return the first name in a directory that readers see; None if there is none."""
    try:
        return first_visible(status.name for status in store.list_anew(directory))
    except FileNotFoundError:
        return None
