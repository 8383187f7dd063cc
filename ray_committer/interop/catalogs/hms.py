"""A table in a Hive metastore, through its Thrift service.

The service must accept plain connections: Kerberos and TLS are not supported. Source: Hive
``ThriftHiveMetastore``, ``add_partitions_req`` and ``drop_partitions_req``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

from ray_committer.errors import CatalogError, CatalogTableError, SettingsError
from ray_committer.interop.catalogs.base import Catalog, Places, is_to_be_dropped, no_such_table
from ray_committer.protocol.partition_sql import batches, table_name
from ray_committer.protocol.partitions import Partition, and_above

MOST = 100
"""The most partitions of one request."""
DEFAULT_PORT = 9083
ANSWER_SECONDS = 60
_EVERY = -1


class MetastoreTable(Catalog):
    """A table of the metastore at ``thrift://host:port``, as ``db.table``; close it in the end.

    `CatalogTableError` if it does not exist; `CatalogError` if the metastore fails or pymetastore is not
    installed.
    """

    def __init__(self, table: str, address: str) -> None:
        self.table = table
        *database, self._name = table_name(table)
        self._database = database[0] if database else "default"
        self._address = address
        with self._failures():
            self._types, self.client, self._transport = connect(address)
        try:
            self._read_table()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connection; idempotent."""
        self._transport.close()

    def add(self, partitions: Sequence[Partition], places: Places) -> None:
        for some in batches(partitions, MOST):
            parts = [self._new(partition, places.place(partition)) for partition in some]
            with self._failures():
                self.client.add_partitions_req(
                    self._types.AddPartitionsRequest(
                        self._database, self._name, parts, ifNotExists=True, needResult=False
                    )
                )

    def drop(self, partitions: Sequence[Partition], places: Places) -> None:
        gone = {partition.path for partition in partitions}
        usual = {partition.usual_path for partition in partitions}
        names = [name for name in self._names() if not usual.isdisjoint(and_above(name))]
        locations = self._locations(names)
        wanted = [name for name in names if is_to_be_dropped(locations.get(name, ""), gone, places)]
        for some in batches(wanted, MOST):
            with self._failures():
                self.client.drop_partitions_req(
                    self._types.DropPartitionsRequest(
                        self._database,
                        self._name,
                        self._types.RequestPartsSpec(names=list(some)),
                        deleteData=False,
                        ifExists=True,
                        needResult=False,
                    )
                )

    def known(self) -> Iterable[str]:
        return self._locations(self._names()).values()

    def _read_table(self) -> None:
        with self._failures():
            try:
                description = self.client.get_table(self._database, self._name)
            except self._types.NoSuchObjectException as e:
                raise no_such_table(self.table, f"the metastore at {self._address}") from e
        if description.tableType == "VIRTUAL_VIEW":
            raise CatalogTableError(f"{self.table}: is a view, which has no partitions")
        self.columns = tuple(column.name for column in description.partitionKeys)
        self._storage = description.sd
        self.location = description.sd.location

    def _new(self, partition: Partition, location: str) -> Any:
        # Shallow is enough: only the location is set, and Thrift's values are not changed elsewhere.
        storage = copy(self._storage)
        storage.location = location
        return self._types.Partition(
            list(partition.texts), self._database, self._name, sd=storage, parameters={}
        )

    def _names(self) -> list[str]:
        """The names of all partitions, ``day=1/hour=2``."""
        with self._failures():
            names: list[str] = self.client.get_partition_names(self._database, self._name, _EVERY)
            return names

    def _locations(self, names: Sequence[str]) -> Mapping[str, str]:
        """Where the partitions with these names are; those that are gone by now are left out."""
        locations: dict[str, str] = {}
        for some in batches(names, MOST):
            with self._failures():
                parts = self.client.get_partitions_by_names(self._database, self._name, list(some))
            for part in parts:
                values = tuple(zip(self.columns, part.values, strict=True))
                locations[Partition("", values).usual_path] = part.sd.location
        return locations

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Convert errors of Thrift, which cannot pass through a block: they are immutable."""
        try:
            from thrift.Thrift import TException
        except ModuleNotFoundError as e:
            raise CatalogError(
                f"{e.name}: is not installed", "install ray-committer[hms] and run the same command"
            ) from e
        try:
            yield
        except (TException, OSError) as e:
            what = getattr(e, "message", None) or str(e)
            raise CatalogError(f"{self.table}: the metastore at {self._address}: {what}") from e


def connect(address: str) -> tuple[Any, Any, Any]:
    """Open a connection; return the types of its requests, the client and the transport."""
    from pymetastore.hive_metastore import ThriftHiveMetastore, ttypes
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.transport import TSocket, TTransport

    host, port = _host_and_port(address)
    socket = TSocket.TSocket(host, port)
    socket.setTimeout(ANSWER_SECONDS * 1000)
    transport = TTransport.TBufferedTransport(socket)
    transport.open()
    return ttypes, ThriftHiveMetastore.Client(TBinaryProtocol(transport)), transport


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.removeprefix("thrift://").rpartition(":")
    if not colon:
        host, port = port, str(DEFAULT_PORT)
    if not host or not port.isdigit():
        raise SettingsError(
            f"{address!r}: is not the address of a metastore", "write thrift://host:9083"
        )
    return host, int(port)
