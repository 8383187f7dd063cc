"""The names of the directories of partitions, ``column=value``: how they are made, and read.

Source: Spark ``ExternalCatalogUtils.getPartitionPathString``, ``escapePathName`` and
``unescapePathName``, ``PartitioningUtils.parsePartition``. Hive's names are the same.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from ray_committer.protocol.file_list import partition_of

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = re.compile(r"""[\x01-\x1f\x7f"#%'*/:=?\\{\[\]^]""")


def partition_name(column: str, value: str | None) -> str:
    """The directory for one value of one column, ``column=value``."""
    return f"{escape(column)}={escape(value) if value else NULL_PARTITION}"


def escape(name: str) -> str:
    """Escape a name for a directory as Spark does: ``%`` and two digits for special characters."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", name)


def partition_values(path: str) -> dict[str, str | None]:
    """The columns and the texts of their values in the directories of a file; None for null. `path` is
    relative to the table, as its log names it. Directories without a value do not count."""
    values: dict[str, str | None] = {}
    for name in partition_of(path).split("/"):
        column, equals, value = name.partition("=")
        if equals and column:
            values[unescape(column)] = None if value == NULL_PARTITION else unescape(value)
    return values


def unescape(name: str) -> str:
    """Replace ``%`` and two digits by the character; text that is not valid so stays as it is."""
    try:
        return unquote(name, errors="strict")
    except UnicodeDecodeError:
        return name
