"""The types that a table's definition can give its partition columns, in Spark's words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ray_committer.errors import SettingsError
from ray_committer.protocol.table_entry import PartitionColumn

NAMES = (
    "string",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "date",
    "timestamp",
)
"""Those without arguments; ``decimal(10,2)`` and ``varchar(5)`` are also known."""

_SYNONYMS = ("byte", "short", "integer", "long", "real", "timestamp_ntz")
_WITH_ARGUMENTS = re.compile(r"decimal\((\d{1,2})(,\d{1,2})?\)|(var)?char\(\d+\)", re.ASCII)
_MOST_DIGITS = 38


def columns_of(types: Mapping[str, str]) -> list[PartitionColumn]:
    """The partition columns with these types, in order; `SettingsError` if a type is not known."""
    return [PartitionColumn(name, _known(name, text)) for name, text in types.items()]


def _known(name: str, text: str) -> str:
    kind = text.lower().replace(" ", "")
    parametrised = _WITH_ARGUMENTS.fullmatch(kind)
    digits = int(parametrised[1]) if parametrised and parametrised[1] else 1
    if not name or not (parametrised or kind in (*NAMES, *_SYNONYMS)) or not 1 <= digits <= _MOST_DIGITS:
        raise SettingsError(
            f"partition column {name}={text}: is not a type of a partition column",
            f"nothing was done: use one of {', '.join(NAMES)}, decimal(10,2), varchar(10)",
        )
    return kind
