"""Storage options: one that the store does not know is refused by its name, and never ignored."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from ray_committer.errors import SettingsError
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.known import STORES, Kind

_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def with_flags(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options whose flags are true or false and no texts: to a client of Python, the text
    ``"false"`` is true. `SettingsError` for a flag with another value."""
    kinds = STORES[scheme].options if scheme in STORES else {}
    converted = dict(options)
    for name, value in options.items():
        kind = kinds.get(name)
        if (kind is Kind.FLAG and value is not None) or (kind is Kind.FLAG_OR_TEXT and _is_flag(value)):
            converted[name] = is_true(name, value)
    return converted


def is_true(name: str, value: object) -> bool:
    """Return a storage option that is true or false; `SettingsError` for another value."""
    if not _is_flag(value):
        raise SettingsError(f"the storage option {name}: {value!r} is neither true nor false")
    return str(value).strip().lower() in _TRUE


def _is_flag(value: object) -> bool:
    return str(value).strip().lower() in (*_TRUE, *_FALSE)


def refuse_unknown(spec: StoreSpec, shown: str) -> None:
    """`SettingsError` names the first storage option that the store does not know; `shown` is its URL. A
    store of another package knows its own options."""
    for name in spec.storage_options:
        if not is_known(spec.scheme, name):
            known = STORES[spec.scheme].options
            near = difflib.get_close_matches(name, known, n=1)
            listed = f"the storage options here are {', '.join(sorted(known))}"
            raise SettingsError(
                f"{shown}: {name!r} is not a storage option",
                f"did you mean {near[0]}? {listed}" if near else listed,
            )


def options_of(scheme: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options for several stores without those that only another store of this package knows."""
    return {
        name: value
        for name, value in options.items()
        if is_known(scheme, name) or not any(is_known(known_scheme, name) for known_scheme in STORES)
    }


def is_known(scheme: str, name: str) -> bool:
    """Return whether a store knows an option, as far as that can be told here."""
    store = STORES.get(scheme)
    return store is None or name in store.options or (store.is_hadoops and "." in name)
