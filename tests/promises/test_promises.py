"""The promises of a store: honest stores keep them, and the contract catches each lie."""

from __future__ import annotations

import pytest

from ray_committer.promises import uploads
from ray_committer.promises.all import PROMISES
from ray_committer.promises.promise import BrokenPromiseError, Promise
from ray_committer.stores.base import StoreOperations
from ray_committer.testing import StoreContract
from tests.promises.lies.all import LIES
from tests.promises.lies.lie import Lie
from tests.promises.lies.uploads import UPLOAD_LIES
from tests.servers.fake_s3 import FakeS3, direct_store

NAMES = [promise.name for promise in PROMISES]
OF_UPLOADS = {promise.name for promise in uploads.PROMISES}


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
    broken = {name for lie in LIES for name in lie.promises}
    assert broken.isdisjoint(OF_UPLOADS)
    assert broken | {name for _, names in UPLOAD_LIES.values() for name in names} == {*NAMES}


@pytest.mark.parametrize("lie", UPLOAD_LIES)
def test_a_server_that_lies_about_uploads_fails_the_contract_in_the_promises_that_it_breaks(lie: str):
    make, names = UPLOAD_LIES[lie]
    assert {one.name for one in uploads.PROMISES if not is_kept(make(), one)} == names


def test_an_honest_server_keeps_all_promises():
    assert all(is_kept(direct_store(FakeS3()), promise) for promise in PROMISES)


def test_a_broken_promise_says_what_the_store_did_and_what_to_do():
    error = BrokenPromiseError("a rename replaced a file", "use another store")
    assert str(error) == "a rename replaced a file; use another store"
