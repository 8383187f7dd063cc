"""The places of a job's files, relative to its destination.

The names are those that Hadoop 3.5's committer uses (``_temporary/$jobId/%02d``), not those in its
documentation (``_temporary/manifest_$jobId/%d``). Names of the second form are recognised on reading.
Source: Hadoop ``ManifestCommitterSupport`` and ``ManifestCommitterConstants``.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from ray_committer.errors import PathError

TEMPORARY = "_temporary"
SUCCESS = "_SUCCESS"
MANIFESTS = "manifests"
FROZEN = "frozen"
PACKS = "packs"
TASKS = "tasks"
FROZEN_TASKS = "frozen-tasks-"
"""The prefix of the name that `TASKS` gets when nothing more is to come into it."""
FROZEN_BYTES = len("undone/0123456789abcdef/frozen-tasks-0123456789abcdef") - len(TASKS)
"""By so many bytes the path of a task's file gets longer while its job is committed, or undone."""
MARK = "set-up-"
"""The prefix of the directory in `STAGED` by which a job knows its own `TASKS`."""
STAGED = "in"
STAGED_ROOT = "root"
ROOTS = 64
"""So many directories hold the files of the destination itself, by the number of their task."""
STATE = "state"
UNDONE = "undone"
TAKEN_BACK_SUFFIX = "-moved"
"""The suffix of files in `UNDONE` that were taken away from their final places."""
CURRENT = "current"
CONTENT_SUFFIX = ".json"
"""The suffix of files that belong to states."""
HEARTBEAT = f"heartbeat{CONTENT_SUFFIX}"
RUN_ID = "run_id"
GONE_PREFIX = ".gone-"
MANIFEST_SUFFIX = "-manifest.json"
DOCUMENTED_PREFIX = "manifest_"
ANY_PARTITION = "_"


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """One attempt of one job: `directory` is its place on the store, `number` is Hadoop's attempt.
    `staging` is the name of the directory where the files of its tasks are: another one once it is
    frozen. `tasks` is its path, which is asked for several times per file, so it is computed once."""

    destination: str
    job_id: str
    number: int
    directory: str
    staging: str = field(default=TASKS, repr=False, compare=False)
    tasks: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", join(self.directory, self.staging))

    @property
    def is_frozen(self) -> bool:
        """Whether the files of its tasks are where no task reaches them."""
        return self.staging != TASKS

    @property
    def job_directory(self) -> str:
        return self.directory.rpartition("/")[0]

    @property
    def temporary(self) -> str:
        return temporary_directory(self.destination)

    @property
    def any_partition(self) -> str:
        """The directory that stands for partitions which are known only at the commit."""
        return join(self.destination, ANY_PARTITION)

    @property
    def manifests(self) -> str:
        return join(self.directory, MANIFESTS)

    @property
    def frozen(self) -> str:
        """The directory of the frozen manifests; no task can add one there."""
        return join(self.directory, FROZEN)

    @property
    def packs(self) -> str:
        """The directory of the packs, which is made with the job and never by a late process."""
        return join(self.directory, PACKS)

    @property
    def state(self) -> str:
        """The directory of the job's state and of the files that belong to it."""
        return join(self.directory, STATE)

    @property
    def heartbeat(self) -> str:
        """The file that the committer at work rewrites at intervals."""
        return join(self.state, HEARTBEAT)

    def content(self, nonce: str) -> str:
        """The file that belongs to the state with this nonce: a declaration, or a commit record."""
        return join(self.state, nonce + CONTENT_SUFFIX)

    @property
    def run_id(self) -> str:
        """The file with the run id that the job was set up with."""
        return self.content(RUN_ID)

    def aside(self, nonce: str) -> str:
        """The directory of old files before they are deleted, for the state with this nonce."""
        return join(self.state, nonce)

    def undone(self, nonce: str) -> str:
        """The directory of what is taken back, for the state with this nonce."""
        return join(self.directory, UNDONE, nonce)

    def with_tasks_in(self, name: str = TASKS) -> JobAttempt:
        """This attempt with the files of its tasks in the directory `name`; `TASKS` is what manifests
        name, whether it is frozen or not."""
        return replace(self, staging=name)

    def with_frozen_tasks(self, nonce: str) -> JobAttempt:
        """This attempt with the files of its tasks where only who knows the `nonce` finds them."""
        return self.with_tasks_in(FROZEN_TASKS + nonce)

    def mark(self, stamp: str) -> str:
        """The directory that set-up makes among the files of tasks, for the job with this stamp."""
        return join(self.tasks, STAGED, MARK + stamp)

    def gone(self, nonce: str) -> JobAttempt:
        """This attempt under the name that it gets before it is removed, where no process looks."""
        return replace(self, directory=join(self.temporary, GONE_PREFIX + nonce))

    @property
    def is_gone(self) -> bool:
        """Whether the attempt is under a name that `gone` gives."""
        return self.directory.rpartition("/")[2].startswith(GONE_PREFIX)

    @property
    def success(self) -> str:
        return join(self.destination, SUCCESS)

    def task_attempt(self, task_attempt_id: str) -> str:
        """The working directory of a task attempt."""
        check_name(task_attempt_id, "task attempt id")
        return join(self.tasks, task_attempt_id)

    def staged(self, key: str) -> str:
        """The directory where all tasks write the files for one directory, by its key."""
        return join(self.tasks, STAGED, key)

    def staged_root(self, task: int) -> str:
        """The directory where the task with this number writes files of the destination itself."""
        return join(self.tasks, STAGED_ROOT, f"{task % ROOTS:02d}")

    def manifest(self, task_id: str) -> str:
        """The path of a committed task's manifest."""
        return join(self.manifests, task_id + MANIFEST_SUFFIX)

    def manifest_temporary(self, task_attempt_id: str) -> str:
        """The path where a manifest is written before it is renamed to its final path."""
        return join(self.manifests, task_attempt_id + MANIFEST_SUFFIX + ".tmp")


def new_job_attempt(destination: str, job_id: str, number: int) -> JobAttempt:
    """Name the directory of a job attempt as Hadoop does; `PathError` for an id that is not a name."""
    check_name(job_id, "job id")
    if number < 0:
        raise PathError(f"job attempt {number}: must not be negative")
    directory = join(temporary_directory(destination), job_id, f"{number:02d}")
    return JobAttempt(destination, job_id, number, directory)


def may_be_tasks(name: str) -> bool:
    """Whether a directory of a job attempt with this name can hold the files of its tasks."""
    return name == TASKS or name.startswith(FROZEN_TASKS)


def check_name(name: str, what: str) -> None:
    """Refuse an id that would lead to a directory that is not its own."""
    if not is_name(name):
        raise PathError(f"{what} {name!r}: must be a plain name, without a slash")


def is_name(name: str) -> bool:
    """Whether `name` is a single element of a path and leads nowhere else."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def temporary_directory(destination: str) -> str:
    """``$dest/_temporary``, which all jobs at a destination share."""
    return join(destination, TEMPORARY)


def job_id_of_directory(name: str) -> str:
    """The job id of a directory below ``_temporary``, in either spelling."""
    return name.removeprefix(DOCUMENTED_PREFIX)


def attempt_number(name: str) -> int | None:
    """The number of a job attempt directory (``00``, ``7``); None for any other directory."""
    return int(name) if name.isascii() and name.isdigit() else None


def join(base: str, *parts: str) -> str:
    """Join path elements with single slashes."""
    return "/".join((base.rstrip("/"), *parts))


def parent(path: str) -> str:
    """The directory of `path`; the root is its own parent."""
    return path.rpartition("/")[0] or "/"


def is_inside(path: str, directory: str) -> bool:
    """Whether `path` is strictly below `directory`; both must be normalised."""
    prefix = directory if directory.endswith("/") else directory + "/"
    return path.startswith(prefix) and path != prefix


def is_within(path: str, directories: AbstractSet[str]) -> bool:
    """Whether `path` is in one of up to ten thousand `directories`, in one step per level of `path`."""
    return not directories.isdisjoint((path, "/", *ancestors(path, "/")))


def ancestors(path: str, root: str) -> list[str]:
    """The directories strictly between `root` and `path`, nearest to `path` first."""
    directories = []
    path = parent(path)
    while is_inside(path, root):
        directories.append(path)
        path = parent(path)
    return directories
