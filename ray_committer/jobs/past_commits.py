"""The commits of a destination that are over, as ``_SUCCESS``, summary reports and a table's log say.

``_SUCCESS`` is about the last commit only. Each commit writes a summary report if its options name a
directory for them. The log of a table names every commit, but not those that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial

from ray_committer.errors import ManifestError, PathError, RayCommitterError
from ray_committer.job_files.success import attempt_of
from ray_committer.jobs.open_job import StorageOptions, open_here, require_destination
from ray_committer.options import CommitOptions
from ray_committer.protocol import statistic_names as names
from ray_committer.protocol.iostatistics import IOStatistics
from ray_committer.protocol.paths import SUCCESS, is_inside, join
from ray_committer.protocol.success import (
    DESTINATION,
    RUN_ID,
    TABLE_VERSION,
    SuccessData,
    decode_success,
    is_committed,
)
from ray_committer.protocol.table_paths import TablePlaces
from ray_committer.protocol.table_state import ClaimCommitted
from ray_committer.protocol.uri import parse_uri
from ray_committer.stores.at_once import at_once
from ray_committer.stores.base import FileStatus, StoreOperations, StoreSpec
from ray_committer.stores.registry import (
    destination_url,
    is_on_store,
    is_url,
    resolve_destination,
    shown_url,
)
from ray_committer.tables.changes import committed_since
from ray_committer.tables.log import find_head, read_definition

_ENTRIES = 3
"""How many entries of a log a job usually has: its claim, its commit, and the end of its removals."""
_LAST_MILLISECONDS = 253_402_300_799_999
"""The end of the year 9999; a later time, or one before 1970, is none."""


@dataclass(frozen=True, slots=True)
class PastCommit:
    """One commit that is over; what the files do not say is None.

    source: the file that says it, as a URL or a local path; None if only the log of the table does.
    seconds: how long the commit took.
    succeeded: whether the job is committed; None if its commit, which failed, did not know that.
    stage, error: where a commit that failed stopped, and why; the job can be committed in spite of it.
    problem: why the file could not be read; then only its time, `at_milliseconds`, is known.
    """

    source: str | None = None
    at_milliseconds: int | None = None
    job_id: str | None = None
    job_attempt: int | None = None
    succeeded: bool | None = None
    files: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    committer: str | None = None
    hostname: str | None = None
    table_version: int | None = None
    run_id: str | None = None
    stage: str | None = None
    error: str | None = None
    problem: str | None = None


def past_commits(
    dest: str,
    *,
    limit: int = 20,
    options: CommitOptions = CommitOptions(),
    storage_options: StorageOptions | None = None,
) -> list[PastCommit]:
    """Return the last `limit` commits of a destination, the newest first.

    Summary reports are looked for in `options.summary_directory`: one listing, and one read per report
    until there are enough of them. Reports of other destinations, and those that name none, are passed
    over. A file that cannot be read is a `PastCommit` with a `problem`. If it is the log of a
    table, that is the first.
    """
    with open_here(dest, options, storage_options) as (store, destination):
        require_destination(store, destination)
        unread: list[PastCommit] = []
        try:
            logged = commits_in_log(store, destination, limit)
        except RayCommitterError as e:
            source = shown_url(store.spec, TablePlaces(destination).directory)
            logged, unread = [], [PastCommit(source, problem=e.what)]
        last = commit_of_success(store, destination)
        reports = list(_reports(store.spec, destination, limit, options))
        commits = _merged([*reports, *([last] if last else [])], logged)
    commits.sort(key=lambda commit: commit.at_milliseconds or 0, reverse=True)
    return [*unread, *commits][:limit]


def last_commit(
    store: StoreOperations, destination: str, success: FileStatus | None, *, is_table: bool
) -> PastCommit | None:
    """Return the last commit: the one in the log of a table or, without a log, what `success` says, the
    destination's ``_SUCCESS``. Errors as `read_entries`."""
    noted = commit_of_success(store, destination, success) if success is not None else None
    logged = commits_in_log(store, destination, 1)[-1:] if is_table else []
    return _merged([noted] if noted else [], logged)[0] if noted or logged else None


def commit_of_success(
    store: StoreOperations, destination: str, status: FileStatus | None = None
) -> PastCommit | None:
    """Return what ``_SUCCESS`` says; None if there is none. `status` is the file's, if it is known."""
    path = join(destination, SUCCESS)
    noted = PastCommit(shown_url(store.spec, path), status.modified_milliseconds if status else None)
    try:
        data = decode_success(store.read(path), path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ManifestError, PermissionError, IsADirectoryError) as e:
        return replace(noted, problem=_why(e, path))
    if data is None:
        return replace(noted, succeeded=True, committer="a classic committer")
    return _commit_of(data, noted)


def _commit_of(data: SuccessData, noted: PastCommit) -> PastCommit:
    statistics, more = data.iostatistics or IOStatistics(), data.diagnostics or {}
    version, attempt = more.get(TABLE_VERSION, ""), attempt_of(data, -1)
    error = more.get("exception")
    return replace(
        noted,
        at_milliseconds=data.timestamp
        if 0 <= data.timestamp <= _LAST_MILLISECONDS
        else noted.at_milliseconds,
        job_id=data.job_id,
        job_attempt=attempt if attempt >= 0 else None,
        succeeded=is_committed(data),
        files=statistics.counters.get(names.FILES_COMMITTED),
        bytes=statistics.counters.get(names.BYTES_COMMITTED),
        seconds=_seconds(statistics),
        committer=(data.committer or "").rpartition(".")[2] or None,
        hostname=data.hostname,
        table_version=int(version) if version.isdecimal() else None,
        run_id=more.get(RUN_ID),
        stage=None if data.success else more.get("stage") or data.stage,
        error=error.strip().partition("\n")[0] if error else None,
    )


def _seconds(statistics: IOStatistics) -> float | None:
    """How long the whole commit took; a ``_SUCCESS`` is written before that is known."""
    for suffix in ("", ".failures"):
        mean = statistics.meanstatistics.get(f"{names.COMMIT_JOB}{suffix}.mean")
        if mean is not None and mean.samples:
            return mean.sum / 1000
    return None


def _reports(
    spec: StoreSpec, destination: str, limit: int, options: CommitOptions
) -> Iterator[PastCommit]:
    """The newest reports of the destination, and the files among them that cannot be read."""
    if options.summary_directory is None:
        return
    is_about = partial(_is_about, spec, destination)
    with open_here(*_located(options.summary_directory, spec, options)) as (store, path):
        try:
            listed = store.list_status(path)
        except FileNotFoundError:
            return
        files = [file for file in listed if fnmatchcase(file.name, "summary-*.json")]
        files.sort(key=lambda file: file.modified_milliseconds or 0, reverse=True)
        left = limit
        for start in range(0, len(files), limit):
            part = files[start : start + limit]
            read = at_once(store, lambda file: _report(store, file, is_about), part)
            about_destination = [commit for commit in read if commit is not None]
            yield from about_destination
            left -= len(about_destination)
            if left <= 0:
                return


def _located(
    directory: str, spec: StoreSpec, options: CommitOptions
) -> tuple[str, CommitOptions, StorageOptions | None]:
    """How to open the directory, as commits do: a path is on the store of the destination, and only
    another store of the same kind gets the same storage options."""
    if not is_url(directory):
        is_local = spec.scheme == "file"
        url = directory if is_local else destination_url(spec, f"/{directory.lstrip('/')}")
        return url, options, spec.storage_options
    is_alike = resolve_destination(directory)[0].scheme == spec.scheme
    return directory, options, spec.storage_options if is_alike else None


def _report(
    store: StoreOperations, status: FileStatus, is_about: Callable[[SuccessData], bool]
) -> PastCommit | None:
    noted = PastCommit(shown_url(store.spec, status.path), status.modified_milliseconds)
    try:
        data = decode_success(store.read(status.path), status.path)
    except FileNotFoundError:
        return None
    except (RayCommitterError, OSError) as e:
        return replace(noted, problem=_why(e, status.path))
    if data is None:
        return replace(noted, problem="is empty")
    return _commit_of(data, noted) if is_about(data) else None


def _is_about(spec: StoreSpec, destination: str, data: SuccessData) -> bool:
    """Whether a report is about the destination: it names that or, as Hadoop's, some of its files."""
    named = (data.diagnostics or {}).get(DESTINATION)
    if named is not None or not data.filenames:
        return named == shown_url(spec, destination)
    try:
        file = parse_uri(data.filenames[0])
    except PathError:
        return False
    return is_on_store(file, spec.scheme, spec.authority) and is_inside(file.path, destination)


def _why(error: Exception, path: str) -> str:
    """What is wrong with the file at `path`, without that path."""
    text = error.what if isinstance(error, RayCommitterError) else getattr(error, "strerror", None)
    return (text or str(error)).removeprefix(f"{path}: ")


def commits_in_log(store: StoreOperations, destination: str, limit: int) -> list[PastCommit]:
    """Return the last commits in the log of a table, at least `limit` of them if there are so many:
    about three reads per job; one read if there is no log."""
    table = TablePlaces(destination)
    definition = read_definition(store, table)
    if definition is None:
        return []
    head = find_head(store, table)
    span = _ENTRIES * limit
    while True:
        since = max(0, head - span)
        committed = committed_since(store, table, definition.table_id, since)
        if len(committed) >= limit or since == 0:
            return [_logged(commit) for commit in committed]
        # Beside many aborted jobs there are fewer commits: twice as far back at each try.
        span *= 2


def _logged(commit: ClaimCommitted) -> PastCommit:
    return PastCommit(
        at_milliseconds=commit.at_milliseconds,
        job_id=commit.claim.job_id,
        job_attempt=commit.claim.job_attempt,
        succeeded=True,
        files=commit.claim.files.files,
        bytes=commit.claim.files.bytes,
        table_version=commit.version,
        run_id=commit.claim.run_id,
    )


def _merged(files: Sequence[PastCommit], logged: Sequence[PastCommit]) -> list[PastCommit]:
    """Each commit once, with what all of them say; a file goes with the last commit of its job."""
    merged = list(logged)
    for commit in files:
        numbers = [number for number, known in enumerate(merged) if _is_same(commit, known)]
        # The last one of that id: an id can be used again, and the file is about its latest job.
        if numbers:
            known = merged[numbers[-1]]
            missing = [name for name in PastCommit.__slots__ if getattr(known, name) is None]
            more = {name: getattr(commit, name) for name in missing}
            merged[numbers[-1]] = replace(known, **more)
        else:
            merged.append(commit)
    return merged


def _is_same(commit: PastCommit, other_commit: PastCommit) -> bool:
    """Whether `other` is about the same commit. Without a log it is a report, which is written after
    ``_SUCCESS``: one from before that is of an earlier job with the same id."""
    is_job = (commit.job_id, commit.job_attempt) == (other_commit.job_id, other_commit.job_attempt)
    is_logged = commit.table_version is not None or other_commit.table_version is not None
    in_order = is_logged or (commit.at_milliseconds or 0) <= (other_commit.at_milliseconds or 0)
    return bool(commit.job_id and commit.succeeded and other_commit.succeeded) and is_job and in_order
