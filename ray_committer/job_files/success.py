"""Read a destination's ``_SUCCESS``: which job it says was committed last."""

from __future__ import annotations

from ray_committer.errors import ManifestError
from ray_committer.protocol.paths import JobAttempt, join
from ray_committer.protocol.success import ATTEMPT, SuccessData, decode_success
from ray_committer.stores.base import StoreOperations


def read_success(store: StoreOperations, destination: str) -> SuccessData | None:
    """The destination's ``_SUCCESS``, or None if there is none or only the classic empty one."""
    path = join(destination, "_SUCCESS")
    try:
        return decode_success(store.read(path), path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def success_if_told(store: StoreOperations, destination: str) -> SuccessData | None:
    """`read_success`, but None for one that cannot be read, since it is then another program's."""
    try:
        return read_success(store, destination)
    except (ManifestError, PermissionError, IsADirectoryError):
        return None


def is_noted(store: StoreOperations, job: JobAttempt) -> bool:
    """Whether the destination's ``_SUCCESS`` is of this attempt, or of its job and names no attempt."""
    success = success_if_told(store, job.destination)
    if success is None or success.job_id != job.job_id:
        return False
    return attempt_of(success, job.number) == job.number


def attempt_of(success: SuccessData, otherwise: int) -> int:
    """The attempt number in a ``_SUCCESS``; `otherwise` if it has none, as Hadoop's has not."""
    number = (success.diagnostics or {}).get(ATTEMPT, "")
    return int(number) if number.isdecimal() else otherwise
