"""The store contract on moto, on SeaweedFS, and on the project's own S3 as each server answers."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

import pytest

from ray_committer.promises.all import PROMISES
from ray_committer.promises.promise import Promise
from ray_committer.promises.states import CHANGES_ONCE
from ray_committer.promises.uploads import ONE_COMPLETES
from ray_committer.stores.base import StoreOperations, StoreSpec, Versions
from ray_committer.stores.registry import open_store
from ray_committer.stores.s3.store import S3Store
from ray_committer.testing import StoreContract
from tests.servers.fake_s3 import SERVERS, FakeS3, direct_store
from tests.servers.s3_bucket import new_bucket
from tests.servers.seaweedfs import SeaweedServer

pytestmark = pytest.mark.xdist_group("s3")

NAME = attrgetter("name")


@pytest.mark.wide
@pytest.mark.server
class TestMoto(StoreContract):
    faulty_renames = 40

    @pytest.fixture(params=[13, pytest.param(1, marks=pytest.mark.wide)])
    def crash_stride(self, request: pytest.FixtureRequest) -> int:
        return int(request.param)  # test_s3_commits.py has the requests to the server

    @pytest.fixture
    def store(self, store: S3Store) -> StoreOperations:
        return store

    @pytest.fixture
    def root(self, store: StoreOperations) -> str:
        store.mkdirs("/root")
        return "/root"


@pytest.mark.wide
@pytest.mark.server
class TestSeaweedFS(StoreContract):
    """All promises but one: of two completions at one name in the same moment, both can succeed."""

    refused_names = frozenset({"back\\slash"})  # it keeps a backslash as a slash

    @pytest.mark.parametrize("promise", [one for one in PROMISES if one != ONE_COMPLETES], ids=NAME)
    def test_the_store_keeps_its_promise(
        self, store: StoreOperations, root: str, promise: Promise
    ) -> None:
        super().test_the_store_keeps_its_promise(store, root, promise)

    @pytest.mark.parametrize("promise", [CHANGES_ONCE], ids=NAME)
    def test_the_store_keeps_its_promise_every_time(
        self, store: StoreOperations, root: str, promise: Promise
    ) -> None:
        super().test_the_store_keeps_its_promise_every_time(store, root, promise)

    @pytest.fixture
    def crash_stride(self) -> int:
        return 7

    @pytest.fixture
    def store(self, seaweedfs: SeaweedServer) -> Iterator[StoreOperations]:
        with new_bucket(seaweedfs.url) as bucket:
            yield S3Store(StoreSpec("s3", bucket.name, seaweedfs.storage_options))

    @pytest.fixture
    def root(self, store: StoreOperations) -> str:
        store.mkdirs("/root")
        return "/root"


@pytest.mark.parametrize("server", SERVERS)
class TestStrict(StoreContract):
    @pytest.fixture
    def store(self, server: str) -> StoreOperations:
        return direct_store(FakeS3(**SERVERS[server]))

    @pytest.fixture
    def root(self, store: StoreOperations) -> str:
        store.mkdirs("/root")
        return "/root"


@pytest.mark.wide
@pytest.mark.server
class TestOverHttp(StoreContract):
    @pytest.fixture
    def crash_stride(self) -> int:
        return 7

    @pytest.fixture
    def store(self, fake_spec: StoreSpec) -> StoreOperations:
        return open_store(fake_spec)

    @pytest.fixture
    def root(self, store: StoreOperations) -> str:
        store.mkdirs("/root")
        return "/root"


def test_what_the_store_can_do():
    capabilities = S3Store.capabilities
    assert not capabilities.has_directories
    assert capabilities.versions is Versions.ETAG
    assert (capabilities.max_path_length, capabilities.max_name_length) == (1 + 1024, 1024)
