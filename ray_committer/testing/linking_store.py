"""A local file system whose kernel cannot rename without replacing, as on NFS and many other mounts."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial

from ray_committer.stores.base import StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_renames import link_and_unlink

BETWEEN: ContextVar[Callable[[str], None]] = ContextVar("between", default=lambda _: None)
"""Is called by a `LinkingStore` between the two steps of a rename, with its source."""


class LinkingStore(LocalStore):
    """A `LocalStore` that renames files by a link and an unlink.

    A `WrappedStore` also calls its hooks between these two, for a call ``unlink``.
    """

    def __init__(self, spec: StoreSpec) -> None:
        super().__init__(spec, rename=_rename_in_two_steps)


def _rename_in_two_steps(source: str, dest: str) -> None:
    link_and_unlink(source, dest, between=partial(BETWEEN.get(), source))
