"""The tables of settings for the pages, made from the tables in the package."""

from __future__ import annotations

from collections.abc import Iterator

from ray_committer.options import CommitOptions
from ray_committer.options.settings import Where
from ray_committer.spark.hadoop.keys import HADOOP_KEYS

OPTION_COLUMNS = ("key", "value", "default", "meaning")
HADOOP_COLUMNS = ("key", "default", "here", "why")


def options(of: type[CommitOptions] = CommitOptions) -> Iterator[tuple[str, ...]]:
    """A row for each option that is a setting of Spark."""
    for row in of.settable(Where.SPARK).values():
        more = f" ([more]({row.page}))" if row.page else ""
        yield f"`{row.spark_key}`", str(row.kind), _code(row.text(row.default)), f"{row.about}{more}"


def hadoop_keys() -> Iterator[tuple[str, ...]]:
    """A row for each setting of Hadoop."""
    for key in HADOOP_KEYS:
        yield f"`{key.name}`", _code(key.default), str(key.treatment), key.why


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
