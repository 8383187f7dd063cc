"""A table in the AWS Glue Data Catalog, through boto3.

Region, credentials and endpoint are boto3's own, and it repeats requests that are throttled. Source: the
Glue API's ``BatchCreatePartition`` and ``BatchDeletePartition``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ray_committer.errors import CatalogError, CatalogTableError, SettingsError
from ray_committer.interop.catalogs.base import Catalog, Places, is_to_be_dropped, no_such_table
from ray_committer.protocol.partition_sql import batches, table_name
from ray_committer.protocol.partitions import Partition

MOST_CREATED = 100
MOST_DELETED = 25
MOST_READ = 1_000
"""The most partitions of one request that adds, removes or reads some."""
ATTEMPTS = 5
CONNECT_SECONDS, READ_SECONDS = 10, 60
_FROM_TABLE = ("Columns", "InputFormat", "OutputFormat", "Compressed", "SerdeInfo", "Parameters")


class GlueTable(Catalog):
    """A table of Glue, as ``db.table``, by a `client` of boto3; by default a new one.
    `CatalogTableError` if it does not exist; `CatalogError` if Glue fails or boto3 is not installed."""

    def __init__(self, table: str, client: Any = None) -> None:
        self.table = table
        self._database, *rest = table_name(table)
        if not rest:
            raise SettingsError(f"{table}: names no database of Glue", "write the table as db.table")
        self._name = rest[0]
        self._client = client or _client()
        description = self._described()
        storage = description.get("StorageDescriptor", {})
        self.columns = tuple(column["Name"] for column in description.get("PartitionKeys", ()))
        self.location = storage.get("Location", "")
        self._storage = {name: storage[name] for name in _FROM_TABLE if name in storage}

    def close(self) -> None:
        """Close the client's connections; idempotent."""
        self._client.close()

    def add(self, partitions: Sequence[Partition], places: Places) -> None:
        for some in batches(partitions, MOST_CREATED):
            wanted = [
                {
                    "Values": list(partition.texts),
                    "StorageDescriptor": {**self._storage, "Location": places.place(partition)},
                }
                for partition in some
            ]
            answer = self._call("batch_create_partition", PartitionInputList=wanted)
            self._check(answer, "AlreadyExistsException")

    def drop(self, partitions: Sequence[Partition], places: Places) -> None:
        gone = {partition.path for partition in partitions}
        # Values for the first columns only name many partitions, which Glue cannot be asked for by them.
        whole = all(len(partition.values) == len(self.columns) for partition in partitions)
        known = self._read(partitions) if whole else self._all()
        wanted = [
            partition["Values"]
            for partition in known
            if is_to_be_dropped(_location(partition), gone, places)
        ]
        for some in batches(wanted, MOST_DELETED):
            values = [{"Values": value_list} for value_list in some]
            answer = self._call("batch_delete_partition", PartitionsToDelete=values)
            self._check(answer, "EntityNotFoundException")

    def known(self) -> Iterable[str]:
        return [_location(partition) for partition in self._all()]

    def _described(self) -> Mapping[str, Any]:
        with self._failures():
            try:
                answer = self._client.get_table(DatabaseName=self._database, Name=self._name)
            except self._client.exceptions.EntityNotFoundException as e:
                raise no_such_table(self.table, "Glue") from e
        description: Mapping[str, Any] = answer["Table"]
        if description.get("TableType") == "VIRTUAL_VIEW":
            raise CatalogTableError(f"{self.table}: is a view, which has no partitions")
        return description

    def _read(self, partitions: Sequence[Partition]) -> Iterator[Mapping[str, Any]]:
        """The given partitions that Glue has."""
        for some in batches(partitions, MOST_READ):
            left = [{"Values": list(partition.texts)} for partition in some]
            while left:
                answer = self._call("batch_get_partition", PartitionsToGet=left)
                yield from answer.get("Partitions", ())
                # Glue leaves out what does not fit into one answer, without an error.
                left = answer.get("UnprocessedKeys", [])

    def _all(self) -> Iterator[Mapping[str, Any]]:
        pages = self._client.get_paginator("get_partitions").paginate(
            DatabaseName=self._database, TableName=self._name, ExcludeColumnSchema=True
        )
        with self._failures():
            for page in pages:
                yield from page["Partitions"]

    def _call(self, name: str, **more: Any) -> Mapping[str, Any]:
        with self._failures():
            answer: Mapping[str, Any] = getattr(self._client, name)(
                DatabaseName=self._database, TableName=self._name, **more
            )
            return answer

    def _check(self, answer: Mapping[str, Any], harmless: str) -> None:
        """`CatalogError` if a request has failed for a partition, except for the `harmless` reason: then
        another process, or an earlier run, has done the same."""
        for failure in answer.get("Errors", ()):
            detail = failure["ErrorDetail"]
            if detail["ErrorCode"] != harmless:
                raise CatalogError(
                    f"{self.table}: Glue refuses partition {'/'.join(failure['PartitionValues'])}: "
                    f"{detail.get('ErrorMessage', detail['ErrorCode'])}"
                )

    @contextmanager
    def _failures(self) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError) as e:
            raise CatalogError(f"{self.table}: Glue does not do this: {e}") from e


def _client() -> Any:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ModuleNotFoundError as e:
        raise CatalogError(
            f"{e.name}: is not installed", "install ray-committer[glue] and run the same command"
        ) from e
    retries: Any = {"mode": "adaptive", "total_max_attempts": ATTEMPTS}
    config = Config(retries=retries, connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS)
    try:
        return boto3.client("glue", config=config)
    except BotoCoreError as e:
        raise CatalogError(
            f"Glue: {e}", "set AWS_DEFAULT_REGION, or what is missing, and run it again"
        ) from e


def _location(partition: Mapping[str, Any]) -> str:
    location: str = partition.get("StorageDescriptor", {}).get("Location", "")
    return location
