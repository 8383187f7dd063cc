"""Settings of real sessions: which write they count for, who wins, and which store they lead to."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

import ray_committer
from ray_committer import CommitOptions, Outcome
from ray_committer.errors import SettingsError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.spark import install, spark_conf, uninstall
from ray_committer.spark.hadoop.conf import PROVIDER_PATH, HadoopConf, session_configuration
from ray_committer.spark.hadoop.keys import FILE_OUTPUT, MANIFEST, hadoop_options, ignored_keys
from ray_committer.spark.hadoop.stores import storage_options
from ray_committer.spark.handler import CommitHandler
from ray_committer.spark.job_settings import HandlerSettings
from ray_committer.spark.settings import MODE_KEY, SESSION_KEY
from ray_committer.stores.registry import open_store, resolve_destination
from ray_committer.version import PROTOCOL_KEY
from tests.integration.spark.conftest import data_files
from tests.integration.spark.tasks import set_up

pytestmark = [
    pytest.mark.one_spark,
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(180),
]

OURS = "spark.ray_committer."


@contextmanager
def session_settings(spark: SparkSession, **settings: str) -> Iterator[None]:
    """Set keys, of which ``__`` stands for a dot, for the block."""
    names = {key.replace("__", "."): value for key, value in settings.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


@contextmanager
def hadoop_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[HadoopConf]:
    """Set keys in the session's Hadoop configuration, as a ``core-site.xml`` would."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in settings.items():
        conf.set(name, value)
    try:
        yield session_configuration(spark)
    finally:
        for name in settings:
            conf.unset(name)


def test_a_fresh_session_asks_for_nothing_and_nothing_is_said_of_it(spark, installation):
    settings = session_configuration(spark).settings
    assert "fs.defaultFS" in settings
    assert hadoop_options(settings) == {}
    assert ignored_keys(settings) == []


def test_what_is_set_between_two_writes_counts_for_the_second(
    spark: SparkSession, installation, rows: DataFrame, tmp_path: Path
):
    key = f"{OURS}mark_success".replace(".", "__")
    rows.write.parquet(str(tmp_path / "one"))
    with session_settings(spark, **{key: "false"}):
        rows.write.parquet(str(tmp_path / "two"))
    rows.write.parquet(str(tmp_path / "three"))
    marked = [(tmp_path / name / "_SUCCESS").exists() for name in ("one", "two", "three")]
    assert marked == [True, False, True]


def test_an_option_of_one_write_counts_for_that_write_alone(
    spark, installation, rows: DataFrame, tmp_path: Path
):
    rows.write.option(f"{FILE_OUTPUT}cleanup.skipped", "true").csv(str(tmp_path / "kept"))
    rows.write.csv(str(tmp_path / "gone"))
    assert list((tmp_path / "kept" / "_temporary").rglob("committed.*.state"))
    assert not (tmp_path / "gone" / "_temporary").exists()


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_one_write_can_use_sparks_own_committer(
    spark, installation, rows: DataFrame, tmp_path: Path, mode: str
):
    dest = tmp_path / "t"
    rows.write.partitionBy("p").parquet(str(dest))
    commits, times = installation.handler.commits, 2 if mode == "append" else 1
    own = rows.write.mode(mode).option(MODE_KEY, "spark").partitionBy("p")
    own.parquet(str(dest))
    assert installation.handler.commits == commits
    assert (dest / "_SUCCESS").read_bytes() == b""
    assert not (dest / "_temporary").exists()
    assert spark.read.parquet(str(dest)).count() == 600 * times
    rows.write.mode("append").partitionBy("p").parquet(str(dest))
    assert installation.handler.commits == commits + 1
    assert (dest / "_SUCCESS").read_bytes() != b""


def test_a_write_that_asks_for_parquets_summaries_is_told_once_that_there_are_none(
    spark, installation, rows: DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    for number in range(2):
        dest = tmp_path / str(number)
        rows.write.option("parquet.summary.metadata.level", "ALL").parquet(str(dest))
        assert not (dest / "_metadata").exists()
    assert caplog.text.count("parquet.summary.metadata.level=ALL: is ignored: ") == 1


def test_hadoops_checksums_are_not_beside_the_data_and_readers_do_without(
    spark, installation, rows: DataFrame, tmp_path: Path
):
    dest = tmp_path / "t"
    rows.write.option(MODE_KEY, "spark").parquet(str(dest))
    assert list(dest.glob(".part-*.crc"))
    rows.write.mode("overwrite").parquet(str(dest))
    assert list(dest.rglob("*.crc")) == []
    assert len(data_files(dest)) == 3
    assert spark.read.parquet(str(dest)).count() == 600


def bound(spark: SparkSession, to: SparkSession) -> SparkSession:
    """Another session, whose writes are committed as those of `spark`, where nobody called install."""
    for key in (PROTOCOL_KEY, MODE_KEY):
        to.conf.set(key, spark.conf.get(key))
    return to


def test_each_session_of_a_driver_has_its_own_settings(
    spark: SparkSession, installation, rows: DataFrame, tmp_path: Path
):
    other = bound(spark, spark.newSession())
    other.conf.set(f"{OURS}mark_success", "false")
    other.range(5).write.parquet(str(tmp_path / "other"))
    rows.write.parquet(str(tmp_path / "own"))
    assert not (tmp_path / "other" / "_SUCCESS").exists()
    assert (tmp_path / "own" / "_SUCCESS").exists()
    assert data_files(tmp_path / "other")


def test_each_session_of_a_driver_is_committed_with_what_its_own_install_was_given(
    spark: SparkSession, installation, rows: DataFrame, tmp_path: Path
):
    other = spark.newSession()
    second = install(other, storage_options={"account_key": "b3RoZXI="})
    clone = SparkSession(
        spark.sparkContext, spark._jsparkSession.cloneSession()
    )  # as of a stream's batch
    third = bound(spark, spark.newSession())
    try:
        rows.write.parquet(str(tmp_path / "first"))
        clone.range(5).write.parquet(str(tmp_path / "clone"))
        assert (installation.handler.commits, second.handler.commits) == (2, 0)
        for session in (other, third):  # the last install serves who has none
            session.range(5).write.parquet(str(tmp_path / f"{id(session)}"))
        assert (installation.handler.commits, second.handler.commits) == (2, 2)
    finally:
        uninstall(other)
    for session in (spark, third):
        session.range(5).write.mode("append").parquet(str(tmp_path / "first"))
    assert (installation.handler.commits, second.handler.commits) == (4, 2)
    assert other.conf.get(MODE_KEY, None) is None


def test_a_job_is_never_committed_with_what_the_install_of_another_session_was_given(
    spark: SparkSession, installation, dest: Path
):
    other = spark.newSession()
    second = install(other)
    token = {SESSION_KEY: second.token}
    job = set_up(spark, dest, token)
    begun = job.task()
    begun.begin_file("p=1").write_text("x")
    uninstall(other)
    with pytest.raises(Py4JJavaError, match="no commit handler is installed in this driver"):
        set_up(spark, dest, token)
    job.abort()
    (left,) = ray_committer.list_jobs(str(dest))
    assert (left.state, installation.handler.commits) == ("running", 0)


def test_a_session_that_is_found_again_is_the_same(spark: SparkSession, installation, tmp_path: Path):
    again = install(SparkSession(spark.sparkContext, spark._jsparkSession))
    spark.range(5).write.parquet(str(tmp_path / "t"))
    assert (installation.handler.commits, again.handler.commits) == (0, 1)
    assert again.previous == installation.previous


def test_hadoops_summary_directory_is_honoured_as_a_url(
    spark, installation, rows: DataFrame, tmp_path: Path
):
    with hadoop_settings(spark, {f"{MANIFEST}summary.report.directory": (tmp_path / "r").as_uri()}):
        rows.write.parquet(str(tmp_path / "t"))
    assert [path.name[:8] for path in (tmp_path / "r").glob("*.json")] == ["summary-"]


def test_given_options_win_over_the_drivers(spark, rows: DataFrame, tmp_path: Path):
    summary = str(tmp_path / "given")
    keys = {f"{OURS}summary_directory": str(tmp_path / "conf"), f"{OURS}mark_success": "false"}
    with hadoop_settings(spark, keys):
        install(spark, options=CommitOptions(summary_directory=summary))
        try:
            rows.write.parquet(str(tmp_path / "t"))
        finally:
            uninstall(spark)
    assert len(list((tmp_path / "given").glob("summary-*.json"))) == 1
    assert not (tmp_path / "conf").exists()
    assert not (tmp_path / "t" / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (f"{OURS}worker_thread", "3", "did you mean worker_threads"),
        (f"{OURS}retry_seconds", "soon", "must be a time such as 10s"),
        (f"{MANIFEST}delete.target.files", "true", "is refused: a rename here never replaces"),
    ],
)
def test_a_bad_setting_stops_the_write_before_its_tasks_and_install_too(
    spark: SparkSession, rows: DataFrame, tmp_path: Path, key: str, value: str, message: str
):
    installation = install(spark)
    try:
        spark.conf.set(key, value)
        with pytest.raises(Exception, match=message):
            rows.write.parquet(str(tmp_path / "t"))
        assert isinstance(installation.last_error, SettingsError)
        assert not data_files(tmp_path)
        with pytest.raises(SettingsError, match=message):
            install(spark)
    finally:
        spark.conf.unset(key)
        uninstall(spark)


def test_an_ignored_setting_is_said_once_with_its_reason(
    spark, installation, rows: DataFrame, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with hadoop_settings(spark, {f"{FILE_OUTPUT}algorithm.version": "2"}):
        rows.write.parquet(str(tmp_path / "one"))
        rows.write.parquet(str(tmp_path / "two"))
    said = [text for text in caplog.messages if "algorithm.version=2: is ignored: there is one" in text]
    assert len(said) == 1


def test_the_builders_settings_download_nothing_and_name_the_stores():
    own = spark_conf()
    assert own == spark_conf(store="file") == spark_conf(store="hdfs") == spark_conf(store="abfs")
    assert set(spark_conf(store="gs")) - set(own) == {
        "spark.hadoop.fs.gs.impl",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl",
    }
    assert "spark.jars.packages" not in spark_conf(store="gs")
    magic = {"spark.hadoop.fs.s3a.committer.magic.enabled": "true"}
    assert spark_conf(store="s3") == own | magic
    with pytest.raises(SettingsError, match="must be one of file, hdfs, gs, abfs, s3"):
        spark_conf(store="oss")


def make_jceks(spark: SparkSession, path: Path, alias: str, secret: str) -> str:
    """A credential store of Hadoop's with one entry; its provider path."""
    jvm, url = spark._jvm, f"jceks://file{path}"
    conf = jvm.org.apache.hadoop.conf.Configuration(False)
    conf.set(PROVIDER_PATH, url)
    provider = jvm.org.apache.hadoop.security.alias.CredentialProviderFactory.getProviders(conf).get(0)
    characters = spark.sparkContext._gateway.new_array(jvm.char, len(secret))
    for index, character in enumerate(secret):
        characters[index] = character
    provider.createCredentialEntry(alias, characters)
    provider.flush()
    return url


LAKE_KEY = "fs.azure.account.key.acc.dfs.core.windows.net"


def test_a_credential_provider_is_read_by_hadoop_itself(spark, installation, tmp_path: Path):
    url = make_jceks(spark, tmp_path / "keys.jceks", LAKE_KEY, "a2V5IG9mIGpjZWtz")
    lake = "abfss://lake@acc.dfs.core.windows.net/t"
    with hadoop_settings(spark, {PROVIDER_PATH: url, LAKE_KEY: "Y2xlYXI="}) as conf:
        umask = {"fs.permissions.umask-mode": "022"}
        assert storage_options(lake, conf) == {"account_key": "a2V5IG9mIGpjZWtz", **umask}
    (tmp_path / "broken.jceks").write_bytes(b"no key store")
    broken = {PROVIDER_PATH: f"jceks://file{tmp_path}/broken.jceks"}
    with hadoop_settings(spark, broken) as conf, pytest.raises(SettingsError, match="cannot be read"):
        storage_options(lake, conf)


def commit_by_handler(handler: CommitHandler, dest: str, options: dict[str, Any]) -> None:
    """A job as Spark's driver commits it, whose task is written by Python: no connector is here."""
    request = {"jobId": "job_1", "jobAttempt": 0, "dest": dest, "commit": "ray"}
    request |= {"dynamicPartitionOverwrite": False}
    assert json.loads(handler.setupJob(json.dumps(request))).keys() == {"stamp"}, handler.last_error
    spec, path = resolve_destination(dest, options)
    store = open_store(spec)
    with ray_committer.task_attempt(dest, "job_1", 0, storage_options=options) as attempt:
        store.mkdirs(attempt.directory)
        store.write(f"{attempt.directory}/part-0", b"data")
    manifest = new_job_attempt(path, "job_1", 0).manifest("task_1_m_000000")
    data = store.read(manifest)
    task = {
        "manifest": manifest.rpartition("/")[2],
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "taskAttemptId": "attempt_1_m_000000_0",
    }
    assert json.loads(handler.commitJob(json.dumps(request | {"tasks": [task]}))) == {}, (
        handler.last_error
    )
    assert store.read(f"{path}/part-0") == b"data"


def handler_of(spark: SparkSession, executor: str = "threads") -> CommitHandler:
    settings = HandlerSettings(
        executor=executor,  # type: ignore[arg-type]
        configuration=lambda _: session_configuration(spark),
    )
    return CommitHandler(settings)


def shown_everywhere(handler: CommitHandler, caplog: pytest.LogCaptureFixture, *more: Any) -> str:
    """All that this package and its libraries log at any level, Py4J's own trace apart, and reprs."""
    logged = [
        caplog.handler.format(record) for record in caplog.records if not record.name.startswith("py4j")
    ]
    assert logged
    things = (handler, handler._settings, handler.last_error, handler.last_report, *more)
    return "\n".join([*logged, *map(repr, things), *map(str, things)])


def test_gs_is_reached_with_hadoops_settings_alone(
    spark, installation, caplog: pytest.LogCaptureFixture
):
    pytest.importorskip("pycurl")
    from tests.servers.gcs import GcsServer

    server = GcsServer().start()
    try:
        bucket = server.new_bucket()
        settings = {"fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.storage.root.url": server.proxy.url}
        with hadoop_settings(spark, settings):
            handler = handler_of(spark)
            commit_by_handler(handler, f"gs://{bucket}/warehouse/t", server.storage_options)
    finally:
        server.stop()
    assert handler.last_report is not None
    assert handler.last_report.outcome is Outcome.COMMITTED


def test_abfs_is_reached_with_the_key_in_hadoops_settings_alone_and_it_is_never_shown(
    spark, installation, caplog: pytest.LogCaptureFixture
):
    pytest.importorskip("adlfs")
    from tests.servers.dfs import ACCOUNT, KEY, DfsServer
    from tests.servers.dfs_tree import Tree

    caplog.set_level(logging.DEBUG)
    server = DfsServer()
    server.start()
    server.containers["lake"] = Tree()
    host = f"{ACCOUNT}.dfs.core.windows.net"
    settings = {
        f"fs.azure.account.key.{host}": KEY,
        "fs.azure.account.key": "d3Jvbmc=",
        "fs.azure.abfs.endpoint": f"127.0.0.1:{server.port}",
        "fs.azure.always.use.https": "false",
    }
    dest = f"abfs://lake@{host}/warehouse/t"
    try:
        with hadoop_settings(spark, settings) as conf:
            handler = handler_of(spark)
            commit_by_handler(handler, dest, {"connection_string": server.connection_string()})
            shown = shown_everywhere(handler, caplog, conf, installation)
            assert handler.last_report.outcome is Outcome.COMMITTED
        with hadoop_settings(spark, settings | {f"fs.azure.account.key.{host}": "d3Jvbmc="}) as conf:
            answer = handler.setupJob(json.dumps({**_SETUP, "dest": dest}))
            assert "AuthenticationFailed" in answer
            shown += answer + shown_everywhere(handler, caplog, conf)
    finally:
        server.stop()
    assert KEY not in shown
    assert "d3Jvbmc=" not in shown


_SETUP = {"jobId": "2", "jobAttempt": 0, "commit": "ray", "dynamicPartitionOverwrite": False}


def test_a_write_to_a_store_that_cannot_be_mapped_names_the_key_and_no_secret(
    spark, installation, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    settings = {
        "fs.azure.account.auth.type": "OAuth",
        "fs.azure.account.oauth.provider.type": "com.example.OwnTokens",
        "fs.azure.account.oauth2.client.secret": "pssst-0123",
        LAKE_KEY: "cHNzc3Q=",
    }
    dest = "abfss://lake@acc.dfs.core.windows.net/t"
    with hadoop_settings(spark, settings) as conf:
        handler = handler_of(spark)
        answer = handler.setupJob(json.dumps({**_SETUP, "dest": dest}))
        shown = answer + shown_everywhere(handler, caplog, conf)
    assert "fs.azure.account.oauth.provider.type names com.example.OwnTokens" in answer
    assert "'credential'" in answer
    assert "pssst-0123" not in shown
    assert "cHNzc3Q=" not in shown
