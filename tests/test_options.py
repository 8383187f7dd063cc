"""Options as text: Spark's settings and the environment, their types, units and errors."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest

from ray_committer import CommitOptions, ConflictMode
from ray_committer.errors import SettingsError

GOOD: list[tuple[str, str, Any]] = [
    ("mark_success", "false", False),
    ("mark_success", "TRUE", True),
    ("validate", "auto", None),
    ("validate", "true", True),
    ("workers", "8", 8),
    ("workers", "auto", None),
    ("worker_cpus", "0.25", 0.25),
    ("max_requests_per_second", "1e3", 1000.0),
    ("max_requests_per_second", "none", None),
    ("retry_seconds", "20", 20.0),
    ("retry_seconds", "2500ms", 2.5),
    ("retry_seconds", "5m", 300.0),
    ("conflict_wait_seconds", "0", 0.0),
    ("retry_seconds", "1 h", 3600.0),
    ("retry_seconds", "2d", 172_800.0),
    ("conflict_wait_seconds", "1.5min", 90.0),
    ("summary_directory", " /reports ", "/reports"),
    ("unfinished", "finish", "finish"),
    ("unfinished", "Supersede", "supersede"),
    ("unfinished", "auto", None),
    ("catalog_table", "db.t", "db.t"),
    ("catalog_table", "None", None),
]

BAD: list[tuple[str, str, str]] = [
    ("mark_success", "yes", "must be true or false"),
    ("workers", "two", "must be a whole number, or auto"),
    ("workers", "0", "must be at least 1"),
    ("threads", "auto", "must be a whole number"),
    ("threads", "1.5", "must be a whole number"),
    ("worker_cpus", "-1", "must be a number"),
    ("worker_cpus", "nan", "must be a number"),
    ("retry_seconds", "5 fortnights", "must be a time such as 10s"),
    ("retry_seconds", "", "must be a time such as 10s"),
    ("max_requests_per_second", "0.5", "must be at least 1"),
    ("unfinished", "undo", "must be finish, supersede or refuse, or auto"),
    ("catalog_table", "a.b.c", "must be a table such as db.table, or none"),
    ("worker_thread", "3", "did you mean worker_threads?"),
    ("retry", "3", "did you mean retry_seconds?"),
    ("zzz", "3", "is not an option; use one of mark_success, cleanup,"),
    ("partition_paths", "p=1", "is specific to each job and is not a setting"),
    ("expected_tasks", "3", "is specific to each job and is not a setting"),
]


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_text_is_read_with_its_unit(name: str, text: str, value: Any):
    expected = CommitOptions(**{name: value})
    assert CommitOptions.from_spark_conf({f"spark.ray_committer.{name}": text}) == expected
    assert CommitOptions.from_env({f"RAY_COMMITTER_{name.upper()}": text}) == expected


@pytest.mark.parametrize(("name", "text", "message"), BAD)
def test_a_bad_name_or_value_is_named_with_what_it_may_be(name: str, text: str, message: str):
    for read, key in (
        (CommitOptions.from_spark_conf, f"spark.ray_committer.{name}"),
        (CommitOptions.from_env, f"RAY_COMMITTER_{name.upper()}"),
    ):
        with pytest.raises(SettingsError, match=message) as caught:
            read({key: text})
        assert str(caught.value).startswith(key)


def test_other_keys_are_left_alone():
    conf = {"spark.ray_committer.commit": "deferred", "spark.executor.cores": "x", "workers": "x"}
    assert CommitOptions.from_spark_conf(conf) == CommitOptions()
    environment = {"RAY_COMMITTER_TEST_SEED": "x", "RAY_COMMITTER_JOB_ID": "x", "PATH": "x"}
    assert CommitOptions.from_env(environment) == CommitOptions()


def test_what_is_silent_keeps_the_defaults_that_are_given():
    defaults = CommitOptions(threads=7, workers=3)
    read = CommitOptions.from_spark_conf({"spark.ray_committer.workers": "auto"}, defaults=defaults)
    assert read == CommitOptions(threads=7)


def test_options_over_others_keep_what_they_say_and_take_the_rest():
    under = CommitOptions(threads=7, workers=3, durable=True)
    assert CommitOptions(workers=5).over(under) == CommitOptions(threads=7, workers=5, durable=True)
    assert CommitOptions().over(under) == under


def test_an_option_that_is_given_as_it_is_by_default_wins():
    under = CommitOptions(threads=7, workers=3, durable=True)
    for given in (
        CommitOptions(threads=32, workers=None),
        CommitOptions().changed(threads=32, workers=None),
        CommitOptions.from_env({"RAY_COMMITTER_THREADS": "32", "RAY_COMMITTER_WORKERS": "auto"}),
        dataclasses.replace(CommitOptions(), workers=None).changed(threads=32, workers=None),
        CommitOptions(threads=32).changed(workers=None),
        dataclasses.replace(CommitOptions(threads=32), workers=None),
        dataclasses.replace(CommitOptions(), threads=32, workers=None),
        CommitOptions(**dataclasses.asdict(CommitOptions(threads=32, workers=None))),
    ):
        sent = pickle.loads(pickle.dumps(given))
        for one in (given, sent, copy.copy(given)):
            assert one == CommitOptions()
            assert one.over(under) == CommitOptions(durable=True)


def test_a_mode_is_also_accepted_by_its_name():
    for mode in ConflictMode:
        named = CommitOptions(mode=mode.value)  # type: ignore[arg-type]
        assert named.mode is mode
        assert dataclasses.replace(CommitOptions(), mode=mode.value).mode is mode
    assert CommitOptions().changed(mode="overwrite").mode is ConflictMode.OVERWRITE
    for wrong in ("replace", None):
        with pytest.raises(ValueError, match=f"mode must be one of append, error.* not {wrong}$"):
            CommitOptions(mode=wrong)  # type: ignore[arg-type]


def test_a_wrong_choice_is_refused_in_python_too():
    with pytest.raises(ValueError, match="must be one of finish, supersede, refuse, not undo"):
        CommitOptions(unfinished="undo")  # type: ignore[arg-type]


def test_options_are_a_plain_dataclass():
    options = CommitOptions(threads=5, mode=ConflictMode.OVERWRITE)
    assert CommitOptions(**dataclasses.asdict(options)) == options
    assert hash(CommitOptions(**dataclasses.asdict(options))) == hash(options)
    names = [one.name for one in dataclasses.fields(CommitOptions)]
    assert names == [*CommitOptions.rows] == [*inspect.signature(CommitOptions).parameters]


def test_an_option_that_was_not_given_is_as_by_default_and_does_not_win():
    assert CommitOptions().threads == CommitOptions.threads == 32
    under = CommitOptions(threads=7, cleanup=False)
    replaced = dataclasses.replace(CommitOptions(cleanup=True), durable=True)
    assert replaced.over(under) == CommitOptions(threads=7, durable=True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("threads", None, "threads must be a whole number"),
        ("expected_tasks", "3", "expected_tasks must be a whole number"),
        ("allowed_roots", None, "allowed_roots must be a directory"),
        ("allowed_roots", b"/data", "allowed_roots=b'/data': must be a tuple"),
    ],
)
def test_a_value_of_another_type_is_refused_by_the_name_of_its_option(
    name: str, value: Any, message: str
):
    with pytest.raises(ValueError, match=message):
        CommitOptions(**{name: value})


def test_a_class_of_a_caller_can_have_more_fields():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Named(CommitOptions):
        label: str = "none"

    named = dataclasses.replace(Named(label="nightly", cleanup=True), threads=3)
    assert (named.label, named.threads, named.over(Named(cleanup=False)).cleanup) == ("nightly", 3, True)
