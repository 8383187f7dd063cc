"""What anybody may have put under a name is used only if it is a regular file of some size."""

from __future__ import annotations

import contextlib
import os
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from ray_committer.stores import local_files as module
from ray_committer.stores.local import LocalStore
from ray_committer.stores.local_files import open_regular, read_regular


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened, contextlib.chdir(path.parent):
        opened.bind(path.name)


PLANTED: dict[str, Callable[[Path], None]] = {
    "a link to a device without an end": lambda path: path.symlink_to("/dev/zero"),
    "a link to a file": lambda path: path.symlink_to(__file__),
    "a link to itself": lambda path: path.symlink_to(path),
    "a fifo": os.mkfifo,
    "a socket": bind,
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_no_regular_file_is_not_used(name: str, store: LocalStore, tmp_path: Path):
    path = tmp_path / "x"
    PLANTED[name](path)
    for use in (store.read, lambda path: store.write(path, b"x"), open_regular):
        with pytest.raises(OSError, match=r"is (a symbolic link|not a regular file), so it is not used"):
            use(str(path))
    assert path.is_symlink() or not path.is_file()


def test_a_fifo_that_somebody_reads_is_not_written(store: LocalStore, tmp_path: Path):
    path = tmp_path / "x"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="is not a regular file"):
        store.write(str(path), b"x")
    assert os.read(reader, 10) == b""
    os.close(reader)


def test_a_file_that_is_too_long_or_grows_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "x"
    path.write_bytes(b"123456789")
    monkeypatch.setattr(module, "MOST_FILE_BYTES", 8)
    with pytest.raises(OSError, match="has 9 bytes, so it is not used"):
        read_regular(str(path))
    monkeypatch.setattr(module, "MOST_FILE_BYTES", 9)
    assert read_regular(str(path)) == b"123456789"


def test_a_file_that_has_grown_since_its_size_was_seen_is_read_whole():
    grown = Path("/proc/self/status")  # the kernel says that it has no bytes
    assert grown.stat().st_size == 0
    assert read_regular(str(grown)).startswith(b"Name:")


def test_a_short_file_takes_no_more_memory_than_it_has(tmp_path: Path):
    path = tmp_path / "x"
    path.write_bytes(b"x" * 700)
    tracemalloc.start()
    try:
        read_regular(str(path))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_directory_and_a_missing_file_are_what_they_are(tmp_path: Path):
    with pytest.raises(IsADirectoryError):
        read_regular(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        read_regular(str(tmp_path / "missing"))
