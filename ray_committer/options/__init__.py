"""The options of a commit, as one table: a row is the only place with the name of an option, besides
where it acts. The command line, the environment, Spark's settings and the pages are made from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Literal, Self, get_args

from ray_committer.errors import SettingsError
from ray_committer.options.settings import (
    ENVIRONMENT_PREFIX,
    SPARK_PREFIX,
    Group,
    Repeat,
    Setting,
    Table,
    Where,
    option,
    table,
)
from ray_committer.options.texts import COUNT, NUMBER, TIME, TRUTH, WHEN, Kind, one_of, or_none
from ray_committer.protocol.partition_sql import table_name
from ray_committer.protocol.paths import is_name
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.table_runs import check_run_id
from ray_committer.protocol.table_work import TableWork

_TESTS = "test_"

Unfinished = Literal["finish", "supersede", "refuse"]
"""What a job does about an earlier one whose commit has begun and is not at work any more."""


TEXT_BYTES = 4096
TEXT_FILES = 16
"""A manifest of at most so many bytes, and files, is sent to the driver with the task's result."""


@dataclass(frozen=True, slots=True)
class CommittedTask:
    """A successful task: its `manifest` file, the SHA-256 of that, and the attempt that saved it; the
    `size` of the manifest in bytes, and the number of `files` that it names, if they are known. `text`
    is the manifest itself, if it is small: then the commit does not read it."""

    manifest: str
    digest: str
    task_attempt_id: str | None
    size: int = 0
    files: int = 0
    text: bytes | None = field(default=None, repr=False)


def _run_id(value: str) -> str:
    check_run_id(value)
    return value


def _table(text: str) -> str:
    return ".".join(table_name(text))


def _partition(path: str) -> str:
    """A directory relative to the destination; `SettingsError` for a path that cannot be one."""
    names = path.removesuffix("/").split("/")
    is_text = path.encode(errors="replace").decode() == path
    if path and not (is_text and all(map(is_name, names))):
        raise SettingsError(
            f"reads={path!r}: must be a directory relative to the destination, such as day=1",
            "nothing was done: correct it; an empty text is the whole table",
        )
    return path


_AUTO = or_none(TRUTH, "auto")
_DIRECTORY = Kind("a directory", str, "DIR")
_PARTITION = Kind("a partition, such as day=1", str, "PARTITION", _partition)
_URL = Kind("a URL, or a path on the destination's store", str, "URL")
_RUN_ID = or_none(Kind("a text", str, "ID", _run_id), "none")
_TABLE = or_none(Kind("a table such as db.table", _table, "DB.TABLE", _table), "none")


@table
@dataclass(frozen=True, kw_only=True)
class CommitOptions(Table):
    """How one job is committed. If a commit record exists, its values take precedence over these.

    An option that is given wins over one that is not, also with its default value; copies and
    `dataclasses.replace` keep which ones were given, and `dataclasses.asdict` has only these.
    """

    # fmt: off
    job_attempt: int | None = option(
        None, COUNT, "The job attempt to use if there are several.",
        flag="attempt", least=0, where=Where.COMMAND_LINE,
    )
    expected_tasks: int | None = option(
        None, COUNT, "How many tasks succeeded; the commit stops if the number of manifests differs.",
        flag="expect_tasks", least=0, where=Where.COMMAND_LINE, group=Group.SAFETY,
    )
    assume_complete: bool = option(True)
    """Without `expected_tasks`, assume that all tasks are done. A caller in the driver knows that; a
    caller that finds a job on the store does not."""
    committed_tasks: tuple[CommittedTask, ...] | None = option(None)
    """Each successful task; the manifests must be exactly these, byte for byte."""
    ignore_other_attempts: bool = option(False)
    """With `committed_tasks`, leave out manifests that these do not name. Use it if each attempt saves a
    manifest of its own, and the results of some attempts are not used."""
    mode: ConflictMode = option(
        ConflictMode.APPEND, one_of(ConflictMode, ConflictMode),
        "What to do with existing data at DEST, or only in the partitions that the job writes to; the "
        "mode in a commit record takes precedence.",
        where=Where.COMMAND_LINE, group=Group.SAFETY, repeat=Repeat.ALWAYS,
    )
    """It is decided once, before the commit record is written. Its name, such as "append", will do."""
    replaced_roots: tuple[str, ...] = option(
        (), _DIRECTORY,
        "With mode overwrite: a directory whose files are replaced; default: all of DEST.",
        flag="replace", where=Where.COMMAND_LINE, group=Group.SAFETY, repeat=Repeat.ALWAYS,
    )
    """They are paths or URLs on the destination's store."""
    reads: tuple[str, ...] = option(
        (), _PARTITION,
        "A partition that the job's rows come from, such as day=1. In a table with a log, the commit is "
        "refused if another job has changed it since this job was set up.",
        where=Where.COMMAND_LINE, group=Group.SAFETY, repeat=Repeat.ALWAYS,
    )
    """They are paths relative to the destination; an empty one means all of it."""
    allowed_roots: tuple[str, ...] = option(
        (), _DIRECTORY,
        "A directory outside DEST that the job is allowed to write to, or to replace files in.",
        flag="allowed_root", where=Where.COMMAND_LINE, group=Group.STORAGE, repeat=Repeat.ALWAYS,
    )
    """Directories that a commit record names must also be allowed here."""
    known_jobs: tuple[str, ...] | None = option(None)
    """The jobs that the caller's session has committed under the run id; None: this process is the
    session, and remembers them."""
    table_work: TableWork | None = option(None)
    """What a job does that this package makes from the log of a table, such as an undo."""
    partition_paths: tuple[str, ...] = option(())
    """The partitions that a dynamic partition overwrite replaces; kept in the record."""

    mark_success: bool = option(True, TRUTH, "Write _SUCCESS.", group=Group.SAFETY)
    cleanup: bool | Literal["later"] = option(
        True, WHEN, "Remove the job's directory after the commit.",
        group=Group.SAFETY, page="operations.md#clean-up-behind-the-return",
    )
    """With "later", the driver goes on once the job is committed and ``_SUCCESS`` is there, and a thread
    of this process removes the directory."""
    validate: bool | None = option(
        None, _AUTO,
        "Compare each directory, but those that went whole, with the manifests before the job is "
        "committed; default: where a "
        "listing is cheap.",
        group=Group.SAFETY,
    )
    unfinished: Unfinished | None = option(
        None, or_none(one_of(get_args(Unfinished)), "auto"),
        "What to do with an earlier job that was recorded and whose process has died: finish, supersede "
        "or refuse; auto supersedes it if this job replaces all that it writes.",
        group=Group.SAFETY, repeat=Repeat.UNTIL_RECORDED,
        page="using.md#running-an-application-again-after-its-driver-died",
    )
    """Usually the earlier job in the same directories is the same application, run again. "finish"
    finishes its commit first. "supersede" gives it up first, as ``abort --undo`` does; if its old files
    may be gone already, it is finished instead, but only if this job replaces all that it writes.
    "refuse" stops with `CommitConflictError`. None supersedes it if this job replaces all that it
    writes: until this job is committed, readers then see the data from before both. Otherwise, and for
    a deferred commit, None refuses."""
    finish_others: bool = option(
        False, TRUTH,
        "Finish a recorded job that is in the way and whose process has died, also where unfinished "
        "would stop.",
        group=Group.SAFETY, repeat=Repeat.UNTIL_RECORDED,
    )
    """Do not use it if that job can be an earlier run of this application."""
    run_id: str | None = option(
        None, _RUN_ID,
        "What this job does once, such as orders-2026-01-31: in a table with a log, work that was "
        "committed under this id is not committed again.",
        repeat=Repeat.UNTIL_RECORDED, page="run_ids.md",
    )
    """That holds until the work is undone. A second run of the job, in a new session or after a commit
    that has failed, ends well, and its files are removed. A second write of one session under the same
    run id is refused, and so is one with another mode or other partitions. Without a log, a run id is
    refused."""
    keep_replaced: bool | None = option(
        None, _AUTO,
        "In a table with a log, keep the files that the job replaces; default: as the table says.",
        group=Group.SAFETY, repeat=Repeat.UNTIL_RECORDED, page="protocol.md#tables-with-a-log",
    )
    """They are moved to ``_ray_committer/removed``, and not deleted. With True, a job at a destination
    without a log is refused."""
    catalog_table: str | None = option(
        None, _TABLE,
        "A table of a catalog, as DB.TABLE, that is told of the job's partitions: Spark does it after "
        "the commit, and other reports have the command for it.",
        repeat=Repeat.ALWAYS, page="catalogs.md",
    )
    export_delta: bool = option(
        False, TRUTH, "Export a table with a log as a Delta table after the commit.", page="exports.md"
    )
    """If the export fails, the commit stays committed, and a notice has the command for it."""
    durable: bool = option(
        False, TRUTH, "Force the commit to disk, so that a power cut cannot undo it.",
        group=Group.SAFETY, repeat=Repeat.ALWAYS,
    )
    """The program that writes the files must force their content to disk."""
    summary_directory: str | None = option(
        None, _URL,
        "The directory for summary-JOB.json after a commit or an abort, also one that failed: a URL, or "
        "a path on the destination's store.",
        group=Group.STORAGE, where=Where.COMMAND_LINE | Where.ENVIRONMENT | Where.DRIVER,
    )
    threads: int = option(
        32, COUNT, "Parallel requests in this process.", least=1, group=Group.TUNING
    )
    """They are used on a store whose requests have to be waited for."""
    workers: int | None = option(
        None, or_none(COUNT, "auto"), "Workers on Ray, or auto: two per node, at least two.",
        least=1, group=Group.TUNING,
    )
    worker_threads: int = option(
        16, COUNT, "Parallel requests in each worker.", least=1, group=Group.TUNING
    )
    worker_cpus: float = option(
        0.1, NUMBER, "CPUs that each worker asks Ray for.", group=Group.TUNING
    )
    max_requests_per_second: float | None = option(
        None, or_none(NUMBER, "none"),
        "The limit of requests to the store for all processes together, or none.",
        least=1, group=Group.TUNING,
    )
    """Requests of all kinds count. None: no limit until the store throttles."""
    retry_seconds: float = option(
        300.0, TIME, "How long to repeat a request that the store throttles or does not answer.",
        group=Group.TUNING,
    )
    conflict_wait_seconds: float = option(
        600.0, TIME, "How long to wait for other commits that must end first.", group=Group.TUNING
    )
    """These are commits of this job, and of jobs that must not be committed at the same time, such as
    an overwrite and an append of one directory."""
    # fmt: on

    @classmethod
    def from_spark_conf(cls, conf: Mapping[str, str], *, defaults: Self | None = None) -> Self:
        """Read the options from ``spark.ray_committer.*``; `defaults` hold for those that are not set.

        Other keys of `conf` are ignored. `SettingsError` names the key, and what its value can be.
        """
        names = {key: key.removeprefix(SPARK_PREFIX) for key in conf if key.startswith(SPARK_PREFIX)}
        alone = [row.name for row in SPARK_ALONE]
        return (defaults or cls()).changed(**cls._read(Where.SPARK, conf, names, alone))

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> Self:
        """Read them from ``RAY_COMMITTER_*``, for the command line and for programs without Spark.

        Variables of other options of commands are ignored.
        """
        prefix = ENVIRONMENT_PREFIX
        names = {key: key.removeprefix(prefix).lower() for key in environment if key.startswith(prefix)}
        names = {key: name for key, name in names.items() if not name.startswith(_TESTS)}
        parameters = (row.parameter for row in cls.settable(Where.COMMAND_LINE).values())
        ignored = [*parameters, *COMMANDS_ALONE]
        return cls(**cls._read(Where.ENVIRONMENT, environment, names, ignored))

    @classmethod
    def _read(
        cls, where: Where, texts: Mapping[str, str], names: Mapping[str, str], ignored: Collection[str]
    ) -> dict[str, Any]:
        """The values of `texts`, whose keys have these names; those in `ignored` are known elsewhere."""
        known, values = cls.settable(where), {}
        for key, name in sorted(names.items()):
            text = texts[key].strip()
            try:
                if name in known:
                    values[name] = known[name].read(text)
            except ValueError as e:
                raise SettingsError(f"{key}={text}: {e}") from None
            if name not in known and name not in ignored:
                what, advice = "is specific to each job and is not a setting", "remove it"
                if name not in cls.rows:
                    hints = sorted(set(ignored) - {SESSION_TOKEN.name})
                    near = get_close_matches(name, [*known, *hints], n=1, cutoff=0.5)
                    listed = f"use one of {', '.join(known)}"
                    what, advice = "is not an option", f"did you mean {near[0]}?" if near else listed
                raise SettingsError(f"{key}: {what}", advice)
        return values

    def changed(self, **changes: Any) -> Self:
        """These options with `changes`."""
        return replace(self, **changes)

    def over(self, under: Self) -> Self:
        """The options that were given here, even as they are by default, and the others of `under`."""
        return under.changed(**vars(self))


COMMIT = Setting("commit", where=Where.SESSION)
EXECUTOR = Setting("executor", where=Where.DRIVER)
COMMAND = Setting("command", where=Where.DRIVER)
SESSION_TOKEN = Setting("session_token", where=Where.PYTHON)
SPARK_ALONE = (COMMIT, EXECUTOR, COMMAND, SESSION_TOKEN)
"""The other settings of Spark with our prefix: what commits a job, and where, and for which session. The
last one is a random word, which only the session itself knows."""

# fmt: off
COMMANDS_ALONE = (
    "accept_lost", "assume_complete", "command", "commit", "driver", "dry_run", "events", "exact",
    "existing", "executor", "format", "html_file", "import_foreign", "isolation", "job_id",
    "latency_ms", "limit", "metastore", "older_than", "output", "partition", "partition_types",
    "partitions", "reads_manifests", "since", "storage_options", "table", "tasks", "undo",
    "verbose", "version", "watch", "with_locations",
)
"""The other options of commands, which are no options of a commit; they have variables, too."""
# fmt: on
