"""Hadoop's committer settings: each is honoured, ignored with a reason or refused, as the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ray_committer import CommitOptions
from ray_committer.errors import SettingsError
from ray_committer.options import SPARK_ALONE
from ray_committer.options.settings import SPARK_PREFIX, Where
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.hadoop.keys import (
    FILE_OUTPUT,
    HADOOP_KEYS,
    MANIFEST,
    Treatment,
    hadoop_options,
    ignored_keys,
)
from ray_committer.spark.job_settings import job_options

PAGE = Path(__file__).parents[3] / "docs" / "spark_settings.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without the two lines above its body."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_page_says_of_each_setting_of_the_driver_that_only_the_driver_may_set_it():
    of_driver = {
        key
        for cells in rows("Who may set what")
        if cells[1].startswith("the driver")
        for key in re.findall(r"`([^`]+)`", cells[0])
    }
    ours = [*CommitOptions.settable(Where.DRIVER).values(), *SPARK_ALONE]
    assert {row.spark_key for row in ours if row.where & Where.DRIVER} == {
        key for key in of_driver if key.startswith(SPARK_PREFIX)
    }


@pytest.mark.parametrize(
    ("keys", "who"), [row[:2] for row in rows("Who may set what") if "`session_token`" not in row[0]]
)
def test_the_page_and_the_code_agree_on_who_may_set_a_setting_of_a_store(keys: str, who: str):
    names = re.findall(r"`((?:fs|dfs|hadoop)\.[^`]+)`", keys)
    of_one = [name.replace("fs.s3a.", "fs.s3a.bucket.my.bucket.") for name in names]
    of_one += [f"{name}.acc.dfs.core.windows.net" for name in names if name.startswith("fs.azure.")]
    for name in {*names, *of_one}:
        conf = HadoopConf({name: "x"}, given=frozenset({name}))
        assert HadoopConf({name: "x"}).get(name) == "x"
        if who == "each session and write":
            assert conf.get(name) == "x"
        else:
            with pytest.raises(
                SettingsError, match=f"^{re.escape(name)}: this session or write has set it"
            ):
                conf.get(name)


def test_every_key_of_the_manifest_committer_is_there():
    ours = {key.name.removeprefix(MANIFEST) for key in HADOOP_KEYS if key.name.startswith(MANIFEST)}
    assert ours >= {
        "cleanup.parallel.delete",
        "cleanup.parallel.delete.base.first",
        "delete.target.files",
        "diagnostics.manifest.directory",
        "io.threads",
        "manifest.save.attempts",
        "store.operations.classname",
        "summary.report.directory",
        "validate.output",
        "writer.queue.capacity",
    }


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (f"{FILE_OUTPUT}marksuccessfuljobs", "false", {"mark_success": False}),
        (f"{FILE_OUTPUT}cleanup.skipped", "true", {"cleanup": False}),
        (f"{MANIFEST}io.threads", "4", {"threads": 4}),
        (f"{MANIFEST}io.threads", "-1", {"threads": 32}),
        (f"{MANIFEST}validate.output", "true", {"validate": True}),
        (f"{MANIFEST}validate.output", "false", {}),
        (f"{MANIFEST}summary.report.directory", "/r", {"summary_directory": "/r"}),
        (f"{MANIFEST}delete.target.files", "false", {}),
        (f"{FILE_OUTPUT}algorithm.version", "2", {}),
    ],
)
def test_a_honoured_key_gives_its_option(name: str, text: str, expected: dict[str, Any]):
    assert hadoop_options({name: text}) == expected


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (f"{MANIFEST}delete.target.files", "true", "is refused: a rename here never replaces"),
        (f"{MANIFEST}validate.output", "maybe", "is not a value that Hadoop accepts"),
        (f"{MANIFEST}io.threads", "many", "is not a value that Hadoop accepts"),
    ],
)
def test_a_refused_key_or_value_is_named(name: str, text: str, message: str):
    with pytest.raises(SettingsError, match=message) as caught:
        hadoop_options({name: text})
    assert str(caught.value).startswith(f"{name}={text}: ")


@pytest.mark.parametrize("written", [str, str.lower, str.upper])
def test_hadoops_own_defaults_are_no_news(written: Callable[[str], str]):
    defaults = {key.name: written(key.default) for key in HADOOP_KEYS}
    assert hadoop_options(defaults) == {}
    assert ignored_keys(defaults) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("summary.metadata.level", "ALL"),
        ("summary.metadata.level", "COMMON_ONLY"),
        ("enable.summary-metadata", "true"),
    ],
)
def test_a_write_that_asks_for_parquets_summaries_is_told_that_there_are_none(name: str, text: str):
    (said,) = ignored_keys({f"parquet.{name}": text})
    assert said.startswith(f"parquet.{name}={text}: is ignored: `_metadata` and `_common_metadata` are")


def test_what_is_ignored_is_said_with_its_reason():
    said = ignored_keys(
        {
            f"{FILE_OUTPUT}algorithm.version": "2",
            f"{MANIFEST}io.thread": "7",
            f"{MANIFEST}io.threads": "7",
        }
    )
    assert said == [
        f"{FILE_OUTPUT}algorithm.version=2: is ignored: there is one algorithm: nothing is visible "
        "before the job's commit, as with 1",
        f"{MANIFEST}io.thread: is ignored: it is not a setting of Hadoop's manifest committer; did "
        f"you mean {MANIFEST}io.threads?",
    ]


def test_every_treatment_has_its_reason():
    for key in HADOOP_KEYS:
        assert key.why
        assert (key.option is not None) == (key.treatment is Treatment.HONOURED)
        assert re.fullmatch(r"(mapreduce|parquet)\.[a-z.\-]+", key.name)


def test_given_options_come_before_sparks_and_those_before_hadoops():
    settings = HadoopConf(
        {
            f"{MANIFEST}io.threads": "4",
            f"{FILE_OUTPUT}marksuccessfuljobs": "false",
            "spark.ray_committer.threads": "5",
            "spark.ray_committer.retry_seconds": "1m",
        }
    )
    assert job_options(settings, CommitOptions()) == CommitOptions(
        threads=5, mark_success=False, retry_seconds=60.0
    )
    assert job_options(settings, CommitOptions(threads=6)).threads == 6
    assert job_options(settings, CommitOptions(threads=32)).threads == 32  # as by default, but given
    assert not job_options(settings, CommitOptions(mark_success=True)).mark_success
