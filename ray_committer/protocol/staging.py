"""Where a task writes a file whose name it chooses: beside the other files for the same directory.

A file for one directory of the output lies in ``tasks/in/$key``, which all tasks of the job share. A
file of the destination itself lies in ``tasks/root/NN``. Its name is final, and the token in it shows
which task attempt wrote it. The Java classes have the same rules; ``tests/data/staging.json`` holds
examples for both.
"""

from __future__ import annotations

import re
from hashlib import sha256

from ray_committer.protocol.paths import JobAttempt, is_inside, join
from ray_committer.protocol.uri import Location, format_uri

_KEY_LENGTH = 32
_MOST = 16**8
_ATTEMPT = re.compile(r"(attempt_.+_[mr]_([0-9]{6,}))_([0-9]+)", re.DOTALL)
"""A task attempt's id in Hadoop's form: the id of the task, then the number of the attempt."""
_TOKEN_IN = re.compile(r"-([0-9a-f]{16})(?=[._-]|\Z)")
_SHARED = re.compile(r"in/[0-9a-f]{32}")
_STAGED = re.compile(rf"{_SHARED.pattern}|root/(?:[0-5][0-9]|6[0-3])")


def key_of(directory: Location, destination: Location) -> str:
    """The name of the staged directory for files that go into `directory`, which is not `destination`:
    never too long, without escapes, and another one for a name in another case."""
    is_same_store = (
        directory.scheme == destination.scheme and directory.authority == destination.authority
    )
    if is_same_store and is_inside(directory.path, destination.path):
        place = directory.path.removeprefix(destination.path).strip("/")
    else:
        place = format_uri(directory)
    # A name that is not UTF-8 is refused where the manifest would name it.
    return sha256(place.encode(errors="surrogatepass")).hexdigest()[:_KEY_LENGTH]


def task_of(task_attempt_id: str) -> str | None:
    """The task of an attempt, as the beginning of its id; None if the id does not say it."""
    match = _ATTEMPT.fullmatch(task_attempt_id)
    return None if match is None else match[1]


def token_of(task_attempt_id: str) -> str | None:
    """The token of an attempt: the numbers of its task and of itself, 8 hex digits each; None if its id
    does not say them. Then it has no staged files."""
    match = _ATTEMPT.fullmatch(task_attempt_id)
    if match is None:
        return None
    task, attempt = int(match[2]), int(match[3])
    return f"{task:08x}{attempt:08x}" if max(task, attempt) < _MOST else None


def numbers_of(token: str) -> tuple[int, int]:
    """The numbers of the task, and of the attempt, that have this token."""
    return int(token[:8], 16), int(token[8:], 16)


def token_in(name: str) -> str | None:
    """The token in the name of a file: the first of several, because formats add to the end of names."""
    match = _TOKEN_IN.search(name)
    return None if match is None else match[1]


def staged_path(job: JobAttempt, place: str, token: str) -> str | None:
    """Where the attempt with this `token` writes the file for `place`, a path inside the destination.
    None if the name of the file has another token, as with some ids of jobs, or none."""
    directory, _, name = place.rpartition("/")
    if token_in(name) != token:
        return None
    if directory == job.destination.rstrip("/"):
        return join(job.staged_root(numbers_of(token)[0]), name)
    key = key_of(Location("", "", directory), Location("", "", job.destination))
    return join(job.staged(key), name)


def is_staged(directory: str, tasks: str) -> bool:
    """Whether task attempts of a job share `directory` below the directory `tasks`."""
    return is_inside(directory, tasks) and _STAGED.fullmatch(directory[len(tasks) + 1 :]) is not None


def is_staged_source(source: str) -> bool:
    """`is_staged` for a directory that is relative to the directory of the tasks."""
    return _STAGED.fullmatch(source) is not None


def is_shared(source: str) -> bool:
    """Whether task attempts share `source`, relative to the directory of the tasks, for the files of one
    directory that is not the destination."""
    return _SHARED.fullmatch(source) is not None
