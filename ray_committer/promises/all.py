"""All promises of a store, in the order of the doctor's lines."""

from __future__ import annotations

from ray_committer.promises import directories, files, renames, states, uploads
from ray_committer.promises.promise import COMPLETES_UPLOADS, RENAMES, Promise
from ray_committer.stores.base import StoreOperations

PROMISES = (
    *renames.PROMISES,
    *uploads.PROMISES,
    *states.PROMISES,
    *files.PROMISES,
    *directories.PROMISES,
)


def promises_of(store: StoreOperations) -> list[Promise]:
    """Return the promises that concern a store: about renames or about uploads, and all others."""
    return [promise for promise in PROMISES if promise.unmet(store) not in (RENAMES, COMPLETES_UPLOADS)]
