"""The spark-defaults files: this package's own code takes each of them, and finds its store in it."""

from __future__ import annotations

import pytest

from ray_committer import CommitOptions
from ray_committer.spark.hadoop.conf import HadoopConf
from ray_committer.spark.hadoop.keys import ignored_keys
from ray_committer.spark.hadoop.stores import qualify, storage_options
from ray_committer.spark.job_settings import job_executor, job_options
from ray_committer.spark.settings import store_settings
from ray_committer.stores.adls.identity import AzureIdentity
from ray_committer.stores.registry import resolve_destination
from ray_committer.version import PROTOCOL_CLASS, PROTOCOL_KEY
from tests.cluster_configs.spark_defaults import DIRECTORY, settings_of

IDENTITY = AzureIdentity("ManagedIdentityCredential", {"client_id": f"{0:08}-0000-0000-0000-{0:012}"})
STORES = {
    "file": ("file:///shared/warehouse/table", "file", {}),
    "hdfs": ("/warehouse/table", "hdfs", {}),
    "gs": ("gs://my-bucket/warehouse/table", "gs", {"token": "cloud"}),
    "abfss": (
        "abfss://data@myaccount.dfs.core.windows.net/warehouse/table",
        "abfs",
        {"credential": IDENTITY},
    ),
    "s3a": ("s3a://my-bucket/warehouse/table", "s3", {"region": "eu-west-1"}),
}


@pytest.mark.parametrize("store", STORES)
def test_the_file_binds_sessions_to_this_package_and_leads_to_its_store(store: str):
    settings = settings_of(DIRECTORY / f"raydp-{store}.conf")
    assert settings[PROTOCOL_KEY] == PROTOCOL_CLASS
    assert settings["spark.jars"].endswith("/ray_committer/spark/jars/ray-committer.jar")
    job_executor(settings)
    job_options(HadoopConf(settings), CommitOptions())  # refuses a setting that does not exist
    destination, scheme, options = STORES[store]
    assert settings.items() >= store_settings(scheme).items()  # which tasks need
    conf = {key.removeprefix("spark.hadoop."): value for key, value in settings.items()}
    assert list(ignored_keys(conf)) == []
    url = qualify(destination, HadoopConf(conf))
    found = storage_options(url, HadoopConf(conf))
    assert found == options
    assert resolve_destination(url, found)[0].scheme == scheme


def test_there_is_no_other_file():
    assert {path.name for path in DIRECTORY.iterdir()} == {f"raydp-{store}.conf" for store in STORES}
