"""Hadoop's settings of a job, whose values are never shown, and how they are read from the driver's JVM.

They are the job's own: the session's settings when the write begins, with the options of that write. Who
writes through a driver that others share may bring credentials of its own, and set what harms nobody
else. Where credentials go, and which of the driver's are used, only the driver's configuration says.

At level DEBUG, Py4J logs all that it carries, secrets included; this package logs no credential.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec

from ray_committer.errors import SettingsError
from ray_committer.protocol.prepared import prepare

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROVIDER_PATH = "hadoop.security.credential.provider.path"

_S3A = (
    "access.key secret.key session.token requester.pays.enabled encryption.algorithm "
    "server-side-encryption-algorithm"
)
_AZURE = (
    "account.key sas.fixed.token account.oauth2.client.id account.oauth2.client.secret "
    "encryption.context.provider.type encryption.encoded.client-provided-key "
    "client-provided-encryption-key"
)
_GOOGLE = (
    "service.account.email service.account.private.key service.account.private.key.id client.id "
    "client.secret refresh.token"
)
OF_ANY_WRITE = (
    "fs.defaultFS",
    "fs.permissions.umask-mode",
    *(f"fs.s3a.{bucket}{name}" for bucket in ("", "bucket.*.") for name in _S3A.split()),
    *(f"fs.azure.{name}{host}" for host in ("", ".*") for name in _AZURE.split()),
    *(f"{prefix}.auth.{name}" for prefix in ("fs.gs", "google.cloud") for name in _GOOGLE.split()),
    "fs.gs.encryption.key",
    "fs.gs.project.id",
    "fs.gs.requester.pays.*",
)
"""The settings of stores that a session or a write may change: credentials in clear text, and what no
other user of the driver notices. All others are the driver's."""


@dataclass(frozen=True, slots=True)
class HadoopConf:
    """Hadoop's settings of a job; their values are never shown.

    get_password: Hadoop's ``Configuration.getPassword``, which asks credential providers first; None
        without a JVM.
    given: the keys whose values come from the session or the write; all others are the driver's own.
        `SettingsError` if one is read that is not in `OF_ANY_WRITE`.
    """

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    get_password: Callable[[str], str | None] | None = field(default=None, repr=False)
    given: frozenset[str] = frozenset()

    def get(self, *keys: str) -> str | None:
        """Return the value of the first of `keys` that is set and not blank."""
        for key in keys:
            self._require_own(key)
            if value := self.settings.get(key, "").strip():
                return value
        return None

    def is_true(self, *keys: str, default: bool = False) -> bool:
        """Return whether the first of `keys` that is set is true, as Hadoop reads booleans."""
        text = (self.get(*keys) or "").lower()
        return text == "true" if text in ("true", "false") else default

    def secret(self, *keys: str) -> str | None:
        """Return the value of the first of `keys` set in a credential provider or in plain text."""
        if self.get_password is None:
            return self.get(*keys)
        # The path too: a session that names its own provider file would read secrets as the driver.
        self._require_own(PROVIDER_PATH)
        for key in keys:
            self._require_own(key)
            if value := (self.get_password(key) or "").strip():
                return value
        return None

    def required(self, store: str, key: str, *more: str, option: str) -> str:
        """Return the secret of the first key that is set. `SettingsError` if none is set; it names the
        storage option `option` to give instead."""
        value = self.secret(key, *more)
        if value is not None:
            return value
        hint = ""
        if self.get_password is None and self.get(PROVIDER_PATH):
            hint = f" (it may be in {PROVIDER_PATH}, which only a JVM can read)"
        raise refusal(store, key, f"is not set{hint}", option)

    def _require_own(self, key: str) -> None:
        """`SettingsError` if the session or the write has set a key that only the driver may set."""
        # What harms nobody else may come from anyone; where secrets go, only from the driver itself.
        if key not in self.given or any(fnmatchcase(key, allowed) for allowed in OF_ANY_WRITE):
            return
        spark_key = key if key.startswith("spark.") else f"spark.hadoop.{key}"
        raise SettingsError(
            f"{key}: this session or write has set it, but only the driver's own configuration may, "
            f"because it says where credentials or reports go, or which credentials are used; nothing "
            f"was written",
            f"remove it there, or start the driver with --conf {spark_key}=...",
        )


class _Settings(msgspec.Struct, frozen=True):
    conf: dict[str, str]
    given: frozenset[str]


prepare(_Settings)


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
            secret: str | None = lender.password(configuration, key)
        except Py4JJavaError as e:
            reason = str(e.java_exception.getMessage())
            raise SettingsError(f"{PROVIDER_PATH}: {key} cannot be read from there: {reason}") from None
        return secret

    # All settings in one call: one call per key would take longer than a small commit.
    text = gzip.decompress(lender.settings(configuration))
    decoded = msgspec.json.decode(text, type=_Settings)
    return HadoopConf(decoded.conf, password, decoded.given)
