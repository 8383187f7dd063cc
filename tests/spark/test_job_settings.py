"""Which setting of a Spark job wins."""

from __future__ import annotations

import pytest

from ray_committer.errors import SettingsError
from ray_committer.executors.choose import ExecutorName
from ray_committer.spark.job_settings import job_executor
from ray_committer.spark.settings import EXECUTOR_KEY


@pytest.mark.parametrize(
    ("setting", "given", "executor"),
    [
        (None, None, "auto"),
        ("ray", None, "ray"),
        (None, "threads", "threads"),
        ("ray", "threads", "threads"),
        ("ray", "auto", "auto"),  # also the default, if it is given
    ],
)
def test_an_executor_that_is_given_wins(setting: str | None, given: ExecutorName | None, executor: str):
    assert job_executor({EXECUTOR_KEY: setting} if setting else {}, given) == executor


@pytest.mark.parametrize(("setting", "given"), [("rya", None), ("rya", "ray"), (None, "rya")])
def test_an_executor_that_does_not_exist_is_refused(setting: str | None, given):
    with pytest.raises(SettingsError, match=f"{EXECUTOR_KEY}=rya: is not one of auto, "):
        job_executor({EXECUTOR_KEY: setting} if setting else {}, given)
