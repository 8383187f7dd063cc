"""The judge of processes at a table."""

from __future__ import annotations

import pytest

from ray_committer.testing.harness import put_file
from ray_committer.testing.memory_store import MemoryStore
from tests.machines.operations import Job
from tests.machines.serial_oracle import Ends, not_serial

FIRST, AGAIN = Job("append", {"p=1/a": b"1"}), Job("append 1", {"p=1/b": b"2"}, id="append", number=1)
OTHER = Job("other", {"p=2/c": b"3"})


@pytest.mark.parametrize(
    ("jobs", "is_right"),
    [
        ([FIRST, OTHER], True),
        ([FIRST, AGAIN], False),
        ([FIRST, AGAIN, OTHER], True),  # the other one can have been committed between them
    ],
)
def test_two_attempts_of_a_job_are_committed_only_with_another_between_them(
    jobs: list[Job], is_right: bool
):
    store = MemoryStore()
    for job in jobs:
        for name, data in job.files.items():
            put_file(store, f"/table/{name}", data)
    ends = Ends(dict.fromkeys((job.name for job in jobs), True))
    assert (not_serial(store, "/table", jobs, {}, ends, []) is None) is is_right
