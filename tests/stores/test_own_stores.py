"""A package brings a store of its own by an entry point, as docs/stores/README.md says."""

from __future__ import annotations

import importlib
import platform
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import ray_committer
from ray_committer.errors import JobNotFoundError, StoreRefusedError
from ray_committer.protocol.paths import new_job_attempt
from ray_committer.stores.base import StoreOperations, StoreSpec
from ray_committer.stores.local import LocalStore
from ray_committer.stores.registry import (
    OPEN_SECONDS,
    OpenStores,
    open_store,
    own_store,
    resolve_destination,
    shown_url,
)
from ray_committer.testing import write_job
from tests import own_stores
from tests.docs import ways
from tests.docs.blocks import all_blocks
from tests.own_stores import with_packages

ENTRY_POINTS: dict[str, dict[str, str]] = tomllib.loads(all_blocks()[ways.ENTRY_POINT].text)["project"][
    "entry-points"
]
MODULE = """
from ray_committer.stores.local import LocalStore

def open_my_store(spec):
    return LocalStore(spec)
"""


COUNTED = """
from ray_committer.stores.local import LocalStore

OPENED = []

def open_my_store(spec):
    OPENED.append(spec)
    return LocalStore(spec)
"""
TWO_PROCESSES = """
import os
from my_package import OPENED
from ray_committer.stores.registry import open_store, resolve_destination

spec, _ = resolve_destination("mine://disk/table")
first = open_store(spec)
if os.fork() == 0:
    assert open_store(spec) is open_store(spec) is not first
    print(len(OPENED), flush=True)
else:
    os.wait()
    assert open_store(spec) is first
    print(len(OPENED))
"""
LEAST = (*StoreOperations.__abstractmethods__, "rename", "replace", "move_directory")
"""The methods of a store with directories that has no others."""


def module_of(*methods: str) -> str:
    """A package with a store of some methods, all of local files."""
    head = """
from ray_committer.stores.base import StoreCapabilities, StoreOperations
from ray_committer.stores.local import LocalStore

class LeastStore(StoreOperations):
    capabilities = StoreCapabilities(listing_is_cheap=True, max_path_length=4095, max_name_length=255)

    def __init__(self, spec):
        self.spec, self.files = spec, LocalStore(spec)

def open_my_store(spec):
    return LeastStore(spec)
"""
    body = "def {0}(self, *args, **more): return self.files.{0}(*args, **more)\n"
    lines = "".join(f"    {body.format(name)}" for name in methods)
    return head.replace("\ndef open", f"{lines}\ndef open")


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    _forget()
    yield
    _forget()


def _forget() -> None:
    own_store.cache_clear()
    sys.modules.pop("my_package", None)


def install(site: Path, name: str = "my_package", module: str = MODULE) -> None:
    """Put a package with the entry points of the page into the directory `site`."""
    points = {
        group: {key: value.replace("my_package", name) for key, value in named.items()}
        for group, named in ENTRY_POINTS.items()
    }
    own_stores.install(site, name, module, points)


def commit(url: str, site: Path) -> subprocess.CompletedProcess[str]:
    return python(site, "-m", "ray_committer.cli", "commit", url, "--assume-complete")


def python(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=with_packages(site), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", [MODULE, module_of(*LEAST)], ids=["local files", "least methods"])
def test_a_job_on_an_own_store_is_committed_by_the_command(tmp_path: Path, module: str):
    install(tmp_path / "site", module=module)
    table = tmp_path / "table"
    job = new_job_attempt(str(table), "job_1", 0)
    write_job(LocalStore(StoreSpec("mine", "disk")), job, {0: {"a": b"1"}, 1: {"p=1/b": b"2"}})
    url = f"mine://disk{table}"
    refused = commit(url, tmp_path)
    assert refused.returncode == 1
    assert "mine://disk" in refused.stderr
    assert "are known to rename safely" in refused.stderr
    done = commit(url, tmp_path / "site")
    assert done.returncode == 0, done.stderr
    assert (table / "a").read_bytes() == b"1"
    assert (table / "p=1" / "b").read_bytes() == b"2"
    assert not (table / "_temporary").exists()


def test_the_task_attempts_of_a_process_open_one_store(tmp_path: Path, monkeypatch):
    install(tmp_path, module=COUNTED)
    monkeypatch.syspath_prepend(tmp_path)
    url = f"mine://disk{tmp_path}/table"
    ray_committer.setup_job(url, "job_1")
    for task in range(10):
        with ray_committer.task_attempt(url, "job_1", task):
            pass
    opened = importlib.import_module("my_package").OPENED
    assert len(opened) == 1
    with ray_committer.task_attempt(url, "job_1", 10, storage_options={"key": {"of": "another"}}):
        pass
    assert [spec.storage_options for spec in opened] == [{}, {"key": {"of": "another"}}]


def test_another_environment_opens_another_store(tmp_path: Path, monkeypatch):
    """Credentials and configurations are often named by a variable."""
    install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    spec, _ = resolve_destination("mine://disk/table")
    first = open_store(spec)
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    assert open_store(spec) is not first


def test_a_store_is_opened_anew_after_a_while():
    """A key that was renewed in its file counts then, and no connection is kept for ever."""
    now, opened = [0.0], list[StoreSpec]()
    stores = OpenStores(lambda: now[0])

    def get(spec: StoreSpec) -> StoreOperations:
        return stores.get(spec, lambda: opened.append(spec) or LocalStore(spec))

    one, two = StoreSpec("mine", "one"), StoreSpec("mine", "two")
    first, second = get(one), get(two)
    now[0] = OPEN_SECONDS - 1
    assert (get(one), get(two)) == (first, second)
    now[0] = OPEN_SECONDS
    assert get(one) is not first
    assert opened == [one, two, one]
    assert len(stores._found) == 1  # the other is closed, where nothing uses it


def test_a_store_that_cannot_be_opened_is_tried_again():
    stores, spec = OpenStores(), StoreSpec("mine", "one")
    for _ in range(2):
        with pytest.raises(PermissionError):
            stores.get(spec, deny)
    assert isinstance(stores.get(spec, lambda: LocalStore(spec)), LocalStore)


def deny() -> StoreOperations:
    raise PermissionError(13, "denied", "/")


def test_a_child_process_opens_a_store_of_its_own(tmp_path: Path):
    """It must not use its parent's connections."""
    install(tmp_path, module=COUNTED)
    done = python(tmp_path, "-c", TWO_PROCESSES)
    assert (done.stdout, done.stderr) == ("2\n1\n", "")


def test_two_packages_with_a_store_for_one_scheme_are_refused(tmp_path: Path, monkeypatch):
    install(tmp_path)
    install(tmp_path, "other_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(StoreRefusedError, match=r"my_package:open_my_store, other_package:.*uninstall"):
        resolve_destination("mine://disk/table")


@pytest.mark.parametrize("module", ["import no_such_module", "open_another = None"])
def test_an_own_store_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch, module: str):
    install(tmp_path, module=module)
    monkeypatch.syspath_prepend(tmp_path)
    spec, path = resolve_destination("mine://disk/table")
    assert path == "/table"
    with pytest.raises(
        StoreRefusedError, match=r"mine://disk: its store my_package:open_my_store cannot"
    ):
        open_store(spec)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (
            module_of(*(one for one in LEAST if one != "mkdirs")),
            "cannot be opened: .*LeastS.*mkdirs",
        ),
        (module_of(*(one for one in LEAST if one != "replace")), "lacks operations: replace;"),
        (module_of(*LEAST[:-1]), "lacks operations: delete_listed, delete_version;"),
        (module_of(*LEAST, "append_part", "begin_upload"), "lacks operations: publish, put_part, .*"),
        ("def open_my_store(spec): return spec", "StoreSpec, which is not a subclass of Store"),
    ],
    ids=["required", "renames", "directories", "uploads", "another class"],
)
def test_an_own_store_without_an_operation_that_it_needs_is_refused(
    tmp_path: Path, monkeypatch, module: str, why: str
):
    install(tmp_path, module=module)
    monkeypatch.syspath_prepend(tmp_path)
    spec, _ = resolve_destination("mine://disk/table")
    with pytest.raises(StoreRefusedError, match=f"mine://disk: its store my_package:.*{why}"):
        open_store(spec)


def call_it(site: Path, scheme: str, value: str = "my_package:open_my_store") -> None:
    """Change the entry point of an installed package."""
    points = site / "my_package-1.0.dist-info" / "entry_points.txt"
    points.write_text(f"[ray_committer.stores]\n{scheme} = {value}\n")


def test_a_store_of_this_package_is_not_replaced(tmp_path: Path, monkeypatch):
    install(tmp_path)
    call_it(tmp_path, "file")
    monkeypatch.syspath_prepend(tmp_path)
    assert isinstance(open_store(resolve_destination(str(tmp_path))[0]), LocalStore)
    with pytest.raises(StoreRefusedError, match="cannot be committed to"):
        resolve_destination("file://elsewhere/table")


def test_an_own_store_can_have_a_scheme_that_is_else_another_name(tmp_path: Path, monkeypatch):
    install(tmp_path)
    call_it(tmp_path, "wasbs")
    monkeypatch.syspath_prepend(tmp_path)
    spec, path = resolve_destination("wasbs://bucket/table")
    assert (spec.scheme, spec.authority, path) == ("wasbs", "bucket", "/table")
    assert isinstance(open_store(spec), LocalStore)
    with pytest.raises(StoreRefusedError, match="renames by copying"):
        resolve_destination("wasb://bucket/table")


def test_an_entry_point_that_is_no_function_is_named(tmp_path: Path, monkeypatch):
    install(tmp_path)
    call_it(tmp_path, "mine", "my_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(StoreRefusedError, match=r"my_package is not a function.*MODULE:FUNCTION"):
        open_store(resolve_destination("mine://disk/table")[0])


def test_a_node_without_the_package_is_told_to_install_it():
    with pytest.raises(StoreRefusedError, match=rf"a store for it on {platform.node()}"):
        open_store(StoreSpec("mine", "disk"))


def test_a_password_in_a_url_is_not_shown():
    assert shown_url(StoreSpec("sftp", "user:secret@host"), "/a b") == "sftp://user@host/a%20b"
    assert shown_url(StoreSpec("abfs", "lake@account"), "/t") == "abfs://lake@account/t"


def test_an_error_of_a_task_that_concerns_another_store_is_not_shown_as_one_of_its_job(
    tmp_path: Path, monkeypatch
):
    install(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    url, elsewhere = f"mine://disk{tmp_path}/table", str(tmp_path / "elsewhere")
    ray_committer.setup_job(url, "job_1")
    with pytest.raises(JobNotFoundError) as caught, ray_committer.task_attempt(url, "job_1", 0):
        ray_committer.commit_job(elsewhere)
    assert caught.value.what.startswith(elsewhere)
    with pytest.raises(JobNotFoundError) as caught:
        ray_committer.commit_job(f"{url}-of-another")
    assert caught.value.what.startswith(f"{url}-of-another")
