"""A real HDFS on this machine: a NameNode and a DataNode of Hadoop 2.7, with RPC and WebHDFS.

No package index offers Hadoop's servers, but the source package of PySpark 2.4 holds their jars, and
Debian the one library that it lacks, Jersey 1. Both are put together once, in a cache directory, with an
empty file system that is already formatted; each server then starts from a copy of that. To run one by
hand: ``python -m tests.servers.hdfs``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from tests.servers import debian, source_jars
from tests.servers.hdfs_gate import HdfsGate
from tests.servers.ports import free_ports

CACHE = Path(__file__).parents[2] / ".cache" / "servers" / "hdfs"
START_SECONDS = 240.0

_PYSPARK = "2.4.8"
_JARS = (
    "commons-cli",
    "commons-codec",
    "commons-collections",
    "commons-configuration",
    "commons-io",
    "commons-lang",
    "commons-logging",
    "guava",
    "hadoop-annotations",
    "hadoop-auth",
    "hadoop-common",
    "hadoop-hdfs",
    "htrace-core",
    "httpclient",
    "httpcore",
    "jackson-core-asl",
    "jackson-jaxrs",
    "jackson-mapper-asl",
    "javax.servlet-api",
    "jaxb-api",
    "jetty",
    "jetty-util",
    "log4j",
    "netty-all",
    "protobuf-java",
    "slf4j-api",
    "slf4j-log4j12",
    "xercesImpl",
)
_DEBIAN = {
    "libjersey1-core-java": "jersey1-core",
    "libjersey1-server-java": "jersey1-server",
    "libjersey1-servlet-java": "jersey1-servlet",
    "libjersey1-json-java": "jersey1-json",
    "libjsr311-api-java": "jsr311-api",
}
_JAVA = [
    "java",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.lang", "java.nio", "java.util", "java.security", "sun.nio.ch")
    ),
]
_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]
"""What has the kernel end a process when the one that started it is killed."""
_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_LOG4J = """\
log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %c: %m%n
"""
_NO_SETTINGS: Mapping[str, object] = MappingProxyType({})


class HdfsServer:
    """One NameNode with some DataNodes, each of which has a copy of each block; empty at first. Files
    are in a directory that ends with it."""

    def __init__(
        self,
        cache: Path = CACHE,
        *,
        settings: Mapping[str, object] = _NO_SETTINGS,
        datanodes: int = 1,
    ) -> None:
        self._cache = cache
        self._settings = {"dfs.replication": datanodes, **settings}
        self._datanodes = datanodes
        self._processes: list[subprocess.Popen[bytes]] = []
        self.directory = Path()
        self.direct_authority = ""
        self.http_url = ""
        self.gate: HdfsGate

    @property
    def authority(self) -> str:
        """Where clients find the NameNode: behind the gate."""
        return self.gate.authority

    def start(self) -> HdfsServer:
        """Start, and return once files can be written; the first start installs."""
        install(self._cache)
        self.directory = Path(tempfile.mkdtemp(prefix="hdfs-"))
        rpc, http = free_ports(2)
        self.direct_authority, self.http_url = f"127.0.0.1:{rpc}", f"http://127.0.0.1:{http}"
        self.gate = HdfsGate(rpc)
        for place in self._places():
            _configure(place, self.authority, rpc=rpc, http=http, more=self._settings)
        shutil.copytree(self._cache / "name", self.directory / "name")
        try:
            self._processes.append(self._run(_NAMENODE, self.directory))
            self._processes += [self._run(_DATANODE, place) for place in self._places()]
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all processes and delete their files; idempotent."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        self._processes = []
        self.gate.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def pause(self) -> None:
        """Let the NameNode answer nothing, without closing a connection."""
        self._processes[0].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._processes[0].pid, os.WSTOPPED)  # all its threads

    def resume(self) -> None:
        """End a pause."""
        self._processes[0].send_signal(signal.SIGCONT)

    def _places(self) -> list[Path]:
        """The directory of each DataNode; the NameNode's is that of the first."""
        more = [self.directory / f"datanode-{number}" for number in range(1, self._datanodes)]
        return [self.directory, *more]

    def _run(self, name: str, place: Path) -> subprocess.Popen[bytes]:
        with (place / f"{name.rpartition('.')[2].lower()}.log").open("wb") as output:
            return subprocess.Popen(
                [*_WITH_PARENT, *_JAVA, "-cp", _class_path(place, self._cache), name],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=place,
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            ended = [process for process in self._processes if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(log.read_text()[-3000:] for log in self.directory.rglob("*node.log"))
                raise RuntimeError(f"HDFS did not start within {START_SECONDS:g} s:\n{logs}")
            time.sleep(0.1)

    def _is_ready(self) -> bool:
        query = "Hadoop:service=NameNode,name=FSNamesystemState"
        try:
            with urllib.request.urlopen(f"{self.http_url}/jmx?qry={query}", timeout=5) as answer:
                beans = json.load(answer)["beans"]
        except (OSError, ValueError):
            return False
        if not beans or beans[0]["NumLiveDataNodes"] < self._datanodes:
            return False
        # A DataNode is live before it has told how much room it has, and is given nothing until then.
        return beans[0]["CapacityRemaining"] > 0 and beans[0]["FSState"] == "Operational"


@contextlib.contextmanager
def hdfs_server(
    settings: Mapping[str, object] = _NO_SETTINGS, *, datanodes: int = 1
) -> Iterator[HdfsServer]:
    """A server for the length of a block, with `settings` of ``hdfs-site.xml`` beside its own."""
    server = HdfsServer(settings=settings, datanodes=datanodes).start()
    try:
        yield server
    finally:
        server.stop()


def install(cache: Path = CACHE) -> None:
    """Put the jars and a formatted file system into `cache`, once for all processes."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (cache / "installed").exists():
            return
        _require("java", "Java 17 (Debian: openjdk-17-jre-headless)")
        shutil.rmtree(cache / "jars", ignore_errors=True)
        (cache / "jars").mkdir()
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            source_jars.fetch("pyspark", _PYSPARK, _JARS, cache / "jars", Path(scratch))
            _fetch_jersey(Path(scratch), cache / "jars")
            _format(Path(scratch), cache)
        (cache / "installed").touch()


def _require(command: str, what: str) -> None:
    if shutil.which(command) is None:
        raise RuntimeError(f"HDFS for the tests needs {what} and this machine has no {command!r}")


def _fetch_jersey(scratch: Path, jars: Path) -> None:
    """Take Jersey 1 out of Debian's packages; none of them is installed."""
    unpacked = debian.unpack(_DEBIAN, scratch)
    for jar in _DEBIAN.values():
        shutil.copy(unpacked / "usr" / "share" / "java" / f"{jar}.jar", jars)


def _format(scratch: Path, cache: Path) -> None:
    """Make the empty file system that each server starts from."""
    _configure(scratch, "127.0.0.1:1", rpc=1, http=1)
    command = [*_JAVA, "-cp", _class_path(scratch, cache), _NAMENODE]
    debian.run([*command, "-format", "-force", "-nonInteractive"], scratch)
    shutil.rmtree(cache / "name", ignore_errors=True)
    shutil.move(scratch / "name", cache / "name")


def _configure(
    directory: Path,
    authority: str,
    *,
    rpc: int,
    http: int,
    more: Mapping[str, object] = _NO_SETTINGS,
) -> None:
    """Write the configuration of a server with its files in `directory`, for clients at `authority`."""
    host = "127.0.0.1"
    directory.mkdir(exist_ok=True)
    (directory / "core-site.xml").write_text(_xml({"fs.defaultFS": f"hdfs://{authority}"}))
    settings = {
        "dfs.namenode.name.dir": f"file://{directory}/name",
        "dfs.datanode.data.dir": f"file://{directory}/data",
        "dfs.namenode.rpc-address": f"{host}:{rpc}",
        "dfs.namenode.http-address": f"{host}:{http}",
        "dfs.datanode.address": f"{host}:0",
        "dfs.datanode.ipc.address": f"{host}:0",
        "dfs.datanode.http.address": f"{host}:0",
        "dfs.datanode.hostname": host,
        "dfs.heartbeat.interval": 1,
        "dfs.namenode.safemode.extension": 0,
        "dfs.namenode.edits.noeditlogchannelflush": "true",  # no file of a test survives its server
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.namenode.handler.count": 16,
    }
    (directory / "hdfs-site.xml").write_text(_xml({**settings, **more}))
    (directory / "log4j.properties").write_text(_LOG4J)
    for application in ("hdfs", "datanode"):  # the pages of both servers are in no jar
        page = directory / "webapps" / application / "WEB-INF" / "web.xml"
        page.parent.mkdir(parents=True)
        page.write_text("<web-app/>")


def _xml(settings: dict[str, object]) -> str:
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    return f"<configuration>{properties}</configuration>"


def _class_path(configuration: Path, cache: Path) -> str:
    return f"{configuration}:{cache}/jars/*"


def main() -> None:
    """Run a server until the line is closed or Enter is pressed."""
    with hdfs_server() as server:
        print(f"hdfs://{server.authority}  WebHDFS {server.http_url}  files {server.directory}")
        print("Enter ends it")
        sys.stdin.readline()


if __name__ == "__main__":
    main()
