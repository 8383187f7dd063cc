"""Read the values of partition columns from the names of directories: ``column=value``.

Source: Spark ``PartitioningUtils.parsePartition`` and ``ExternalCatalogUtils.unescapePathName``.
"""

from __future__ import annotations

from urllib.parse import unquote

from ray_committer.protocol.file_list import partition_of

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def partition_values(path: str) -> dict[str, str | None]:
    """The columns and the texts of their values in the directories of a file; None for null.

    `path` is relative to the table, as its log names it. Directories without a value do not count.
    """
    found: dict[str, str | None] = {}
    for name in partition_of(path).split("/"):
        column, equals, value = name.partition("=")
        if equals and column:
            found[unescape(column)] = None if value == NULL_PARTITION else unescape(value)
    return found


def unescape(name: str) -> str:
    """Replace ``%`` and two digits by the character; text that is not valid so stays as it is."""
    try:
        return unquote(name, errors="strict")
    except UnicodeDecodeError:
        return name
