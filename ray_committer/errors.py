"""The errors of this package, grouped by the caller's next step.

The tree, and what each class promises about the data. From a promise follow the exit code of the
command line and the usual advice:

    RayCommitterError                   UNCHANGED
      PathError                         UNCHANGED
      SettingsError                     NOT_DONE
      EventLogError                     UNCHANGED
      StoreRefusedError                 UNCHANGED
      SparkDriverError                  UNCHANGED
      JobNotFoundError                  UNCHANGED
        JobGoneError                    UNKNOWN
      AmbiguousJobError                 NOT_DONE
      IncompleteJobError                UNCHANGED
        MissingManifestsError           UNCHANGED
          ManifestReplacedError         UNCHANGED
        StagingChangedError             UNCHANGED
      ManifestError                     UNCHANGED
      PreflightError                    UNCHANGED
      LinkedPathError                   UNCHANGED
      TaskCommitError                   UNCHANGED
      CommitAbortedError                UNCHANGED
      StoreFailedError                  UNCHANGED
      RayNotAvailableError              UNCHANGED
      CommitStateUnknownError           UNKNOWN
        CoordinatorLostError            UNKNOWN
        LeaseLostError                  UNKNOWN
        RayLostError                    UNKNOWN
        CommitCancelledError            PARTLY
        PackChangedError                UNKNOWN
        RecordGoneError                 UNKNOWN
      CommitConflictError               NOT_REPLACED
        CommitRecordExistsError         NOT_REPLACED
        CommitterBusyError              NOT_REPLACED
        TableClaimError                 NOT_REPLACED
      TableLogError                     UNCHANGED
        TableFormatError                UNCHANGED
        TableLogGapError                UNCHANGED
        TableLogGoneError               UNCHANGED
        TableVersionGoneError           UNCHANGED
      ExportError                       UNCHANGED
      CatalogError                      PARTLY
      CatalogTableError                 UNCHANGED
      DatabaseUnavailableError          UNCHANGED
      DatabaseRefusedError              UNCHANGED
      TableColumnsError                 UNCHANGED
      ValidationError                   DIFFERENT

`ThrottledError` and `StoreUnavailableError` are each an ``OSError``, for what a store answers.

The text of an error is ``f"{mark(path)}: what is wrong"`` and the advice. Each path in it is marked, so
it is a field of the error (`paths`). Who writes a text knows paths. The URL of the store, without which
a path can be in several buckets, is known where the text is shown. So the marks go with the text into
lists, errors and other texts, until `shown` replaces them.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

SHOWN = 20
"""The number of obstacles of one kind that are named; the others are only counted."""
_BEGIN, _END = "\ufdd0", "\ufdd1"  # no characters, by Unicode, so no name has them
_MARKED = re.compile(f"{_BEGIN}([^{_END}]*){_END}")


class Promise(NamedTuple):
    """What an error promises about the data at the destination. From it follow the exit code of the
    command line, and the advice of an error that has no other."""

    text: str
    exit_code: int
    advice: str


UNCHANGED = Promise("nothing visible was changed", 1, "fix the problem and run the same command again")
NOT_DONE = Promise("nothing was done", 2, "correct it; --help lists the options")
PARTLY = Promise(
    "readers may see a part, and everything was kept",
    3,
    "everything was kept; fix that and run the same command to finish",
)
UNKNOWN = PARTLY._replace(text="it is not known what was done, and everything was kept")
NOT_REPLACED = Promise(
    "nothing was overwritten",
    4,
    "nothing was overwritten; look at both, move one away and run the same command",
)
DIFFERENT = Promise(
    "the data is not what it must be",
    5,
    "find out what changed these files, before the job's manifests are removed",
)


class RayCommitterError(Exception):
    """Base of all errors that this package raises on purpose: `what` is wrong, and the `advice`.

    `id` names the section of ``docs/errors.md`` about the error, which ``ray-committer explain`` prints;
    it does not change if the class is renamed.
    """

    id = "RC-other-error"
    promise = UNCHANGED
    exit_code: ClassVar[int] = promise.exit_code
    usual_advice: ClassVar[str] = promise.advice

    def __init_subclass__(cls) -> None:
        cls.exit_code = cls.promise.exit_code
        if "promise" in vars(cls) and "usual_advice" not in vars(cls):
            cls.usual_advice = cls.promise.advice

    store: str | None = None
    """The URL of the store that the paths are on, once it is known."""

    def __init__(self, what: str, advice: str | None = None) -> None:
        super().__init__(*((what,) if advice is None else (what, advice)))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths in the text, as they are on the store, each once."""
        return tuple(dict.fromkeys(_MARKED.findall("; ".join(self.args))))

    @property
    def parts(self) -> tuple[str, str]:
        """What is wrong and the advice, for the text of another error: with marked paths, or URLs."""
        what, advice = self.args[0], self.args[1] if len(self.args) > 1 else self.usual_advice
        return (self._shown(what), self._shown(advice)) if self.store else (what, advice)

    @property
    def what(self) -> str:
        """What is wrong, with URLs of the paths."""
        return self._shown(self.parts[0])

    @property
    def advice(self) -> str:
        """What to do."""
        return self._shown(self.parts[1])

    def __str__(self) -> str:
        return "; ".join(map(self._shown, self.args))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def advise(self, text: str, *, instead: bool = False) -> None:
        """Add to the advice, or give this one `instead`."""
        what, advice = self.parts
        self.args = (what, text if instead else f"{advice}; {text}")

    def locate(self, store: str) -> None:
        """Show the paths as URLs of `store`, unless another one is known; idempotent."""
        if self.store is None:
            self.store = store

    def _shown(self, text: str) -> str:
        return shown(text, self.store)


class PathError(RayCommitterError, ValueError):
    """A path or URI cannot be used. Fix the data."""

    id = "RC-bad-path"
    usual_advice = "correct the path"


class SettingsError(RayCommitterError, ValueError):
    """A setting is unknown, has a bad value, or cannot be applied. Correct it."""

    id = "RC-bad-setting"
    promise = NOT_DONE


class EventLogError(RayCommitterError):
    """The file for events cannot be written. Name another one; nothing was changed."""

    id = "RC-event-log"


class StoreRefusedError(RayCommitterError):
    """The store has no safe atomic rename. Use the alternative that the message names."""

    id = "RC-store-refused"
    usual_advice = "use the alternative that the message names"


class SparkDriverError(RayCommitterError):
    """Spark's driver, its jar and this package do not fit together. Correct the driver's set-up."""

    id = "RC-spark-driver"
    usual_advice = "correct the set-up of Spark's driver, and run the application again"


class JobNotFoundError(RayCommitterError):
    """There is no such job at the destination. Look at the destination and the job id."""

    id = "RC-job-not-found"
    usual_advice = "run `ray-committer status DEST` to list the jobs"


class JobGoneError(JobNotFoundError):
    """A job that was named is not there, and ``_SUCCESS`` is not this job's. The job may have been
    committed before another job was, or deleted. Look at the data before you run its application again.
    """

    id = "RC-job-gone"
    promise = UNKNOWN
    usual_advice = "look for its files at the destination before you run its application again"


class AmbiguousJobError(RayCommitterError):
    """Several jobs or job attempts qualify. Name one."""

    id = "RC-ambiguous-job"
    promise = NOT_DONE
    usual_advice = "run `ray-committer status DEST` to list them, and name one"


class IncompleteJobError(RayCommitterError):
    """It is not known that all tasks are done, or there are fewer manifests than expected."""

    id = "RC-incomplete-job"
    usual_advice = "wait for the tasks, or specify how many succeeded"


class MissingManifestsError(IncompleteJobError):
    """Task manifests that must be there are gone, for example by another job's clean-up."""

    id = "RC-missing-manifests"
    usual_advice = "nothing was changed; if manifests were deleted, run the application again"


class ManifestError(RayCommitterError):
    """A task manifest is truncated, foreign or would lose data. Fix it or run the task again."""

    id = "RC-bad-manifest"
    usual_advice = "fix or remove the file, or run its task again"


class PreflightError(RayCommitterError):
    """The job's output contradicts itself. Nothing was changed."""

    id = "RC-preflight-failed"
    usual_advice = "nothing was changed; abort the job, fix its tasks and run them again"


class LinkedPathError(RayCommitterError):
    """A directory of the job, or of old data, is a symbolic link. Its target was not touched."""

    id = "RC-linked-path"
    usual_advice = (
        "look where the link leads: put what belongs here back in its place, or remove the link, and "
        "run the same command"
    )

    @property
    def filename(self) -> str:
        """The link."""
        return self.paths[0]


class TaskCommitError(RayCommitterError):
    """A task attempt could not be committed. Run the task again."""

    id = "RC-task-commit-failed"
    usual_advice = "run the task again"


class CommitAbortedError(RayCommitterError):
    """The store failed before anything visible was changed. Fix it and run the job's commit again."""

    id = "RC-commit-aborted"
    usual_advice = "nothing was changed; fix that and run the same command again"


class ThrottledError(OSError):
    """The store throttles requests, and did nothing. Wait, then try again.

    `retry_after_seconds` is the wait that the store asked for, or None if it named none. Stores raise
    this error, and the rate limit handles it. It can be pickled.
    """

    id = "RC-throttled"

    def __init__(self, path: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(errno.EAGAIN, "the store throttles requests", path)
        self.retry_after_seconds = retry_after_seconds

    def __reduce__(self) -> tuple[type[ThrottledError], tuple[str, float | None]]:
        return ThrottledError, (self.filename, self.retry_after_seconds)


class StoreUnavailableError(OSError):
    """The result of a request is not known: a time-out, a lost connection, or a failure in the store.
    Check it before you repeat the request, unless a repetition changes nothing. It can be pickled."""

    id = "RC-store-unavailable"

    def __init__(self, path: str, what: str) -> None:
        super().__init__(errno.EIO, what, path)
        self._arguments = path, what

    def __reduce__(self) -> tuple[type[StoreUnavailableError], tuple[str, str]]:
        return StoreUnavailableError, self._arguments


class StoreFailedError(RayCommitterError):
    """A request to the store has failed, and nothing visible was changed: a permission is missing, a
    disk is full or read-only, a name is too long. Fix that and do the same again."""

    id = "RC-store-failed"
    usual_advice = "fix that and run the same command"

    @classmethod
    def of(cls, error: OSError) -> StoreFailedError:
        """Return the error for an ``OSError`` that no step expects."""
        if isinstance(error, PermissionError) and error.filename is not None:
            what = f"{mark(str(error.filename))}: no permission ({error.strerror})"
            return cls(what, "grant it and run the same command")
        if isinstance(error, NotADirectoryError) and error.filename is not None:
            what = f"{mark(str(error.filename))}: is not a directory"
            return cls(what, "name the directory that the job wrote to")
        return cls(failed_request(error))


class RayNotAvailableError(RayCommitterError):
    """Ray was requested but is not available, or its workers do not start."""

    id = "RC-ray-not-available"
    usual_advice = "start that cluster, name another in RAY_ADDRESS, or commit with --executor threads"


class CommitStateUnknownError(RayCommitterError):
    """The commit stopped in the middle. Nothing was cleaned up: run the same command again."""

    id = "RC-commit-state-unknown"
    promise = UNKNOWN


class CoordinatorLostError(CommitStateUnknownError):
    """The coordinating actor was lost and runs again, empty. Its data is collected again."""

    id = "RC-coordinator-lost"


class LeaseLostError(CommitStateUnknownError):
    """This process can make no more requests: it could not renew its lease in time."""

    id = "RC-lease-lost"


class RayLostError(CommitStateUnknownError):
    """Ray went away while the commit ran. Connect to it again and run the same command."""

    id = "RC-ray-lost"


class CommitCancelledError(CommitStateUnknownError):
    """The commit was cancelled. Run the same command to finish it."""

    id = "RC-commit-cancelled"
    promise = PARTLY


class ManifestReplacedError(MissingManifestsError):
    """A task has saved a manifest again since it was listed. Run the same command."""

    id = "RC-manifest-replaced"


class PackChangedError(CommitStateUnknownError):
    """A pack of a job's entries is gone, or is not the one that the commit record names. Nothing further
    was touched."""

    id = "RC-pack-changed"


class RecordGoneError(CommitStateUnknownError):
    """The commit record that a job's state names is missing, and only it names the job's files."""

    id = "RC-record-gone"


class CommitConflictError(RayCommitterError):
    """Something else is in the place of a file. Look at both; nothing was overwritten."""

    id = "RC-commit-conflict"
    promise = NOT_REPLACED


class CommitRecordExistsError(CommitConflictError):
    """The job's commit has begun, so this is no longer possible. Finish the commit, or undo it."""

    id = "RC-commit-record-exists"


class CommitterBusyError(CommitConflictError):
    """Another committer is at work on the same job. Wait for it."""

    id = "RC-committer-busy"
    usual_advice = "wait for it, then run the same command"


class TableLogError(RayCommitterError):
    """A file of a table's log is damaged, or is not what another file of the log says. Restore it."""

    id = "RC-table-log"
    usual_advice = (
        "nothing was changed: restore the file from soft delete or a snapshot, then look at the log "
        "with `ray-committer table log DEST`"
    )


class TableFormatError(TableLogError):
    """A newer release wrote a file of a table's log. Use that release."""

    id = "RC-table-format"
    usual_advice = (
        "nothing was changed: install the release of ray-committer that wrote it, and look at the log "
        "with `ray-committer table log DEST`"
    )


class TableLogGapError(TableLogError):
    """An entry is missing in a table's log, although later ones are there. Restore it."""

    id = "RC-table-log-gap"


class TableLogGoneError(TableLogError):
    """A table's log, or its end, was deleted. Restore it; nothing was written in its place."""

    id = "RC-table-log-gone"
    usual_advice = (
        "nothing was changed: restore the directory of the log from soft delete or a snapshot, then "
        "look at it with `ray-committer table log DEST`"
    )


class TableVersionGoneError(TableLogError):
    """A table does not have this version, or not all of its files any more. Choose another one."""

    id = "RC-table-version-gone"
    usual_advice = "nothing was changed: choose a version that `ray-committer table log DEST` shows"


class ExportError(RayCommitterError):
    """A table with a log cannot be exported. The table itself, and its log, are as they were."""

    id = "RC-export-failed"
    usual_advice = "the table itself is as it was: fix that and run the same command"


class TableClaimError(CommitConflictError):
    """A claim in a table's log cannot be resolved in this way. Run the command that the text names."""

    id = "RC-table-claim"
    usual_advice = "nothing was changed: look at the table with `ray-committer table scan DEST`"


class CatalogError(RayCommitterError):
    """The catalog of a table is down, refuses a request, or cannot be reached. Run the same command."""

    id = "RC-catalog-failed"
    promise = PARTLY
    usual_advice = "all files are in place and stay: fix that and run the same command"


class CatalogTableError(RayCommitterError):
    """A table of a catalog does not exist, or does not fit the directories. Name the right one."""

    id = "RC-catalog-table"
    usual_advice = "nothing was changed: correct the table or the destination"


class DatabaseUnavailableError(RayCommitterError):
    """A database cannot be reached, has lost the connection, or is locked. Run the same command."""

    id = "RC-database-unavailable"
    usual_advice = "nothing was changed: fix that and run the same command"


class DatabaseRefusedError(RayCommitterError):
    """A database refuses a statement: a permission, a constraint, a value. Nothing is visible."""

    id = "RC-database-refused"
    usual_advice = "nothing was changed: fix that and run the same command"


class TableColumnsError(RayCommitterError):
    """A column does not fit the table of a database. Cast it, or change the table."""

    id = "RC-table-columns"
    usual_advice = "nothing was changed: cast or rename the column, or change the table"


class StagingChangedError(IncompleteJobError):
    """A staging table is gone, or has other rows than its task attempt reported. Give up the job."""

    id = "RC-staging-changed"
    usual_advice = (
        "no row of the job is visible: give up with `abort --undo`, and run the application again"
    )


class ValidationError(RayCommitterError):
    """The files at the destination differ from the manifests."""

    id = "RC-validation-failed"
    promise = DIFFERENT


def some_of(named: Sequence[str], count: int | None = None) -> str:
    """The first of `named`, then the number of those left out; `count` is the total, if known."""
    left = (len(named) if count is None else count) - len(named[:SHOWN])
    return " | ".join([*named[:SHOWN], *([f"and {left} more"] if left else [])])


def failed_request(error: OSError, place: str | None = None) -> str:
    """Return the text about a request that has failed, at the path that it names, or else at `place`."""
    where, what = error.filename or place, error.strerror or str(error) or type(error).__name__
    return what if where is None else f"{mark(str(where))}: {what}"


def why(error: Exception) -> str:
    """Return what an error says, for the text of another one."""
    if isinstance(error, RayCommitterError):
        return "; ".join(error.parts[: len(error.args)])
    if isinstance(error, OSError) and isinstance(error.filename, str):
        return f"{error.strerror}: {mark(error.filename)}"
    return str(error)


def mark(path: str) -> str:
    """Mark a path of the store for a text. What is marked already, or is no absolute path, stays."""
    return f"{_BEGIN}{path}{_END}" if path.startswith("/") else path


def shown(text: str, store: str | None = None) -> str:
    """Return a text for a reader: each path is on the store with this URL, and is not quoted."""
    return _MARKED.sub(lambda marked: f"{store or ''}{marked[1]}", text)
