"""A Hive metastore of this machine: that of PySpark's jars with Derby, as a process of its own."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pyspark

from tests.servers.ports import free_port

START_SECONDS = 240.0
_JARS = Path(pyspark.__file__).parent / "jars"


class Metastore:
    """Listens on a free port from `start` to `stop`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._log = home / "metastore.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers; an error that holds its log if it does not."""
        self.port = free_port()
        settings = {
            "derby.system.home": str(self._home),
            "hive.async.log.enabled": "false",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": str(self._home / "warehouse"),
            "datanucleus.schema.autoCreateAll": "true",
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self._home}/db;create=true",
        }
        command = ["java", "-Xmx256m", *(f"-D{key}={value}" for key, value in settings.items())]
        command += ["-cp", f"{_JARS}/*", "org.apache.hadoop.hive.metastore.HiveMetaStore"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "-p", str(self.port)], stdout=log, stderr=log, cwd=self._home
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"the metastore did not start:\n{self._log.read_text()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it; idempotent."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def _answers(self) -> bool:
        from pymetastore.metastore import HMS
        from thrift.Thrift import TException

        try:
            with HMS.create("127.0.0.1", self.port) as client:
                return "default" in client.list_databases()
        except (TException, OSError):
            return False
