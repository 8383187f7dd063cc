"""The meaning of Hadoop's committer settings here: honoured, ignored for a reason, or refused.

Source: the code of Hadoop 3.5's manifest committer and FileOutputCommitter, and ParquetOutputCommitter.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ray_committer.errors import SettingsError
from ray_committer.options import CommitOptions
from ray_committer.options.texts import read_truth

MANIFEST = "mapreduce.manifest.committer."
FILE_OUTPUT = "mapreduce.fileoutputcommitter."


class Treatment(StrEnum):
    """What happens to a key that is set."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class HadoopKey:
    """A setting of Hadoop with Hadoop's `default`; `why` explains what it means here. A refused one
    stops a job if it is not the default. Of an honoured one, `read` converts the value for `option`."""

    name: str
    default: str
    treatment: Treatment
    why: str
    option: str | None = None
    read: Callable[[str], Any] = str


def _only_if_true(text: str) -> bool | None:
    return True if read_truth(text) else None


def _threads(text: str) -> int:
    number = int(text)
    return number if number > 0 else CommitOptions().threads


def _honoured(name: str, default: str, option: str, read: Callable[[str], Any], why: str) -> HadoopKey:
    return HadoopKey(name, default, Treatment.HONOURED, why, option, read)


def _ignored(name: str, default: str, why: str) -> HadoopKey:
    return HadoopKey(name, default, Treatment.IGNORED, why)


_NO_SUMMARIES = (
    "`_metadata` and `_common_metadata` are not written: Parquet's committer reads the footers of all "
    "files for them in the driver"
)

HADOOP_KEYS = (
    _honoured(
        f"{FILE_OUTPUT}marksuccessfuljobs",
        "true",
        "mark_success",
        read_truth,
        "`mark_success`: whether `_SUCCESS` is written",
    ),
    _honoured(
        f"{FILE_OUTPUT}cleanup.skipped",
        "false",
        "cleanup",
        lambda text: not read_truth(text),
        "`cleanup`: true keeps the job's directory; concurrent jobs no longer need that",
    ),
    _honoured(
        f"{MANIFEST}io.threads",
        "32",
        "threads",
        _threads,
        "`threads`: parallel operations if the commit runs in this process",
    ),
    _honoured(
        f"{MANIFEST}validate.output",
        "false",
        "validate",
        _only_if_true,
        "`validate`: true always compares all files that were moved one by one before the job is "
        "committed; false compares them "
        "where listings are cheap",
    ),
    _honoured(
        f"{MANIFEST}summary.report.directory",
        "",
        "summary_directory",
        lambda text: text or None,
        "`summary_directory`",
    ),
    HadoopKey(
        f"{MANIFEST}delete.target.files",
        "false",
        Treatment.REFUSED,
        "a rename here never replaces a file that the job does not name; use mode overwrite",
    ),
    _ignored(
        f"{MANIFEST}cleanup.parallel.delete",
        "true",
        "the leftovers of a job are removed in the cheapest way for each store",
    ),
    _ignored(
        f"{MANIFEST}cleanup.parallel.delete.base.first",
        "false",
        "`_temporary` is never deleted as a whole: other jobs may be in it",
    ),
    _ignored(
        f"{MANIFEST}diagnostics.manifest.directory",
        "",
        "manifests are not moved; `cleanup=false` keeps them",
    ),
    _ignored(
        f"{MANIFEST}manifest.save.attempts",
        "5",
        "Hadoop 3.5 does not use it; tasks here have their own retries",
    ),
    _ignored(f"{MANIFEST}writer.queue.capacity", "32", "entries are not queued in the driver"),
    _ignored(
        f"{MANIFEST}store.operations.classname", "", "a Hadoop class; here the URL decides the store"
    ),
    _ignored(f"{MANIFEST}io.rate", "", "not in any Hadoop release; use `max_requests_per_second`"),
    _ignored(f"{MANIFEST}delete.dir.capacity", "", "not in any Hadoop release"),
    _ignored(f"{MANIFEST}cleanup.move.to.trash", "", "not in any Hadoop release"),
    _ignored(
        f"{FILE_OUTPUT}algorithm.version",
        "1",
        "there is one algorithm: nothing is visible before the job's commit, as with 1",
    ),
    _ignored(
        f"{FILE_OUTPUT}cleanup-failures.ignored",
        "false",
        "a failed clean-up never fails a committed job; the report shows it",
    ),
    _ignored(f"{FILE_OUTPUT}failures.attempts", "1", "each request is repeated for `retry_seconds`"),
    _ignored(
        f"{FILE_OUTPUT}task.cleanup.enabled",
        "false",
        "a task's directory is removed with its job's directory",
    ),
    _ignored(
        "mapreduce.outputcommitter.factory.class",
        "",
        "Spark's `spark.sql.sources.commitProtocolClass` chooses this committer",
    ),
    _ignored("parquet.summary.metadata.level", "NONE", _NO_SUMMARIES),
    _ignored("parquet.enable.summary-metadata", "false", _NO_SUMMARIES),
)
"""Each setting of Hadoop's committers, and of Parquet's, and what happens to it."""

_BY_NAME = {key.name: key for key in HADOOP_KEYS}


def hadoop_options(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of `CommitOptions` that Hadoop's settings ask for. `SettingsError` if a setting
    is refused or its value is not valid."""
    options: dict[str, Any] = {}
    for key, text in _set_otherwise(settings):
        if key.treatment is Treatment.REFUSED:
            raise SettingsError(f"{key.name}={text}: is refused: {key.why}")
        if key.option is None:
            continue
        try:
            options[key.option] = key.read(text)
        except (ValueError, KeyError):
            raise SettingsError(f"{key.name}={text}: is not a value that Hadoop accepts") from None
    return options


def ignored_keys(settings: Mapping[str, str]) -> list[str]:
    """Return a sentence for each setting that is set but ignored."""
    known = [
        f"{key.name}={text}: is ignored: {key.why}"
        for key, text in _set_otherwise(settings)
        if key.treatment is Treatment.IGNORED
    ]
    return known + [
        f"{name}: is ignored: it is not a setting of Hadoop's manifest committer{_near(name)}"
        for name in sorted(settings)
        if name.startswith(MANIFEST) and name not in _BY_NAME
    ]


def _set_otherwise(settings: Mapping[str, str]) -> Iterator[tuple[HadoopKey, str]]:
    """Yield each key whose value is not Hadoop's default, and the value."""
    for key in HADOOP_KEYS:
        text = settings.get(key.name, key.default).strip()
        # Hadoop's defaults come with every configuration, so only another value was set by somebody.
        if text.lower() != key.default.lower():
            yield key, text


def _near(name: str) -> str:
    near = difflib.get_close_matches(name, _BY_NAME, n=1)
    return f"; did you mean {near[0]}?" if near else ""
