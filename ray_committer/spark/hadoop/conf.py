"""Hadoop's settings of a job, whose values are never shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ray_committer.errors import SettingsError

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
        f"{store}: Hadoop's {key} {what}; give the commit its own credentials or setting: "
        f"storage_options={{{option!r}: ...}} of ray_committer.spark.install"
    )
