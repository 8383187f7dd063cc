"""The one value that says what is known of a job at a destination."""

from __future__ import annotations

import pytest

from ray_committer.errors import LinkedPathError
from ray_committer.job_files.job_state import StateChangedError
from ray_committer.job_files.job_status import Committer, JobStatus
from ray_committer.protocol.paths import JobAttempt
from tests.stages.support import JOB

CLOSED = PermissionError("denied")
LINK = LinkedPathError("a symbolic link")
PLACE = JobAttempt("/table", "job_1", 0, JOB.job_directory)


@pytest.mark.parametrize(
    ("status", "is_open", "is_link", "may_hold_an_attempt", "directory"),
    [
        (JobStatus(JOB), True, False, True, JOB.job_directory),
        (JobStatus(JOB, closed=LINK), False, True, False, JOB.job_directory),
        (JobStatus(PLACE, Committer.UNKNOWN), False, False, False, JOB.job_directory),
        (JobStatus(PLACE, Committer.UNKNOWN, closed=CLOSED), False, False, True, JOB.job_directory),
        (JobStatus(PLACE, Committer.UNKNOWN, closed=LINK), False, True, True, JOB.job_directory),
        (JobStatus(JOB.gone("1")), True, False, True, "/table/_temporary/.gone-1"),
    ],
    ids=["an attempt", "a link", "no attempt", "a closed directory", "a linked directory", "gone"],
)
def test_what_a_listing_shows_of_a_job(
    status: JobStatus, is_open: bool, is_link: bool, may_hold_an_attempt: bool, directory: str
):
    assert (status.is_open, status.is_link) == (is_open, is_link)
    assert (status.may_hold_an_attempt, status.directory) == (may_hold_an_attempt, directory)


def test_a_job_without_a_state_is_gone_for_who_needs_the_state():
    with pytest.raises(StateChangedError) as caught:
        _ = JobStatus(JOB).known
    assert caught.value.now is None


def test_who_has_declared_nothing_has_no_claim_that_could_be_taken_for_an_empty_one():
    status = JobStatus(JOB)
    assert not status.has_begun
    with pytest.raises(ValueError, match="has declared nothing"):
        _ = status.claim


@pytest.mark.parametrize("error", [CLOSED, LINK])
def test_a_job_that_was_not_read_is_an_error_for_who_needs_it(error: PermissionError | LinkedPathError):
    with pytest.raises(type(error)):
        JobStatus(PLACE, Committer.UNKNOWN, closed=error).opened()
    assert JobStatus(JOB).opened() == JobStatus(JOB)
