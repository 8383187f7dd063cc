"""The store contract on moto, and on the project's own S3 as each kind of server answers."""

from __future__ import annotations

import pytest

from ray_committer.stores.base import StoreOperations, StoreSpec, Versions
from ray_committer.stores.registry import open_store
from ray_committer.stores.s3.store import S3Store
from ray_committer.testing import StoreContract
from tests.servers.fake_s3 import SERVERS, FakeS3, direct_store

pytestmark = pytest.mark.xdist_group("s3")


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
    assert (capabilities.completes_uploads, capabilities.has_directories) == (True, False)
    assert capabilities.versions is Versions.ETAG
    assert (capabilities.max_path_length, capabilities.max_name_length) == (1 + 1024, 1024)
