"""What Java's exceptions become, by their names and, where there is no better, by their texts."""

from __future__ import annotations

import errno
import stat
from dataclasses import replace

import pytest

from ray_committer.errors import StoreRefusedError, StoreUnavailableError, ThrottledError
from ray_committer.stores.base import FileStatus
from ray_committer.stores.hdfs.protocol import (
    CAPABILITIES,
    MAX_ITEMS,
    UMASK,
    capabilities,
    files_below,
    permissions,
    remote_error,
)


@pytest.mark.parametrize(
    ("exception", "message", "error"),
    [
        ("java.io.FileNotFoundException", "File does not exist: /a", FileNotFoundError),
        ("java.io.FileNotFoundException", "Path is not a file: /d", IsADirectoryError),
        ("org.apache.hadoop.fs.FileAlreadyExistsException", "", FileExistsError),
        (
            "java.io.IOException",
            "Source /a and destination /d must both be directories",
            FileExistsError,
        ),
        (
            "org.apache.hadoop.fs.ParentNotDirectoryException",
            "/a (is not a directory)",
            NotADirectoryError,
        ),
        ("org.apache.hadoop.security.AccessControlException", "Permission denied", PermissionError),
        ("InvalidToken", "token (…) has expired", PermissionError),
        ("org.apache.hadoop.ipc.RetriableException", "Server is too busy.", ThrottledError),
        ("org.apache.hadoop.ipc.CallQueueOverflowException", "", ThrottledError),
        ("org.apache.hadoop.ipc.StandbyException", "in state standby", StoreUnavailableError),
        ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "", StoreUnavailableError),
    ],
)
def test_an_exception_has_its_error(exception: str, message: str, error: type[OSError]):
    found = remote_error(exception, f"{message}\n\tat org.apache.hadoop.X.y(X.java:1)", "/a", "/b")
    assert type(found) is error
    assert found.filename == "/a"
    assert "\tat" not in str(found)


@pytest.mark.parametrize(
    ("exception", "message", "number"),
    [
        ("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", "", errno.ENOTEMPTY),
        ("java.io.IOException", "/d is non empty", errno.ENOTEMPTY),
        ("java.io.IOException", "rename: Pathname too long.", errno.ENAMETOOLONG),
        ("x.protocol.FSLimitException$PathComponentTooLongException", "", errno.ENAMETOOLONG),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "", errno.EDQUOT),
        ("org.apache.hadoop.fs.InvalidPathException", "Invalid path name /a:b", errno.EINVAL),
        ("java.lang.NullPointerException", "", errno.EIO),
    ],
)
def test_other_exceptions_have_a_number(exception: str, message: str, number: int):
    assert remote_error(exception, message, "/a").errno == number


@pytest.mark.parametrize(
    ("options", "file", "directory"),
    [({}, 0o644, 0o755), ({UMASK: "027"}, 0o640, 0o750), ({UMASK: "002"}, 0o664, 0o775)],
)
def test_the_umask_is_the_clients(options: dict[str, str], file: int, directory: int):
    assert permissions(options) == (file, directory)
    assert stat.S_IMODE(file) == file


def test_a_umask_that_is_no_number_is_refused():
    with pytest.raises(StoreRefusedError, match="not an octal number"):
        permissions({UMASK: "u=rwx,g=rx"})


@pytest.mark.parametrize(("given", "limit"), [({}, 1_048_576), ({MAX_ITEMS: "20"}, 20)])
def test_the_names_that_a_directory_may_hold_are_the_default_of_namenodes_unless_they_are_given(
    given: dict[str, str], limit: int
):
    assert capabilities(given) == replace(CAPABILITIES, max_directory_items=limit)
    assert capabilities({MAX_ITEMS: 20}).max_directory_items == 20


@pytest.mark.parametrize("limit", ["many", "", "-1", "1e6"])
def test_a_limit_that_is_no_number_is_refused(limit: str):
    with pytest.raises(StoreRefusedError, match=f"{MAX_ITEMS}: '{limit}' is not a number"):
        capabilities({MAX_ITEMS: limit})


def test_a_directory_that_goes_away_during_a_walk_has_no_files():
    tree = {
        "/d": [FileStatus("/d/gone", is_directory=True), FileStatus("/d/e", is_directory=True)],
        "/d/e": [FileStatus("/d/e/a", is_directory=False)],
    }

    def list_status(path: str) -> list[FileStatus]:
        if path not in tree:
            raise FileNotFoundError(path)
        return tree[path]

    assert [status.path for status in files_below(list_status, "/d")] == ["/d/e/a"]
