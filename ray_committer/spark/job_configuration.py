"""The Hadoop configuration that the tasks of a job use, read from the driver's JVM.

It is the job's own: what the session says when the write begins, with the options of that write. At
level DEBUG Py4J logs all that it carries, secrets included; no credential is logged by this package.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import msgspec

from ray_committer.errors import SettingsError
from ray_committer.spark.hadoop_conf import PROVIDER_PATH, HadoopConf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_configuration(spark: SparkSession) -> HadoopConf:
    """What a write of this session would use if it began now."""
    state: Any = spark._jsparkSession.sessionState()  # type: ignore[attr-defined,unused-ignore]
    return _read(_lender(spark), state.newHadoopConf())


def job_configuration(spark: SparkSession, job_id: str) -> HadoopConf:
    """What the job uses of which the JVM calls us now."""
    lender = _lender(spark)
    configuration = lender.of(job_id)
    if configuration is None:
        raise SettingsError(f"{job_id}: Spark lends no configuration of this job")
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
            raise SettingsError(f"{PROVIDER_PATH}: {key} cannot be read from it: {reason}") from None
        return found

    text = gzip.decompress(lender.settings(configuration))
    settings = msgspec.json.decode(text, type=dict[str, str])
    return HadoopConf(settings, password)
