"""The spark-defaults files: this package's own code reads each setting, and a wrong copy is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from ray_committer.cli.main import main
from ray_committer.doctor_checks.lines import Verdict
from ray_committer.doctor_checks.spark_lines import examine_spark
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.hadoop.stores import qualify, storage_options
from ray_committer.stores.adls.identity import AzureIdentity
from ray_committer.stores.registry import resolve_destination
from ray_committer.version import __version__
from tests.cluster_configs.pins import CONFIGS, wrong_pins
from tests.cluster_configs.spark_defaults import DESTINATIONS, job_settings, problems, read

DIRECTORY = CONFIGS / "spark-defaults"
FILES = sorted(path.name for path in DIRECTORY.glob("*.conf"))


def test_there_is_a_file_for_each_store_and_each_kind_of_driver():
    assert (
        sorted(f"{driver}-{store}.conf" for driver in ("raydp", "jvm") for store in DESTINATIONS)
        == FILES
    )


@pytest.mark.parametrize("name", FILES)
def test_every_setting_is_known_and_means_something_to_a_commit(name: str):
    defaults = read(DIRECTORY / name)
    assert problems(defaults) == []
    assert list(wrong_pins((DIRECTORY / name).read_text())) == []


@pytest.mark.parametrize("name", FILES)
def test_the_file_leads_to_its_store(name: str):
    defaults = read(DIRECTORY / name)
    conf = HadoopConf(job_settings(defaults.settings))
    url = qualify(DESTINATIONS[defaults.store], conf)
    options = storage_options(url, conf)
    spec, _ = resolve_destination(url, options)
    assert spec.scheme == {"abfss": "abfs", "s3a": "s3"}.get(defaults.store, defaults.store)
    expected = {
        "gs": {"token": "cloud"},
        "s3a": {"region": "eu-west-1"},
        "abfss": {
            "credential": AzureIdentity(
                "ManagedIdentityCredential", {"client_id": f"{0:08}-0000-0000-0000-{0:012}"}
            )
        },
    }
    assert options == expected.get(defaults.store, {})


def test_two_namenodes_are_what_the_comments_of_hdfs_give():
    defaults = read(DIRECTORY / "jvm-hdfs.conf")
    conf = HadoopConf(job_settings({**defaults.settings, **defaults.suggested}))
    options = storage_options("/t", conf)
    assert qualify("/t", conf) == "hdfs://analytics/t"
    assert options["dfs.ha.namenodes.analytics"] == "nn1,nn2"
    assert options["dfs.namenode.rpc-address.analytics.nn2"] == "namenode2:8020"


@pytest.mark.parametrize("name", FILES)
def test_the_doctor_says_that_every_session_is_bound_to_this_package(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("pyspark")
    shutil.copy(DIRECTORY / name, tmp_path / "spark-defaults.conf")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    (line,) = [line for line in examine_spark() if line.name == "committer"]
    assert line.verdict is Verdict.OK
    assert (
        line.measured
        == f"{tmp_path}/spark-defaults.conf: every session of this Spark uses ray_committer"
    )


def test_the_doctors_command_reads_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pyspark")
    shutil.copy(DIRECTORY / "raydp-file.conf", tmp_path / "spark-defaults.conf")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    result = CliRunner().invoke(main, ["doctor", str(tmp_path / "table"), "--executor", "threads"])
    assert result.exit_code == 0, result.output
    assert "every session of this Spark uses ray_committer" in result.output


OAUTH = "spark.hadoop.fs.azure.account"
WRONG = [
    (
        "raydp-file.conf",
        "executor                 auto",
        "executor    rae",
        "executor=rae: is not one of auto",
    ),
    ("raydp-file.conf", "ray_committer.threads", "ray_committer.thread", "did you mean threads?"),
    ("raydp-file.conf", "threads                  32", "threads  many", "threads=many: must be a whole"),
    (
        "raydp-file.conf",
        "durable                true",
        "durable   maybe",
        "durable=maybe: must be true or",
    ),
    (
        "raydp-file.conf",
        "umask-mode",
        "umaskmode",
        "fs.permissions.umaskmode: means nothing to a commit",
    ),
    (
        "raydp-gs.conf",
        "worker_start_seconds     60s",
        "worker_start_seconds soon",
        "=soon: must be a time",
    ),
    ("raydp-gs.conf", "workers                  auto", "workers 0", "workers=0: must be at least 1"),
    (
        "raydp-gs.conf",
        "io.raycommitter.RayCommitProtocol",
        "io.raycommiter.R",
        "commitProtocolClass: is not",
    ),
    (
        "raydp-gs.conf",
        "sources.commitProtocolClass",
        "source.commitProtocolClass",
        "is no setting of this",
    ),
    ("raydp-gs.conf", "ray-committer.jar", "ray-commiter.jar", "spark.jars: does not name the jar"),
    (
        "raydp-gs.conf",
        "COMPUTE_ENGINE",
        "COMPUTER_ENGINE",
        "fs.gs.auth.type=COMPUTER_ENGINE is a login method",
    ),
    ("raydp-gs.conf", "fs.gs.auth.type", "fs.gs.auth.typ", "fs.gs.auth.typ: means nothing to a commit"),
    ("raydp-gs.conf", "fs.gs.impl", "fs.gs.imp", "spark.hadoop.fs.gs.impl: is not com.google"),
    (
        "raydp-s3a.conf",
        "com.amazonaws.auth.Default",
        "com.amazonaws.auth.MyDefault",
        "which Python cannot call",
    ),
    ("raydp-s3a.conf", "endpoint.region", "endpoint.regions", "endpoint.regions: means nothing"),
    ("jvm-s3a.conf", "magic.enabled  true", "magic.enabled  false", "is not true, which tasks need"),
    ("raydp-abfss.conf", "MsiTokenProvider", "MSITokenProvider", "which Python cannot call"),
    (
        "raydp-abfss.conf",
        "account.oauth2.client.id",
        "account.oauth.client.id",
        "means nothing to a commit",
    ),
    (
        "raydp-abfss.conf",
        "account.auth.type",
        "acount.auth.type",
        "fs.azure.acount.auth.type: means noth",
    ),
    (
        "raydp-hdfs.conf",
        "spark.hadoop.fs.defaultFS  ",
        "spark.hadoop.fs.defautFS ",
        "fs.defautFS: means nothi",
    ),
    (
        "raydp-hdfs.conf",
        "dfs.nameservices",
        "dfs.nameservice",
        "dfs.nameservice: means nothing to a commit",
    ),
    ("raydp-hdfs.conf", "rpc-address", "rpcaddress", "rpcaddress.analytics.nn1: means nothing"),
    ("jvm-gs.conf", "jobs.address", "jobs.adress", "jobs.adress: is none of jobs.address"),
    (
        "jvm-gs.conf",
        "http://ray-committer-head-svc:8265",
        "ray://head:10001",
        "is no address of a dashboard",
    ),
    ("jvm-gs.conf", "unreachable_seconds 120", "unreachable_seconds 2m", "is no number of seconds"),
    ("jvm-gs.conf", '{"pip"', "{pip", "jobs.runtime_env: is no JSON object"),
]


@pytest.mark.parametrize(("name", "right", "wrong", "message"), WRONG)
def test_a_wrong_copy_is_refused_and_the_reason_names_it(
    name: str, right: str, wrong: str, message: str
):
    text = (DIRECTORY / name).read_text()
    assert right in text
    found = problems(read(DIRECTORY / name, text.replace(right, wrong)))
    assert any(message in problem for problem in found), found


ADDED = [
    (
        "raydp-gs.conf",
        "spark.ray_committer.jobs.address http://head:8265",
        "is for drivers without Python",
    ),
    (
        "raydp-gs.conf",
        "spark.executor.memory 4g",
        "spark.executor.memory: is no setting of this package",
    ),
    ("raydp-gs.conf", "spark.hadoop.fs.azure.account.key c2VjcmV0", "account.key: means nothing"),
    ("raydp-gs.conf", "spark.hadoop.mapreduce.manifest.committer.io.thread 4", "did you mean"),
    (
        "raydp-gs.conf",
        "spark.hadoop.mapreduce.manifest.committer.delete.target.files true",
        "is refused: a rename here never replaces",
    ),
    ("jvm-gs.conf", "spark.ray_committer.jobs.token abc", "is a secret"),
    ("jvm-abfss.conf", f"{OAUTH}.auth.type SharedKey\n{OAUTH}.key c2VjcmV0", "a Ray job lacks settings"),
    (
        "jvm-gs.conf",
        "spark.hadoop.fs.gs.auth.type SERVICE_ACCOUNT_JSON_KEYFILE\n"
        "spark.hadoop.fs.gs.auth.service.account.json.keyfile /key.json",
        "a Ray job lacks settings that may be secret: gs://my-bucket",
    ),
]


@pytest.mark.parametrize(("name", "line", "message"), ADDED)
def test_a_copy_with_a_setting_that_leads_astray_is_refused(name: str, line: str, message: str):
    text = (DIRECTORY / name).read_text()
    found = problems(read(DIRECTORY / name, f"{text}{line}\n"))
    assert any(message in problem for problem in found), found


def test_a_copy_of_another_version_is_refused():
    text = (DIRECTORY / "jvm-gs.conf").read_text().replace(f"[gcs]=={__version__}", "[gcs]==0.0.9")
    assert list(wrong_pins(text)) == [f"ray-committer[gcs]==0.0.9: is not version {__version__}"]
