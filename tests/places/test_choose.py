"""Each store gets one form of each policy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from ray_committer.places.base import Places, Uploads
from ray_committer.places.choose import needed, old_files_of, output_of, own_files_of, places_of
from ray_committer.places.directories import MovedDirectories
from ray_committer.places.old_files import FilesAside, PlainFiles, UnmovableFiles, VersionedFiles
from ray_committer.places.output import Output, UploadedOutput
from ray_committer.places.own_files import OwnFiles, WrittenFiles
from ray_committer.stores.adls.store import AdlsStore
from ray_committer.stores.base import StoreCapabilities, StoreOperations, StoreSpec
from ray_committer.stores.gcs.store import FLAT, HIERARCHICAL, GcsStore
from ray_committer.stores.hdfs.protocol import CAPABILITIES as HDFS
from ray_committer.stores.hdfs.store import HdfsStore
from ray_committer.stores.local import LocalStore
from ray_committer.testing import Identity, MemoryStore
from tests.servers.fake_s3 import FakeS3Store


class OfKind(MemoryStore):
    """A store that says of itself what another one does."""

    def __init__(self, kind: type[StoreOperations], capabilities: StoreCapabilities) -> None:
        super().__init__()
        self.kind, self.capabilities = kind, capabilities

    def has(self, operation: Callable[..., Any]) -> bool:
        return getattr(self.kind, operation.__name__) is not operation


KINDS = [
    (LocalStore(StoreSpec("file")), MovedDirectories, FilesAside),
    (MemoryStore(), MovedDirectories, FilesAside),
    (MemoryStore(identity=Identity.ETAG), MovedDirectories, VersionedFiles),
    (OfKind(AdlsStore, AdlsStore.capabilities), MovedDirectories, VersionedFiles),
    (OfKind(HdfsStore, HDFS), MovedDirectories, FilesAside),
    (OfKind(GcsStore, FLAT), Places, VersionedFiles),
    (OfKind(GcsStore, HIERARCHICAL), Places, VersionedFiles),
    (MemoryStore(real_directories=False), Places, PlainFiles),
    (FakeS3Store(), Uploads, UnmovableFiles),
]


@pytest.mark.parametrize(("store", "places", "old_files"), KINDS)
def test_each_kind_of_store_has_its_form_of_each_policy(store: StoreOperations, places, old_files):
    assert (type(places_of(store)), type(old_files_of(store))) == (places, old_files)
    is_s3 = places is Uploads
    assert type(output_of(store)) is (UploadedOutput if is_s3 else Output)
    assert type(own_files_of(store)) is (WrittenFiles if is_s3 else OwnFiles)


def test_a_form_has_all_that_differs():
    """A method that is added for stores that change objects would be used on all, and nobody notice."""
    methods = {name for name, value in vars(Places).items() if inspect.isfunction(value)}
    named = {name for name in methods if not name.startswith("_")}
    assert named - vars(MovedDirectories).keys() == {"list_job"}


@pytest.mark.parametrize(("makes", "made"), [(True, ("/a", "/b")), (False, ())])
def test_directories_are_needed_all_or_none(makes: bool, made: tuple[str, ...]):
    assert needed(MemoryStore(real_directories=makes), iter(["/a", "/b"])) == made
