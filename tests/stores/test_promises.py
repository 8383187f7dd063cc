"""The promises of a store: honest stores keep them, and the contract catches each lie."""

from __future__ import annotations

import pytest

from ray_committer.stores.base import StoreOperations
from ray_committer.stores.promises.all import PROMISES
from ray_committer.stores.promises.promise import BrokenPromiseError, Promise
from ray_committer.testing import StoreContract
from tests.stores.lies.all import LIES
from tests.stores.lies.lie import Lie

NAMES = [promise.name for promise in PROMISES]


def is_kept(store: StoreOperations, promise: Promise) -> bool:
    """Whether the test of the contract passes or is skipped."""
    store.mkdirs("/root")
    try:
        StoreContract().test_the_store_keeps_its_promise(store, "/root", promise)
    except (BrokenPromiseError, OSError):
        return False
    except pytest.skip.Exception:
        return True
    return True


@pytest.mark.parametrize("lie", LIES, ids=str)
def test_a_store_that_lies_fails_the_contract_in_the_promises_that_it_breaks(lie: Lie):
    broken = {promise.name for promise in PROMISES if not is_kept(lie.store(), promise)}
    assert broken == lie.promises


def test_each_promise_is_broken_by_a_store():
    assert len({*NAMES}) == len(NAMES)
    assert {name for lie in LIES for name in lie.promises} == {*NAMES}


def test_a_broken_promise_says_what_the_store_did_and_what_to_do():
    error = BrokenPromiseError("a rename replaced a file", "use another store")
    assert str(error) == "a rename replaced a file; use another store"
