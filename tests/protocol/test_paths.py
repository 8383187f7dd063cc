"""Names of a job's files, and small path functions, as tables."""

from __future__ import annotations

import pytest

from ray_committer.protocol.paths import (
    JobAttempt,
    ancestors,
    attempt_number,
    is_inside,
    is_within,
    job_id_of_directory,
    join,
    new_job_attempt,
    parent,
)

JOB = new_job_attempt("/warehouse/t", "job_202401011200_0007", 3)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (JOB.directory, "/warehouse/t/_temporary/job_202401011200_0007/03"),
        (JOB.job_directory, "/warehouse/t/_temporary/job_202401011200_0007"),
        (JOB.temporary, "/warehouse/t/_temporary"),
        (JOB.manifests, f"{JOB.directory}/manifests"),
        (JOB.tasks, f"{JOB.directory}/tasks"),
        (JOB.success, "/warehouse/t/_SUCCESS"),
        (JOB.task_attempt("attempt_1"), f"{JOB.directory}/tasks/attempt_1"),
        (JOB.manifest("task_1"), f"{JOB.directory}/manifests/task_1-manifest.json"),
        (JOB.manifest_temporary("attempt_1"), f"{JOB.directory}/manifests/attempt_1-manifest.json.tmp"),
    ],
)
def test_names_are_those_of_hadoop(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (JOB.state, f"{JOB.directory}/state"),
        (JOB.content("n"), f"{JOB.directory}/state/n.json"),
        (JOB.heartbeat, f"{JOB.directory}/state/heartbeat.json"),
        (JOB.frozen, f"{JOB.directory}/frozen"),
        (JOB.gone("n").directory, "/warehouse/t/_temporary/.gone-n"),
        (JOB.gone("n").state, "/warehouse/t/_temporary/.gone-n/state"),
    ],
)
def test_names_that_hadoop_does_not_have_are_beside_its_own(path: str, expected: str) -> None:
    assert path == expected


def test_what_was_taken_away_is_the_same_attempt_under_a_name_that_is_no_jobs() -> None:
    gone = JOB.gone("n")
    assert (gone.destination, gone.job_id, gone.number) == (JOB.destination, JOB.job_id, JOB.number)
    assert attempt_number(gone.directory.rpartition("/")[2]) is None


@pytest.mark.parametrize(("number", "name"), [(0, "00"), (7, "07"), (42, "42"), (123, "123")])
def test_attempt_directories_have_two_digits(number: int, name: str) -> None:
    assert new_job_attempt("/d", "j", number).directory == f"/d/_temporary/j/{name}"
    assert attempt_number(name) == number


@pytest.mark.parametrize(
    "name", ["", "manifests", "-1", "+1", "1.0", "0x1", "1 ", "²", "٣", "_temporary"]
)
def test_other_directories_are_no_attempts(name: str) -> None:
    assert attempt_number(name) is None


def test_attempt_directories_without_padding_are_attempts() -> None:
    assert attempt_number("0") == 0


@pytest.mark.parametrize(
    ("directory", "job_id"),
    [("job_1_0001", "job_1_0001"), ("manifest_job_1_0001", "job_1_0001"), ("manifest_7f0b", "7f0b")],
)
def test_both_spellings_of_a_job_directory_name_the_job(directory: str, job_id: str) -> None:
    assert job_id_of_directory(directory) == job_id


def test_a_job_at_the_root_has_single_slashes() -> None:
    assert new_job_attempt("/", "j", 0).directory == "/_temporary/j/00"
    assert JobAttempt("/", "j", 0, "/_temporary/j/00").success == "/_SUCCESS"


@pytest.mark.parametrize(
    ("path", "directory", "inside"),
    [
        ("/a/b", "/a", True),
        ("/a/b/c", "/a", True),
        ("/a", "/a", False),
        ("/ab", "/a", False),
        ("/a b", "/a", False),
        ("/a", "/a/b", False),
        ("/a", "/", True),
        ("/", "/", False),
    ],
)
def test_inside_is_strictly_below(path: str, directory: str, inside: bool) -> None:
    assert is_inside(path, directory) is inside


@pytest.mark.parametrize(
    ("path", "directories", "is_there"),
    [
        ("/a", {"/a"}, True),
        ("/a/b", {"/a"}, True),
        ("/a/b/c/d", {"/x", "/a/b"}, True),
        ("/ab", {"/a"}, False),
        ("/a", {"/a/b"}, False),
        ("/a", {"/"}, True),
        ("/", {"/"}, True),
        ("/", {"/a"}, False),
        ("/a", set(), False),
    ],
)
def test_within_some_directories_is_one_of_them_or_below_one(
    path: str, directories: set[str], is_there: bool
) -> None:
    assert is_within(path, directories) is is_there


@pytest.mark.parametrize(("path", "above"), [("/a/b", "/a"), ("/a", "/"), ("/", "/")])
def test_parent_table(path: str, above: str) -> None:
    assert parent(path) == above


@pytest.mark.parametrize(
    ("path", "root", "expected"),
    [
        ("/d/a/b/c", "/d", ["/d/a/b", "/d/a"]),
        ("/d/a", "/d", []),
        ("/d", "/d", []),
        ("/a/b/c", "/", ["/a/b", "/a"]),
        ("/other/x", "/d", []),
    ],
)
def test_ancestors_are_strictly_between(path: str, root: str, expected: list[str]) -> None:
    assert ancestors(path, root) == expected


@pytest.mark.parametrize(
    ("parts", "path"),
    [(("/d", "a"), "/d/a"), (("/d/", "a", "b"), "/d/a/b"), (("/", "a"), "/a"), (("/d",), "/d")],
)
def test_join_table(parts: tuple[str, ...], path: str) -> None:
    assert join(*parts) == path
