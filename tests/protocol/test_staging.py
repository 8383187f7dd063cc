"""The names of staged directories and files, by examples that the Java classes also have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ray_committer.protocol.paths import new_job_attempt
from ray_committer.protocol.staging import (
    is_staged,
    key_of,
    numbers_of,
    task_of,
    token_in,
    token_of,
)
from ray_committer.protocol.uri import Location, parse_uri

EXAMPLES = json.loads((Path(__file__).parents[1] / "data" / "staging.json").read_text())
JOB = new_job_attempt("/table", "job_1", 0)
KEY = "0123456789abcdef0123456789abcdef"
NOT_UTF8 = chr(0xDC80)


@pytest.mark.parametrize("example", EXAMPLES["keys"])
def test_a_directory_has_the_key_of_its_place(example: dict[str, str]):
    destination, directory = parse_uri(example["destination"]), parse_uri(example["directory"])
    assert key_of(directory, destination) == example["key"]


def test_places_that_a_file_system_can_take_for_one_have_keys_of_their_own():
    places = [example["place"] for example in EXAMPLES["keys"]]
    assert len({example["key"] for example in EXAMPLES["keys"]}) == len(set(places))


def test_a_name_that_is_not_utf8_has_a_key():
    destination = Location("file", "", "/table")
    assert key_of(Location("file", "", f"/table/p={NOT_UTF8}"), destination)


@pytest.mark.parametrize("example", EXAMPLES["attempts"])
def test_a_task_attempt_has_the_token_of_its_numbers(example: dict[str, str | None]):
    attempt_id = example["task_attempt_id"]
    assert attempt_id is not None
    token = token_of(attempt_id)
    assert token == example["token"]
    assert (JOB.staged_root(numbers_of(token)[0]) if token else None) == (
        f"{JOB.tasks}/root/{example['root']}" if example["root"] else None
    )


def test_a_token_has_the_numbers_of_its_task_and_of_its_attempt():
    token = token_of("attempt_j_m_000019_190")
    assert token is not None
    assert numbers_of(token) == (19, 190)


@pytest.mark.parametrize("example", EXAMPLES["names"])
def test_a_token_is_found_whole_or_not_at_all_and_the_first_one_counts(example: dict[str, str | None]):
    assert token_in(str(example["name"])) == example["token"]


@pytest.mark.parametrize(
    ("task_attempt_id", "task"),
    [
        ("attempt_j_m_000001_0", "attempt_j_m_000001"),
        ("attempt_j_r_1000000_12", "attempt_j_r_1000000"),
        ("attempt_j_m_000001", None),
        ("attempt", None),
    ],
)
def test_an_id_of_hadoops_form_says_which_task_it_belongs_to(task_attempt_id: str, task: str | None):
    assert task_of(task_attempt_id) == task


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        (JOB.staged(KEY), True),
        (JOB.staged_root(63), True),
        (JOB.staged_root(64), True),
        (f"{JOB.tasks}/root/64", False),
        (f"{JOB.tasks}/root/0", False),
        (f"{JOB.tasks}/root", False),
        (f"{JOB.tasks}/in", False),
        (f"{JOB.tasks}/in/{KEY}/p=1", False),
        (f"{JOB.tasks}/in/{KEY.upper()}", False),
        (f"{JOB.tasks}/in/{KEY}0", False),
        (f"{JOB.tasks}/in/attempt_1", False),
        (f"{JOB.tasks}/attempt_1", False),
        (f"{JOB.tasks}x/in/{KEY}", False),
        (JOB.tasks, False),
    ],
)
def test_task_attempts_share_these_directories_and_no_other(directory: str, expected: bool):
    assert is_staged(directory, JOB.tasks) is expected
