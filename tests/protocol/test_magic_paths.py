"""Where the magic committer of Hadoop puts a job's files, in both layouts."""

from __future__ import annotations

import pytest

from ray_committer.errors import PathError
from ray_committer.protocol.magic_paths import MagicJob, PendingPlace, is_magic

UUID = "0b0c7a4e-7b52-4f2e-9f0a-1c2d3e4f5a6b"
JOB = MagicJob("warehouse", "/table one", UUID)
TASK = "task_202401011200_0007_m_000003"
ATTEMPT = "attempt_202401011200_0007_m_000003_1"
OLD, NEW = JOB.directories


def test_both_layouts_are_below_the_destination() -> None:
    assert f"/table one/__magic/job-{UUID}" == OLD
    assert f"/table one/__magic_job-{UUID}/job-{UUID}" == NEW


@pytest.mark.parametrize(
    ("path", "place"),
    [
        (f"{OLD}/{TASK}.pendingset", PendingPlace(0, task_id=TASK)),
        (f"{NEW}/00/{TASK}.pendingset", PendingPlace(0, task_id=TASK)),
        (f"{NEW}/01/{TASK}.pendingset", PendingPlace(1, task_id=TASK)),
        (f"{OLD}/12/{TASK}.pendingset", PendingPlace(12, task_id=TASK)),
        (f"{OLD}/tasks/{ATTEMPT}/__base/p=1/a.pending", PendingPlace(0, task_attempt_id=ATTEMPT)),
        (f"{NEW}/01/tasks/{ATTEMPT}/__base/a.pending", PendingPlace(1, task_attempt_id=ATTEMPT)),
        (f"{OLD}/tasks/{ATTEMPT}/__base/p=1/a", None),
        (f"{OLD}/tasks/{ATTEMPT}/__base/", None),
        (f"{OLD}/tasks/{ATTEMPT}/a.pending", None),
        (f"{OLD}/tasks/{TASK}.pendingset", None),
        (f"{OLD}/.pendingset", None),
        (f"{OLD}/{TASK}.pending", None),
        (f"{OLD}", None),
        (f"{OLD}-other/{TASK}.pendingset", None),
        (f"/table one/__magic/{TASK}.pendingset", None),
        (f"/table one/{TASK}.pendingset", None),
    ],
)
def test_a_path_says_what_the_file_is(path: str, place: PendingPlace | None) -> None:
    assert JOB.place_of(path) == place


@pytest.mark.parametrize(
    ("destination", "prefix"), [("/", ""), ("/a", "a/"), ("/a/b c", "a/b c/"), ("/a/", "a/")]
)
def test_keys_begin_with_the_destination(destination: str, prefix: str) -> None:
    assert MagicJob("b", destination, UUID).prefix == prefix


@pytest.mark.parametrize("uuid", ["", "..", "a/b", "\0"])
def test_a_job_id_leads_to_no_other_directory(uuid: str) -> None:
    with pytest.raises(PathError, match="job id"):
        MagicJob("b", "/a", uuid)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("__magic/x", True),
        ("p=1/__magic/x", True),
        ("__magic_job-1/x", True),
        ("__magician/x", False),
        ("p=__magic/x", False),
        ("a/b", False),
    ],
)
def test_paths_of_the_committer_itself_are_known(path: str, expected: bool) -> None:
    assert is_magic(path) is expected
