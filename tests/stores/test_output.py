"""What fsspec would open under another name, or through another client, than the commit."""

from __future__ import annotations

import pytest
from gcsfs.core import GCSFileSystem

from ray_committer.errors import PathError
from ray_committer.stores.base import StoreSpec
from ray_committer.stores.output import file_system, open_input, open_output, writable_url
from ray_committer.testing import MemoryStore

ABFS = StoreSpec(
    "abfs", "lake@acct.dfs.core.windows.net", {"account_name": "acct", "account_key": "a2V5"}
)
WEBHDFS = StoreSpec("webhdfs", "nowhere.invalid:1", {"user": "u"})


def store(spec: StoreSpec) -> MemoryStore:
    found = MemoryStore()
    found.spec = spec
    return found


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (WEBHDFS, "/d/a?b"),
        (WEBHDFS, "/d?x/a"),
        (ABFS, "/d/a?versionid=1"),
        (ABFS, "/d/a?"),
        (ABFS, "/d/a?b#c"),
        (ABFS, "/d/a\nb"),
    ],
)
def test_a_name_that_fsspec_takes_for_another_one_is_refused_before_any_request(
    spec: StoreSpec, path: str
):
    for refuse in (
        lambda: open_output(store(spec), path),
        lambda: open_input(spec, path),
        lambda: writable_url(store(spec), path),
    ):
        with pytest.raises(PathError, match="takes this name for another one"):
            refuse()


@pytest.mark.parametrize("path", ["/d/a b", "/d/p=1%3F/a", "/d/é+&'"])
@pytest.mark.parametrize("spec", [WEBHDFS, ABFS, StoreSpec("gs", "bucket")])
def test_any_other_name_is_a_url(spec: StoreSpec, path: str):
    assert writable_url(store(spec), path) == f"{spec.scheme}://{spec.authority}{path}"


def test_googles_files_are_read_without_a_look_at_the_layout_by_another_protocol():
    spec = StoreSpec("gs", "bucket", {"token": "anon", "endpoint_url": "http://127.0.0.1:1"})
    assert type(file_system(spec, "read")) is GCSFileSystem
