"""The Hadoop configuration that the tasks of a job use, read from the driver's JVM.

Each job has its own: the session's settings when the write begins, with the options of that write. At
level DEBUG, Py4J logs everything it transfers, secrets included. This package logs no credentials.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import msgspec

from ray_committer.errors import SettingsError
from ray_committer.spark.hadoop.conf import PROVIDER_PATH, HadoopConf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_configuration(spark: SparkSession) -> HadoopConf:
    """Return the configuration that a write of this session would use if it began now."""
    state: Any = spark._jsparkSession.sessionState()  # type: ignore[attr-defined,unused-ignore]
    return _read(_lender(spark), state.newHadoopConf())


def job_configuration(spark: SparkSession, job_id: str) -> HadoopConf:
    """Return the configuration of a job, during a call of the JVM for that job."""
    lender = _lender(spark)
    configuration = lender.of(job_id)
    if configuration is None:
        raise SettingsError(f"{job_id}: Spark provides no configuration for this job")
    return _read(lender, configuration)


def _lender(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm.io.raycommitter.JobConfigurations


def _read(lender: Any, configuration: Any) -> HadoopConf:
    def password(key: str) -> str | None:
        from py4j.protocol import Py4JJavaError

        try:
            found: str | None = lender.password(configuration, key)
        except Py4JJavaError as e:
            reason = str(e.java_exception.getMessage())
            raise SettingsError(f"{PROVIDER_PATH}: {key} cannot be read from there: {reason}") from None
        return found

    text = gzip.decompress(lender.settings(configuration))
    settings = msgspec.json.decode(text, type=dict[str, str])
    return HadoopConf(settings, password)
