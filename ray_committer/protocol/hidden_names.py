"""The names of files and directories that are not data, although a listing shows them.

Readers of directories pass over hidden names, as Spark does (``HadoopFSUtils.shouldFilterOutPathName``,
``InMemoryFileIndex``), and file systems make names of their own. The Java classes have the same rules;
``tests/data/hidden_names.json`` holds examples for both.
"""

from __future__ import annotations

from collections.abc import Iterable

_COPYING = "._COPYING_"
_SUMMARIES = ("_metadata", "_common_metadata")
_REMOVED_BUT_OPEN = (".nfs", ".fuse_hidden", ".smbdelete", ".__smb")
_DIRECTORIES = (".snapshot", ".snapshots", ".snap", "~snapshot", ".zfs", ".glusterfs", "lost+found")
_FIRST = "._~l"
"""With one of these begins what is passed over, unless it ends with `_COPYING`."""


def is_hidden(path: str) -> bool:
    """Whether readers of rows pass over a file; `path` is relative to the table, as its log names it."""
    return any(map(_is_hidden, path.split("/")))


def first_visible(names: Iterable[str]) -> str | None:
    """The first name in a directory that readers see; None if there is none."""
    return min((name for name in names if not _is_hidden(name)), default=None)


def is_passed_over(path: str) -> bool:
    """Whether a file that is only found in a task attempt's directory is no output; `path` is relative
    to that directory. Parquet's summary files are output, although they hold no rows."""
    if path[:1] not in _FIRST and not path.endswith("_") and "/" not in path:
        return False  # it is asked for each file of a job
    return any(
        is_of_file_system(name) or (_is_hidden(name) and not name.startswith(_SUMMARIES))
        for name in path.split("/")
    )


def is_of_file_system(name: str) -> bool:
    """Whether a file system made this name itself: of an open file, a snapshot, or a repair."""
    return name.startswith(_REMOVED_BUT_OPEN) or name in _DIRECTORIES


def _is_hidden(name: str) -> bool:
    # `_col=value` is a partition: Spark reads directories whose names contain "=".
    return name.startswith(".") or name.endswith(_COPYING) or (name.startswith("_") and "=" not in name)
