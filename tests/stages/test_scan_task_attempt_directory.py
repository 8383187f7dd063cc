"""A scan finds all that a task attempt wrote, one listing per directory."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_committer.errors import TaskCommitError
from ray_committer.protocol.manifest import FileEntry
from ray_committer.stages.scan_task_attempt_directory import scan_task_attempt_directory
from ray_committer.testing import Identity, MemoryStore, SimulatedCrash, WrappedStore, crash_at, fail_at
from ray_committer.testing.harness import put_file
from tests.stages.support import KINDS, WHEN, do_at, requests


def test_a_scan_finds_every_file_and_directory_with_its_evidence(dest: Path, store, tmp_path: Path):
    root = tmp_path / "attempt"
    (root / "p=1" / "q=é 日%").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "p=1" / "q=é 日%" / "f").write_text("four")
    (root / "top").write_text("")
    scan = scan_task_attempt_directory(store, str(root), str(dest))
    files, directories = scan.files, scan.directories
    assert {(file.d.removeprefix(f"file:{dest}"), file.z) for file in files} == {
        ("/p=1/q=é%20日%25/f", 4),
        ("/top", 0),
    }
    top = next(file for file in files if file.d.endswith("top"))
    assert top.m == (root / "top").stat().st_mtime_ns // 1_000_000
    assert {(entry.d.removeprefix(f"file:{dest}"), entry.l, entry.t) for entry in directories} == {
        ("/empty", 1, 0),
        ("/p=1", 1, 0),
        ("/p=1/q=é%20日%25", 2, 0),
    }


def test_a_linked_directory_in_a_task_attempt_is_refused_by_name(dest: Path, store, tmp_path: Path):
    root, elsewhere = tmp_path / "attempt", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "link").symlink_to(elsewhere)
    with pytest.raises(TaskCommitError, match="link: is a symbolic link to a directory"):
        scan_task_attempt_directory(store, str(root), str(dest))


ATTEMPT = "/table/_temporary/job_1/00/tasks/attempt_1"


def written(*names: str, store: MemoryStore | None = None) -> MemoryStore:
    store = store or MemoryStore()
    store.mkdirs(ATTEMPT)
    for name in names:
        put_file(store, f"{ATTEMPT}/{name}", name.encode())
    return store


def scan(store) -> tuple[list[FileEntry], list]:
    found = scan_task_attempt_directory(store, ATTEMPT, "/table")
    return found.files, found.directories


@pytest.mark.parametrize(
    ("names", "directories"),
    [
        ([], []),
        (["a"], []),
        (["p=1/a"], [("/p=1", 1)]),
        (["b", "a", "p=2/q=1/a", "p=1/a"], [("/p=1", 1), ("/p=2", 1), ("/p=2/q=1", 2)]),
        ([f"p={number}/a" for number in range(9)], [(f"/p={number}", 1) for number in range(9)]),
    ],
)
def test_what_was_written_is_found_by_level_and_name(names: list[str], directories: list):
    files, found = scan(written(*names))
    by_level = sorted(names, key=lambda name: (name.count("/"), name))
    assert [file.s for file in files] == [f"memory://test{ATTEMPT}/{name}" for name in by_level]
    assert [file.d for file in files] == [f"memory://test/table/{name}" for name in by_level]
    assert [file.z for file in files] == [len(name) for name in by_level]
    assert [(one.d.removeprefix("memory://test/table"), one.l) for one in found] == directories


@pytest.mark.parametrize("real_directories", [True, False])
def test_a_scan_costs_one_listing_per_directory_and_no_request_per_file(real_directories: bool):
    store = MemoryStore(real_directories=real_directories)
    written(*(f"p={number % 5}/q=1/f{number}" for number in range(50)), store=store)
    assert requests(store, scan) == Counter(list_status=1 + 5 + 5)


@pytest.mark.parametrize(
    ("identity", "has_etag", "has_time"),
    [
        (Identity.ETAG, True, False),
        (Identity.GENERATION, True, False),
        (Identity.MODIFICATION_TIME, False, True),
        (Identity.SIZE_ONLY, False, False),
    ],
)
def test_an_entry_carries_what_its_store_reports_of_the_file(identity, has_etag: bool, has_time: bool):
    store = written("a", store=MemoryStore(identity=identity))
    (file,), _ = scan(store)
    status = store.get_status(f"{ATTEMPT}/a")
    assert status is not None
    assert (file.e, file.m) == (status.etag, status.modified_milliseconds)
    assert (file.e is not None, file.m is not None) == (has_etag, has_time)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("error", [TimeoutError, PermissionError])
def test_a_listing_that_fails_is_an_error_and_not_a_directory_without_files(
    when: str, number: int, error: type[OSError]
):
    store = WrappedStore(written("p=1/a", "p=2/b"), **{when: fail_at(number, error)})
    with pytest.raises(error):
        scan(store)


def test_a_directory_that_vanishes_during_the_scan_is_not_taken_for_an_empty_one():
    store = written("p=1/a", "p=2/b")
    gone = do_at("list_status", lambda: store.delete_directory(f"{ATTEMPT}/p=2"), end="p=1")
    both = do_at("list_status", lambda: store.delete_directory(f"{ATTEMPT}/p=1"), end="p=2")

    def vanish(call) -> None:
        gone(call)
        both(call)

    with pytest.raises(TaskCommitError, match="is gone, so this task attempt cannot be committed"):
        scan(WrappedStore(store, before=vanish))


@pytest.mark.parametrize("when", WHEN)
def test_a_crash_during_the_scan_leaves_no_thread_and_changes_nothing(when: str):
    store = written("p=1/a")
    before, threads = store.files(), {*threading.enumerate()}
    with pytest.raises(SimulatedCrash):
        scan(WrappedStore(store, **{when: crash_at(2)}))
    assert {*threading.enumerate()} <= threads
    assert store.files() == before


def test_a_link_to_a_file_is_an_entry_of_its_own(dest: Path, store, tmp_path: Path):
    root = tmp_path / "attempt"
    root.mkdir()
    (root / "file").write_text("four")
    (root / "link").symlink_to(root / "file")
    scan = scan_task_attempt_directory(store, str(root), str(dest))
    files, directories = scan.files, scan.directories
    assert [file.d for file in files] == [f"file:{dest}/file", f"file:{dest}/link"]
    assert directories == []


@pytest.mark.parametrize(
    ("found", "named", "output"),
    [
        ("p=1/.nfs0001", (), False),
        (".snapshot/hourly.0/a", (), False),
        ("lost+found/a", (), False),
        ("p=1/a._COPYING_", (), False),
        ("p=1/_SUCCESS", (), False),
        (".x/a", (), False),
        ("_metadata", (), True),
        ("_p=1/a", (), True),
        (".x/a", (".x/a",), True),
        (".x/a", (".x/b",), False),
        ("p=1/._a", ("p=1/._a",), True),
        (".nfs0001", (".nfs0001",), True),
        ("z/.zarray", ("z",), True),
        ("z/.y/.x", ("z",), True),
        ("z/.nfs0001", ("z",), False),
        ("z/.snapshot/a", ("z",), False),
        ("zz/.zarray", ("z",), False),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_name_is_output_only_if_the_task_has_asked_for_it(
    kind: str, found: str, named: tuple[str, ...], output: bool
):
    store = written("p=1/plain", found, store=KINDS[kind]())
    named = tuple(f"{ATTEMPT}/{name}" for name in named)
    scan = scan_task_attempt_directory(store, ATTEMPT, "/table", named)
    sources = {file.s.partition(f"{ATTEMPT}/")[2] for file in scan.files}
    assert sources == {"p=1/plain", *([found] if output else [])}
    assert bool(scan.passed_over) is not output
    assert all(found == one or found.startswith(f"{one}/") for one in scan.passed_over)


def test_a_directory_that_is_passed_over_is_not_listed():
    def refuse() -> None:
        raise PermissionError(errno.EACCES, "is not permitted")

    locked = do_at("list_status", refuse, "/.snapshot")
    store = WrappedStore(written("a", ".snapshot/hourly.0/a"), before=locked)
    scan = scan_task_attempt_directory(store, ATTEMPT, "/table")
    assert (len(scan.files), scan.directories, scan.passed_over) == (1, [], [".snapshot"])


def special_files(root: Path) -> Iterator[str]:
    os.mkfifo(root / "fifo")
    (root / "link").symlink_to(root / "fifo")
    with socket.socket(socket.AF_UNIX) as opened, contextlib.chdir(root):
        opened.bind("socket")
    yield from ("fifo", "link", "socket")


def test_what_is_no_regular_file_is_passed_over(dest: Path, store, tmp_path: Path):
    root = tmp_path / "attempt"
    root.mkdir()
    names = list(special_files(root))
    scan = scan_task_attempt_directory(store, str(root), str(dest))
    assert (scan.files, scan.passed_over) == ([], names)


def test_what_a_task_has_asked_for_must_be_a_regular_file(dest: Path, store, tmp_path: Path):
    root = tmp_path / "attempt"
    root.mkdir()
    for name in special_files(root):
        with pytest.raises(TaskCommitError, match=f"{name}: is not a regular file"):
            scan_task_attempt_directory(store, str(root), str(dest), {str(root / name)})
