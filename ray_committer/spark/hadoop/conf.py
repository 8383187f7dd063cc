"""Hadoop's settings of a job, whose values are never shown, and how they are read from the driver's JVM.

They are the job's own: the session's settings when the write begins, with the options of that write. At
level DEBUG, Py4J logs all that it carries, secrets included; this package logs no credential.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ray_committer.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVIDER_PATH = "hadoop.security.credential.provider.path"


@dataclass(frozen=True, slots=True)
class HadoopConf:
    """Hadoop's settings of a job; their values are never shown.

    get_password: Hadoop's ``Configuration.getPassword``, which asks credential providers first; None
        without a JVM.
    """

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    get_password: Callable[[str], str | None] | None = field(default=None, repr=False)

    def get(self, *keys: str) -> str | None:
        """Return the value of the first of `keys` that is set and not blank."""
        values = (self.settings.get(key, "").strip() for key in keys)
        return next((value for value in values if value), None)

    def is_true(self, *keys: str, default: bool = False) -> bool:
        """Return whether the first of `keys` that is set is true, as Hadoop reads booleans."""
        text = (self.get(*keys) or "").lower()
        return text == "true" if text in ("true", "false") else default

    def secret(self, *keys: str) -> str | None:
        """Return the value of the first of `keys` set in a credential provider or in plain text."""
        if self.get_password is None:
            return self.get(*keys)
        found = (self.get_password(key) for key in keys)
        return next((value.strip() for value in found if value and value.strip()), None)

    def required(self, store: str, key: str, *more: str, option: str) -> str:
        """Return the secret of the first key that is set.

        `SettingsError` if none is set; it names the storage option `option` to give instead.
        """
        found = self.secret(key, *more)
        if found is not None:
            return found
        hint = ""
        if self.get_password is None and self.get(PROVIDER_PATH):
            hint = f" (it may be in {PROVIDER_PATH}, which only a JVM can read)"
        raise refusal(store, key, f"is not set{hint}", option)


def refusal(store: str, key: str, what: str, option: str) -> SettingsError:
    """Return the error for a Hadoop key that the commit cannot follow."""
    return SettingsError(
        f"{store}: Hadoop's {key} {what}",
        f"give the commit its own credentials or setting: "
        f"storage_options={{{option!r}: ...}} of ray_committer.spark.install",
    )


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
