"""Find task attempts that have written files and saved no manifest: perhaps it was lost.

The clean-up would delete these files, so they stop a commit that was not told how many tasks there are,
or which attempts count. Another attempt of a task that has a manifest does not count. The names of
staged files show which attempts wrote them; a name without a token is a leftover.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from ray_committer.errors import IncompleteJobError, mark, some_of
from ray_committer.job_files.commands import commit_command
from ray_committer.job_files.listing import task_directories
from ray_committer.protocol.hidden_names import is_passed_over
from ray_committer.protocol.manifest import ManifestRef
from ray_committer.protocol.staging import numbers_of, task_of, token_in, token_of
from ray_committer.protocol.state import JobState
from ray_committer.stages.context import JobContext
from ray_committer.stages.freeze_manifests import are_as_loaded
from ray_committer.stages.freeze_tasks import find_staging
from ray_committer.stages.load_manifests import LoadedManifests, ManifestsChangedError
from ray_committer.stores.at_once import at_once, streamed
from ray_committer.stores.base import StoreOperations
from ray_committer.work.sources import list_directory


@dataclass(frozen=True, slots=True)
class ListedAttempts:
    """Attempts that a listing shows: the names of their own `directories`, and, of those with `staged`
    files, the tokens as numbers."""

    directories: list[str] = field(default_factory=list)
    staged: set[int] = field(default_factory=set)


def listed_attempts(
    context: JobContext, with_files: Sequence[str] | None = None
) -> AbstractContextManager[list[ListedAttempts]]:
    """List the task attempts beside the block; after it, the list has the result. Nothing is listed if
    those `with_files` are known. It is empty if the driver has named the tasks or their number."""
    options = context.options
    if options.expected_tasks is not None or options.committed_tasks is not None:
        return nullcontext([ListedAttempts()])
    if with_files is not None:
        return nullcontext([ListedAttempts(list(with_files))])
    return context.beside(partial(_list, context.store, context.job.tasks))


def look_for_tasks(
    context: JobContext, state: JobState, attempts: list[ListedAttempts]
) -> tuple[JobContext, list[ListedAttempts]]:
    """Look where the files of tasks are, if another run may have frozen them; the context that knows it,
    and the `attempts`, listed there. Unchanged if they are where they were, or just get another name."""
    place = find_staging(context.store, context.job, state)
    if place is None or place.tasks == context.job.tasks:
        return context, attempts
    context = replace(context, job=place)
    with listed_attempts(context) as attempts:
        pass
    return context, attempts


def refuse_unsaved(context: JobContext, loaded: LoadedManifests, attempts: ListedAttempts) -> None:
    """`IncompleteJobError` names the `attempts` whose files no manifest names. `ManifestsChangedError`
    if a task has saved its manifest since the load."""
    unsaved = _unsaved(context, loaded, attempts)
    if not unsaved:
        return
    # Last: if a task has saved its manifest since, the commit loads again, and refuses nothing (R1).
    if not are_as_loaded(context, loaded):
        raise ManifestsChangedError
    number = len(loaded.manifests)
    command = f"{commit_command(context.store, context.job)} --expect-tasks {number}"
    # Once frozen, no manifest is added any more, and no file where it counts.
    is_frozen = loaded.listing.is_frozen or context.job.is_frozen
    running = "they can no longer be committed" if is_frozen else "wait if they are still running"
    raise IncompleteJobError(
        f"{mark(context.job.tasks)}: {len(unsaved)} task attempts have files, but no manifest of their "
        f"tasks is here: {some_of(unsaved)}",
        f"nothing was changed, because a commit would delete these files: {running}; if only the "
        f"{number} tasks with a manifest have succeeded, run: {command}; otherwise, run the application "
        "again",
    )


def _unsaved(context: JobContext, loaded: LoadedManifests, attempts: ListedAttempts) -> list[str]:
    """The attempts with files, in words, of tasks without a manifest: others may only be slower."""
    if attempts == ListedAttempts():  # the names of 100,000 attempts that count take 20 MB
        return []
    saved = {_name(context, manifest) for manifest in loaded.manifests}
    tasks = {task_of(name) for name in saved} - {None}
    unnamed = {*attempts.directories} - saved
    suspects = sorted(attempt for attempt in unnamed if task_of(attempt) not in tasks)
    hold = at_once(context.store, partial(_holds_output, context.store, context.job.tasks), suspects)
    unsaved = [name for name, holds in zip(suspects, hold, strict=True) if holds]
    named = {token_of(name) for name in unsaved}
    saved_tasks = {numbers_of(token)[0] for token in map(token_of, saved) if token is not None}
    tokens = {f"{number:016x}" for number in attempts.staged if number >> 32 not in saved_tasks} - named
    paths = _paths_of(context, tokens) if tokens else {}
    for token in sorted(tokens):
        task, attempt = numbers_of(token)
        unsaved.append(f"attempt {attempt} of task {task} ({paths.get(token, 'its files are gone')})")
    return unsaved


def _list(store: StoreOperations, tasks: str) -> ListedAttempts:
    of_attempts, shared = task_directories(store, tasks, anew=True)
    attempts = ListedAttempts([directory.rpartition("/")[2] for directory in of_attempts])
    for one_of_each in streamed(store, partial(_tokens, store), shared):
        attempts.staged.update(int(token, 16) for token in one_of_each)
    return attempts


def _paths_of(context: JobContext, tokens: AbstractSet[str]) -> dict[str, str]:
    """Of attempts with these tokens, the path of one file below ``tasks``, from another listing."""
    store, tasks = context.store, context.job.tasks
    paths: dict[str, str] = {}
    for one_of_each in streamed(store, partial(_tokens, store), task_directories(store, tasks)[1]):
        for token in tokens & one_of_each.keys():
            paths.setdefault(token, one_of_each[token].removeprefix(f"{tasks}/"))
    return paths


def _tokens(store: StoreOperations, directory: str) -> dict[str, str]:
    """Of each attempt that has files in a staged directory, by its token, the path of one."""
    listed = list_directory(store, directory, anew=True)
    output = (status for status in listed if not is_passed_over(status.name))
    return {token: status.path for status in output if (token := token_in(status.name))}


def _name(context: JobContext, manifest: ManifestRef) -> str:
    """The name of the directory of a manifest's task attempt."""
    directory = manifest.task_attempt_directory
    if directory is None:
        return manifest.task_attempt_id or ""
    return directory.removeprefix(f"{context.job.with_tasks_in().tasks}/").partition("/")[0]


def _holds_output(store: StoreOperations, tasks: str, name: str) -> bool:
    above = f"{tasks}/{name}/"
    return any(
        not is_passed_over(status.path.removeprefix(above))
        for status in store.list_files(above.rstrip("/"))
    )
