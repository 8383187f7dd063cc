"""Every choice of a commit, its unit and its default, and how it is written as text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ray_committer.errors import SettingsError
from ray_committer.protocol.record import ConflictMode

SPARK_PREFIX = "spark.ray_committer."
ENVIRONMENT_PREFIX = "RAY_COMMITTER_"
NOT_OPTIONS = ("commit", "executor", "command")
JOBS_PREFIX = "jobs."
"""What else Spark's settings say of us under the same prefix: who commits, and how that is reached."""
COMMAND_LINE = frozenset(
    (
        "allow_start",
        "allowed_root",
        "assume_complete",
        "attempt",
        "command",
        "commit",
        "driver",
        "dry_run",
        "events",
        "exact",
        "executor",
        "expect_tasks",
        "first",
        "format",
        "html_file",
        "job_id",
        "json",
        "jobs_address",
        "mode",
        "older_than",
        "output",
        "replace",
        "storage_options",
        "undo",
        "verbose",
    )
)
"""What else the environment says of us under the same prefix: the options of the command line that are
no settings, as ``RAY_COMMITTER_JOB_ID``."""
_TESTS = "test_"


@dataclass(frozen=True, slots=True)
class CommittedTask:
    """What the driver knows of a successful task: its `manifest` file, that file's SHA-256, and
    which attempt saved it."""

    manifest: str
    digest: str
    task_attempt_id: str | None


_AT_LEAST_ONE = (
    "threads",
    "workers",
    "worker_threads",
    "shard_files",
    "max_requests_per_second",
    "lease_seconds",
    "rename_attempts",
    "manifest_save_attempts",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """How one job is committed. What a commit record already says wins over what is asked here.

    job_attempt: Hadoop's job attempt number; needed only if the job has several on the store.
    expected_tasks: how many tasks succeeded; the commit stops if another number of manifests is there.
    assume_complete: without `expected_tasks`, take it that all tasks are done; who calls from a driver
        knows, who finds a job on the store does not.
    committed_tasks: each successful task; the manifests must be exactly these, byte for byte.
    ignore_other_attempts: with `committed_tasks`, leave out manifests that these do not name: those of
        attempts whose result nobody used, where each attempt saves a manifest of its own.
    mode: what becomes of data at the destination; judged once, before the commit record is written.
    replaced_roots: with OVERWRITE, the directories whose present files are replaced, as paths or
        URLs on the destination's store; empty means the whole destination.
    allowed_roots: directories outside the destination to which tasks may have written, also those that
        a commit record names: it is believed no further than its caller allows.
    partition_paths: the partitions that a dynamic partition overwrite replaces; kept in the record.
    mark_success: write ``_SUCCESS``.
    cleanup: remove the job's directory after the commit.
    validate: list each destination directory and compare; None means where listing is cheap.
    durable: force what the commit did to disk before it counts, so that a power cut takes nothing back;
        the content of its files is for who writes them to force.
    delete_blocking_files: remove files that stand where directories must go; such a job waits for all
        others that write below its destination, and they for it.
    summary_directory: where ``summary-$jobId.json`` is written, on the destination's store.
    threads: operations at once, in this process, on a store that is waited for.
    workers, worker_threads, worker_cpus: Ray rename workers (None: two a node, at least two), the
        operations at once in each, and the CPUs that each asks Ray for.
    may_start_ray: whether executor="ray" may start a local Ray where none is connected.
    worker_start_seconds: how long a Ray worker may take to start.
    shard_files: the most files that a worker is given at once; None: what it renames in a tenth of a
        second, but no more than 1,000.
    max_requests_per_second: requests of all kinds to the store, of all processes together; None is no
        limit until the store throttles.
    lease_seconds: how long a process goes on when it cannot ask whether it still may.
    retry_seconds: how long one request is repeated that the store throttles or does not answer.
    conflict_wait_seconds: how long to wait for jobs that are being committed and must not be at the same
        time, as an overwrite and an append of one directory, or for another commit of this job.
    rename_attempts: tries of a rename that failed and proved not to have happened.
    manifest_save_attempts: tries of saving a task manifest.
    """

    job_attempt: int | None = None
    expected_tasks: int | None = None
    assume_complete: bool = True
    committed_tasks: tuple[CommittedTask, ...] | None = None
    ignore_other_attempts: bool = False
    mode: ConflictMode = ConflictMode.APPEND
    replaced_roots: tuple[str, ...] = ()
    allowed_roots: tuple[str, ...] = ()
    partition_paths: tuple[str, ...] = ()
    mark_success: bool = True
    cleanup: bool = True
    validate: bool | None = None
    durable: bool = False
    delete_blocking_files: bool = False
    summary_directory: str | None = None
    threads: int = 32
    workers: int | None = None
    worker_threads: int = 16
    worker_cpus: float = 0.1
    may_start_ray: bool = True
    worker_start_seconds: float = 30.0
    shard_files: int | None = None
    max_requests_per_second: float | None = None
    lease_seconds: float = 10.0
    retry_seconds: float = 300.0
    conflict_wait_seconds: float = 600.0
    rename_attempts: int = 8
    manifest_save_attempts: int = 5

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"CommitOptions.{name} must be at least 1, not {value}")

    @classmethod
    def from_spark_conf(
        cls, conf: Mapping[str, str], *, defaults: CommitOptions | None = None
    ) -> CommitOptions:
        """The options that ``spark.ray_committer.*`` give; `defaults` hold where they are silent.

        Other keys of `conf` are not looked at. `SettingsError` names the key and what it may be.
        """
        given = _below(conf, SPARK_PREFIX, str)
        names = {
            key: name
            for key, name in given.items()
            if name not in NOT_OPTIONS and not name.startswith(JOBS_PREFIX)
        }
        return _read(conf, names, defaults or cls())

    @classmethod
    def from_env(
        cls, environment: Mapping[str, str], *, defaults: CommitOptions | None = None
    ) -> CommitOptions:
        """The same from ``RAY_COMMITTER_*``, for programs without Spark and the command line."""
        given = _below(environment, ENVIRONMENT_PREFIX, str.lower)
        names = {
            key: name
            for key, name in given.items()
            if name not in COMMAND_LINE and not name.startswith(_TESTS)
        }
        return _read(environment, names, defaults or cls())

    def changed(self, **changes: Any) -> CommitOptions:
        """These options with `changes`."""
        return replace(self, **changes)

    def over(self, under: CommitOptions) -> CommitOptions:
        """These options, and those of `under` where these are the defaults."""
        default = CommitOptions()
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(
            under, **{name: value for name, value in said.items() if value != getattr(default, name)}
        )


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a value is written: what its texts are called, and their reader, which raises ValueError."""

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


def _or_none(kind: _Kind, word: str) -> _Kind:
    def read(text: str) -> Any:
        return None if text.lower() == word else kind.read(text)

    return _Kind(f"{kind.meaning}, or {word}", read)


_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_TRUTH = _Kind("true or false", _truth)
_COUNT = _Kind("a whole number", int)
_NUMBER = _Kind("a number", _finite)
_DURATION = _Kind("a time as 10s, 500ms, 5m, 1h or 7d, in seconds without a unit", _seconds)

TEXTS: dict[str, _Kind] = {
    "mark_success": _TRUTH,
    "cleanup": _TRUTH,
    "validate": _or_none(_TRUTH, "auto"),
    "durable": _TRUTH,
    "delete_blocking_files": _TRUTH,
    "summary_directory": _Kind("a path or URL on the destination's store", str),
    "threads": _COUNT,
    "workers": _or_none(_COUNT, "auto"),
    "worker_threads": _COUNT,
    "worker_cpus": _NUMBER,
    "worker_start_seconds": _DURATION,
    "shard_files": _or_none(_COUNT, "auto"),
    "max_requests_per_second": _or_none(_NUMBER, "none"),
    "lease_seconds": _DURATION,
    "retry_seconds": _DURATION,
    "conflict_wait_seconds": _DURATION,
    "rename_attempts": _COUNT,
    "manifest_save_attempts": _COUNT,
}
"""The options that text can give; what is not here is a fact of one job."""


def _below(texts: Mapping[str, str], prefix: str, spelled: Callable[[str], str]) -> dict[str, str]:
    """The options' names by the keys that begin with `prefix`."""
    return {key: spelled(key[len(prefix) :]) for key in sorted(texts) if key.startswith(prefix)}


def _read(texts: Mapping[str, str], names: Mapping[str, str], defaults: CommitOptions) -> CommitOptions:
    read: dict[str, Any] = {}
    for key, name in names.items():
        if name not in TEXTS:
            raise SettingsError(f"{key}: {_unknown(name)}")
        text = texts[key].strip()
        try:
            read[name] = read_option(name, text)
        except ValueError as e:
            raise SettingsError(f"{key}={text}: {e}") from None
    return replace(defaults, **read)


def read_option(name: str, text: str) -> Any:
    """The value of one of the `TEXTS`; ``ValueError`` says what it must be."""
    value = _value(TEXTS[name], text)
    if name in _AT_LEAST_ONE and value is not None and value < 1:
        raise ValueError("must be at least 1")
    return value


def read_seconds(text: str) -> float:
    """A time with its unit, in seconds; ``ValueError`` says how one is written."""
    seconds: float = _value(_DURATION, text)
    return seconds


def _value(kind: _Kind, text: str) -> Any:
    try:
        return kind.read(text)
    except (ValueError, KeyError, AttributeError):
        raise ValueError(f"must be {kind.meaning}") from None


def _unknown(name: str) -> str:
    """What is wrong with a name that is none."""
    if name in {one.name for one in fields(CommitOptions)}:
        return "is a fact of each job and not a setting; remove it"
    near = difflib.get_close_matches(name, TEXTS, n=1, cutoff=0.5)
    return f"is no option; did you mean {near[0]}?" if near else f"is no option of {', '.join(TEXTS)}"
