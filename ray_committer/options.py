"""The options of a commit: their units, their defaults, and how to write them as text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Any, Literal, Self, get_args

from ray_committer.errors import SettingsError
from ray_committer.protocol.partition_sql import table_name
from ray_committer.protocol.paths import is_name
from ray_committer.protocol.record import ConflictMode
from ray_committer.protocol.table_runs import check_run_id
from ray_committer.protocol.table_work import TableWork

SPARK_PREFIX = "spark.ray_committer."
ENVIRONMENT_PREFIX = "RAY_COMMITTER_"
NOT_OPTIONS = ("commit", "executor", "command", "session_token")
"""The other Spark settings with our prefix: what commits a job, and where, and for which session."""
COMMAND_LINE = {
    "accept_lost", "allowed_root", "assume_complete", "attempt", "command", "commit",
    "driver", "dry_run", "events", "exact", "executor", "expect_tasks",
    "format", "html_file", "import_foreign", "isolation", "job_id", "latency_ms", "limit",
    "metastore", "mode", "older_than", "output", "partition", "partition_types", "partitions",
    "reads", "replace", "since", "storage_options", "table", "tasks",
    "undo", "verbose", "watch", "with_locations",
}  # fmt: skip
"""The other environment variables with our prefix: the options of the command line that are not
settings, such as ``RAY_COMMITTER_JOB_ID``."""
_TESTS = "test_"

Unfinished = Literal["finish", "supersede", "refuse"]
"""What a job does about an earlier one whose commit has begun and is not at work any more."""


@dataclass(frozen=True, slots=True)
class CommittedTask:
    """A successful task, as its driver knows it: its `manifest` file, the SHA-256 of that file, and
    the attempt that saved it."""

    manifest: str
    digest: str
    task_attempt_id: str | None


_AT_LEAST_ONE = ("threads", "workers", "worker_threads", "max_requests_per_second")


class _Given:
    """Remembers which options an object was made with: one that is given can equal its default."""

    __slots__ = ("_given",)
    _given: frozenset[str]

    def __new__(cls, *_: Any, **options: Any) -> Self:
        self = super().__new__(cls)
        object.__setattr__(self, "_given", frozenset(options))
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions(_Given):
    """How one job is committed. If a commit record exists, its values take precedence over these.

    job_attempt: Hadoop's job attempt number; needed only if the job has several on the store.
    expected_tasks: how many tasks succeeded; the commit stops if the number of manifests differs.
    assume_complete: without `expected_tasks`, assume that all tasks are done. A caller in the driver
        knows that; a caller that finds a job on the store does not.
    committed_tasks: each successful task; the manifests must be exactly these, byte for byte.
    ignore_other_attempts: with `committed_tasks`, leave out manifests that these do not name. Use it if
        each attempt saves a manifest of its own, and the results of some attempts are not used.
    mode: what to do with existing data at the destination, or in the partitions that the job writes to;
        decided once, before the commit record is written. Its name is also accepted, such as "append".
    replaced_roots: with OVERWRITE, the directories whose existing files are replaced, as paths or
        URLs on the destination's store; empty means the whole destination.
    allowed_roots: directories outside the destination that the job is allowed to write to. Directories
        that a commit record names must also be allowed here.
    reads: the partitions that the job's rows come from, as paths relative to the destination; an empty
        path means all of it. If the destination is a table with a log, the commit is refused if another
        job has changed one of them since this job was set up.
    run_id: what this job does once, such as ``orders-2026-01-31``: in a table with a log, work whose run
        id is committed is not committed again until it is undone. A second run of the job, in a new
        session or after a commit that has failed, ends well, and its files are removed. A second write
        of one session under the same run id is refused, and so is one with another mode or other
        partitions. Without a log, a run id is refused.
    known_jobs: the jobs that the caller's session has committed under the run id; None: this process
        is the session, and remembers them.
    table_work: what a job does that this package makes from the log of a table, such as an undo.
    partition_paths: the partitions that a dynamic partition overwrite replaces; kept in the record.
    keep_replaced: in a table with a log, keep the old files that the job replaces: they are moved to
        ``_ray_committer/removed``, and not deleted. None: as the table says. With True, a job at a
        destination without a log is refused.
    mark_success: write ``_SUCCESS``.
    cleanup: remove the job's directory after the commit.
    validate: list each destination directory and compare; None means where listing is cheap.
    durable: force the changes of the commit to disk before the job is committed, so that a power cut
        cannot undo them. The program that writes the files must force their content to disk.
    summary_directory: the directory for ``summary-$jobId.json`` after a commit or an abort, also one
        that failed: a URL on any store, or a path on the destination's.
    threads: parallel operations in this process, on a store whose requests have to be waited for.
    workers, worker_threads, worker_cpus: Ray rename workers (None: two per node, at least two), the
        parallel operations in each, and the CPUs that each asks Ray for.
    max_requests_per_second: the limit of requests of all kinds to the store, for all processes together;
        None: no limit until the store throttles.
    retry_seconds: how long to repeat a request that the store throttles or does not answer.
    conflict_wait_seconds: how long to wait for another commit of this job, or for jobs that must not be
        committed at the same time, such as an overwrite and an append of one directory.
    export_delta: whether the commit exports the table with a log that it was
        made to as a Delta table. If the export fails, the commit stays committed, and a notice has the
        command for it.
    unfinished: what to do if an earlier job in the same directories was recorded and its process has
        died; usually this job is the same application, run again. "finish" finishes the commit of the
        earlier job first. "supersede" gives it up first, as ``abort --undo`` does; if its old files may
        be gone already, it is finished instead, but only if this job replaces all that it writes.
        "refuse" stops with `CommitConflictError`. None supersedes it if this job replaces all that it
        writes: until this job is committed, readers then see the data from before both. Otherwise, and
        for a deferred commit, None refuses.
    finish_others: finish the commit of a recorded job that is in the way and whose process has died,
        also where `unfinished` would stop. Do not use it if that job can be an earlier run of this
        application.
    catalog_table: the table of a catalog, as ``db.table``, that is told of the partitions of the job. A
        Spark session does this after the commit; a report of any other commit has the command for it.
    """

    job_attempt: int | None = None
    expected_tasks: int | None = None
    assume_complete: bool = True
    committed_tasks: tuple[CommittedTask, ...] | None = None
    ignore_other_attempts: bool = False
    mode: ConflictMode = ConflictMode.APPEND
    replaced_roots: tuple[str, ...] = ()
    allowed_roots: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    run_id: str | None = None
    known_jobs: tuple[str, ...] | None = None
    table_work: TableWork | None = None
    partition_paths: tuple[str, ...] = ()
    keep_replaced: bool | None = None
    mark_success: bool = True
    cleanup: bool = True
    validate: bool | None = None
    durable: bool = False
    summary_directory: str | None = None
    threads: int = 32
    workers: int | None = None
    worker_threads: int = 16
    worker_cpus: float = 0.1
    max_requests_per_second: float | None = None
    retry_seconds: float = 300.0
    conflict_wait_seconds: float = 600.0
    export_delta: bool = False
    unfinished: Unfinished | None = None
    finish_others: bool = False
    catalog_table: str | None = None

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"CommitOptions.{name} must be at least 1, not {value}")
        if self.mode not in list(ConflictMode):
            known = ", ".join(ConflictMode)
            raise ValueError(f"CommitOptions.mode must be one of {known}, not {self.mode}")
        object.__setattr__(self, "mode", ConflictMode(self.mode))
        if self.unfinished not in (None, *get_args(Unfinished)):
            known = ", ".join(get_args(Unfinished))
            raise ValueError(f"CommitOptions.unfinished must be one of {known}, not {self.unfinished}")
        if isinstance(self.reads, str):
            raise SettingsError(f"reads={self.reads!r}: must be a tuple of directories")
        for path in self.reads:
            _check_directory(path)
        if self.run_id is not None:
            check_run_id(self.run_id)
        if self.catalog_table is not None:
            table_name(self.catalog_table)

    @classmethod
    def from_spark_conf(
        cls, conf: Mapping[str, str], *, defaults: CommitOptions | None = None
    ) -> CommitOptions:
        """Read the options from ``spark.ray_committer.*``; `defaults` hold for those that are not set.

        Other keys of `conf` are ignored. `SettingsError` names the key, and what its value can be.
        """
        given = _below(conf, SPARK_PREFIX, str)
        names = {key: name for key, name in given.items() if name not in NOT_OPTIONS}
        return _read(conf, names, defaults or cls())

    @classmethod
    def from_env(cls, environment: Mapping[str, str]) -> CommitOptions:
        """Read them from ``RAY_COMMITTER_*``, for the command line and for programs without Spark."""
        given = _below(environment, ENVIRONMENT_PREFIX, str.lower)
        names = {
            key: name
            for key, name in given.items()
            if name not in COMMAND_LINE and not name.startswith(_TESTS)
        }
        return _read(environment, names, cls())

    def changed(self, **changes: Any) -> CommitOptions:
        """These options with `changes`."""
        found = replace(self, **changes)
        object.__setattr__(found, "_given", self._names_given() | set(changes))
        return found

    def over(self, under: CommitOptions) -> CommitOptions:
        """The options that were given here, even with their default values, and the others of `under`.

        From `dataclasses.replace`, only options that differ from their default values count as given.
        """
        return under.changed(**{name: getattr(self, name) for name in self._names_given()})

    def _names_given(self) -> frozenset[str]:
        if self._given != OPTIONS:
            return self._given
        default = CommitOptions()
        return frozenset(name for name in OPTIONS if getattr(self, name) != getattr(default, name))

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in (*OPTIONS, "_given")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


OPTIONS = frozenset(one.name for one in fields(CommitOptions))
CommitOptions.__signature__ = signature(CommitOptions.__init__)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a value is written as text: its `meaning` in words, and `read`, which raises ValueError."""

    meaning: str
    read: Callable[[str], Any]


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _seconds(text: str) -> float:
    number, unit = re.fullmatch(r"([0-9.]+)\s*([a-z]*)", text.lower()).groups()  # type: ignore[union-attr]
    return float(number) * _UNITS[unit]


def _finite(text: str) -> float:
    if not re.fullmatch(r"[0-9.]+(e[0-9]+)?", text.lower()):
        raise ValueError(text)
    return float(text)


def _one_of(choices: Sequence[str]) -> _Kind:
    return _Kind(f"{', '.join(choices[:-1])} or {choices[-1]}", lambda text: _choice(choices, text))


def _table(text: str) -> str:
    return ".".join(table_name(text))


def _choice(choices: Sequence[str], text: str) -> str:
    return choices[choices.index(text.lower())]


def _or_none(kind: _Kind, word: str) -> _Kind:
    def read(text: str) -> Any:
        return None if text.lower() == word else kind.read(text)

    return _Kind(f"{kind.meaning}, or {word}", read)


_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_TRUTH = _Kind("true or false", _truth)
_COUNT = _Kind("a whole number", int)
_NUMBER = _Kind("a number", _finite)
_DURATION = _Kind("a time such as 10s, 500ms, 5m, 1h or 7d (a number without a unit: seconds)", _seconds)

TEXTS: dict[str, _Kind] = {
    "mark_success": _TRUTH,
    "cleanup": _TRUTH,
    "validate": _or_none(_TRUTH, "auto"),
    "durable": _TRUTH,
    "keep_replaced": _or_none(_TRUTH, "auto"),
    "summary_directory": _Kind("a URL, or a path on the destination's store", str),
    "threads": _COUNT,
    "workers": _or_none(_COUNT, "auto"),
    "worker_threads": _COUNT,
    "worker_cpus": _NUMBER,
    "max_requests_per_second": _or_none(_NUMBER, "none"),
    "run_id": _or_none(_Kind("a text", str), "none"),
    "retry_seconds": _DURATION,
    "conflict_wait_seconds": _DURATION,
    "export_delta": _TRUTH,
    "unfinished": _or_none(_one_of(get_args(Unfinished)), "auto"),
    "finish_others": _TRUTH,
    "catalog_table": _or_none(_Kind("a table such as db.table", _table), "none"),
}
"""The options that can be set as text; the others belong to one job."""


def _check_directory(path: str) -> None:
    """`SettingsError` if a path cannot be that of a directory relative to the destination."""
    names = path.removesuffix("/").split("/")
    is_text = path.encode(errors="replace").decode() == path
    if path and not (is_text and all(map(is_name, names))):
        raise SettingsError(
            f"reads={path!r}: must be a directory relative to the destination, such as day=1",
            "nothing was done: correct it; an empty text is the whole table",
        )


def _below(texts: Mapping[str, str], prefix: str, spelled: Callable[[str], str]) -> dict[str, str]:
    """The names of the options, by the keys that begin with `prefix`."""
    return {key: spelled(key[len(prefix) :]) for key in sorted(texts) if key.startswith(prefix)}


def _read(texts: Mapping[str, str], names: Mapping[str, str], defaults: CommitOptions) -> CommitOptions:
    read: dict[str, Any] = {}
    for key, name in names.items():
        if name not in TEXTS:
            what, advice = _unknown(name)
            raise SettingsError(f"{key}: {what}", advice)
        text = texts[key].strip()
        try:
            read[name] = read_option(name, text)
        except ValueError as e:
            raise SettingsError(f"{key}={text}: {e}") from None
    return defaults.changed(**read)


def read_option(name: str, text: str) -> Any:
    """Read the value of one of the `TEXTS`; ``ValueError`` says what it must be."""
    value = _value(TEXTS[name], text)
    if name in _AT_LEAST_ONE and value is not None and value < 1:
        raise ValueError("must be at least 1")
    return value


def read_seconds(text: str) -> float:
    """Read a time with its unit, in seconds; ``ValueError`` says how to write one."""
    seconds: float = _value(_DURATION, text)
    return seconds


def _value(kind: _Kind, text: str) -> Any:
    try:
        return kind.read(text)
    except (ValueError, KeyError, AttributeError):
        raise ValueError(f"must be {kind.meaning}") from None


def _unknown(name: str) -> tuple[str, str]:
    """What is wrong with a name that is not the name of a setting, and what to do."""
    if name in OPTIONS:
        return "is specific to each job and is not a setting", "remove it"
    near = difflib.get_close_matches(name, TEXTS, n=1, cutoff=0.5)
    return "is not an option", f"did you mean {near[0]}?" if near else f"use one of {', '.join(TEXTS)}"
