"""What is wrong with a spark-defaults file: each setting is read by this package's own code.

A setting in a comment (``# spark.key value``) is one that may be taken over, so it is looked at, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ray_committer.errors import RayCommitterError, SettingsError
from ray_committer.jar import PROTOCOL_CLASS, PROTOCOL_KEY
from ray_committer.options import JOBS_PREFIX, SPARK_PREFIX, CommitOptions
from ray_committer.spark.hadoop import keys as hadoop_keys
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.hadoop.stores import qualify, storage_options
from ray_committer.spark.job_settings import job_executor, job_options
from ray_committer.spark.settings import store_settings
from tests.cluster_configs.pins import ROOT

HADOOP_PREFIX = "spark.hadoop."
DESTINATIONS = {
    "file": "file:///shared/warehouse/table",
    "hdfs": "/warehouse/table",
    "gs": "gs://my-bucket/warehouse/table",
    "abfss": "abfss://data@myaccount.dfs.core.windows.net/warehouse/table",
    "s3a": "s3a://my-bucket/warehouse/table",
}
FOR_TASKS = re.compile(
    r"dfs\.client\.failover\.proxy\.provider\.\w+|fs\.azure\.account\.oauth2\.msi\.tenant"
    r"|fs\.s3a\.aws\.credentials\.provider"
)
"""Settings of Hadoop's clients alone: the commit's have another way, or need none."""

_JAVA = ROOT / "ray_committer" / "spark" / "java" / "src" / "io" / "raycommitter" / "Settings.java"
_JOBS = set(re.findall(rf'PREFIX \+ "({JOBS_PREFIX}\w+)"', _JAVA.read_text()))
_SECRET = re.compile(re.findall(r'Pattern\.compile\("([^"]+)"\)', _JAVA.read_text())[0])
_LINE = re.compile(r"(# )?(spark\.[^\s=:]+)\s*[\s=:]\s*(.*)")


@dataclass(frozen=True, slots=True)
class SparkDefaults:
    """A file: for which `driver` (raydp, jvm) and `store`, what is set and what may be."""

    driver: str
    store: str
    settings: Mapping[str, str]
    suggested: Mapping[str, str]


def read(path: Path, text: str | None = None) -> SparkDefaults:
    """Read a file whose name says for whom it is; with `text` in place of its own."""
    lines = (path.read_text() if text is None else text).splitlines()
    found = [match.groups() for match in map(_LINE.fullmatch, map(str.strip, lines)) if match]
    driver, _, store = path.stem.partition("-")
    return SparkDefaults(
        driver,
        store,
        {key: value for comment, key, value in found if not comment},
        {key: value for comment, key, value in found if comment},
    )


def problems(defaults: SparkDefaults) -> list[str]:
    """A sentence for each setting that is unknown, wrong, or changes nothing."""
    both = {**defaults.settings, **defaults.suggested}
    found = {}
    for settings in (defaults.settings, both):
        for problem in _problems(defaults, settings):
            found[problem] = None
    return list(found)


def _problems(defaults: SparkDefaults, settings: Mapping[str, str]) -> Iterator[str]:
    yield from _others(defaults, settings)
    yield from _ours(defaults, settings)
    conf = job_settings(settings)
    try:
        _effect(defaults.store, conf)
    except RayCommitterError as e:
        yield str(e)
        return
    yield from _without_effect(defaults.store, conf)
    yield from _lost_on_the_way(defaults, conf)
    yield from hadoop_keys.ignored_keys(conf)


def job_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """A job's configuration: Spark takes off ``spark.hadoop.`` and leaves the rest."""
    return {key.removeprefix(HADOOP_PREFIX): value for key, value in settings.items()}


def _others(defaults: SparkDefaults, settings: Mapping[str, str]) -> Iterator[str]:
    """Spark's own settings: the two that load the committer, and nothing that we cannot vouch for."""
    for key in settings:
        if key not in ("spark.jars", PROTOCOL_KEY) and not key.startswith((SPARK_PREFIX, HADOOP_PREFIX)):
            yield f"{key}: is no setting of this package"
    if settings.get(PROTOCOL_KEY) != PROTOCOL_CLASS:
        yield f"{PROTOCOL_KEY}: is not {PROTOCOL_CLASS}"
    if not settings.get("spark.jars", "").endswith("/ray_committer/spark/jars/ray-committer.jar"):
        yield "spark.jars: does not name the jar of this package"
    for key, value in _for_tasks(defaults.store).items():
        if settings.get(key) != value:
            yield f"{key}: is not {value}, which tasks need"


def _for_tasks(store: str) -> dict[str, str]:
    name: Any = {"abfss": "abfs", "s3a": "s3"}.get(store, store)
    return store_settings(name)


def _ours(defaults: SparkDefaults, settings: Mapping[str, str]) -> Iterator[str]:
    try:
        job_executor(settings)
        job_options(settings, CommitOptions())
    except SettingsError as e:
        yield str(e)
    names = {key.removeprefix(SPARK_PREFIX): key for key in settings if key.startswith(SPARK_PREFIX)}
    for name, key in names.items():
        if name.startswith(JOBS_PREFIX) and name not in _JOBS:
            yield f"{key}: is none of {', '.join(sorted(_JOBS))}"
        if name.startswith(JOBS_PREFIX) and defaults.driver != "jvm":
            yield f"{key}: is for drivers without Python"
    if f"{JOBS_PREFIX}token" in names:
        yield "spark.ray_committer.jobs.token: is a secret, which does not belong in a file for many"
    if defaults.driver == "jvm":
        yield from _handover(settings)


def _handover(settings: Mapping[str, str]) -> Iterator[str]:
    address = settings.get(f"{SPARK_PREFIX}jobs.address", "")
    if not re.fullmatch(r"https?://[\w.-]+(:\d+)?", address):
        yield f"{SPARK_PREFIX}jobs.address={address}: is no address of a dashboard"
    if not settings.get(f"{SPARK_PREFIX}jobs.unreachable_seconds", "60").isdigit():
        yield f"{SPARK_PREFIX}jobs.unreachable_seconds: is no number of seconds"
    try:
        msgspec.json.decode(settings.get(f"{SPARK_PREFIX}jobs.runtime_env", "{}"), type=dict)
    except msgspec.DecodeError as e:
        yield f"{SPARK_PREFIX}jobs.runtime_env: is no JSON object: {e}"


def _effect(store: str, conf: Mapping[str, str]) -> tuple[object, ...]:
    """All that a job's configuration means for its commit, but for where that runs."""
    destination = DESTINATIONS[store]
    url = qualify(destination, HadoopConf(conf))
    return url, storage_options(destination, HadoopConf(conf)), hadoop_keys.hadoop_options(conf)


def _without_effect(store: str, conf: Mapping[str, str]) -> Iterator[str]:
    """Hadoop's settings without which a commit would be the same: misspelt ones above all."""
    needless = job_settings(_for_tasks(store))
    for key in conf:
        if key.startswith("spark.") or key in needless or FOR_TASKS.fullmatch(key):
            continue
        try:
            same = _effect(store, {name: conf[name] for name in conf if name != key}) == _effect(
                store, conf
            )
        except RayCommitterError:
            continue
        if same:
            yield f"{HADOOP_PREFIX}{key}: means nothing to a commit to {DESTINATIONS[store]}"


def _lost_on_the_way(defaults: SparkDefaults, conf: Mapping[str, str]) -> Iterator[str]:
    """What a Ray job would not be told: the jar keeps all that may be secret to itself."""
    if defaults.driver != "jvm":
        return
    told = {
        key: value for key, value in conf.items() if not _SECRET.search(key.removeprefix(SPARK_PREFIX))
    }
    try:
        same = _effect(defaults.store, told) == _effect(defaults.store, conf)
    except RayCommitterError as e:
        yield f"a Ray job lacks settings that may be secret: {e}"
        return
    if not same:
        yield "a Ray job lacks settings that may be secret, so it would be someone else than the tasks"
