"""A server of Spark Connect without Python, whose writes a `ray-committer` command commits."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from ray_committer.version import PROTOCOL_CLASS, PROTOCOL_KEY, jar_path
from tests.integration.spark.jvm import environment
from tests.servers.ports import free_port

_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(home: Path, conf: Mapping[str, str]) -> Iterator[str]:
    """A server whose driver has our jar, our protocol and `conf`; its URL."""
    port = free_port()
    settings = {
        PROTOCOL_KEY: PROTOCOL_CLASS,
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.connect.grpc.binding.port": str(port),
        **conf,
    }
    pairs = [f"--conf={key}={value}" for key, value in settings.items()]
    program = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(program), "--master=local[2]", f"--jars={jar_path()}", f"--class={_SERVER}", *pairs]
    log = home / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "spark-internal"],
            cwd=home,
            env=environment(SPARK_HOME=str(program.parents[1]), SPARK_NO_DAEMONIZE="1"),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with server:
            try:
                _wait_until_open(port, server, log)
                yield f"sc://127.0.0.1:{port}"
            finally:
                server.kill()


def _wait_until_open(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(log.read_text())


def client(url: str) -> Any:
    """A new session of a client; the process can have a session with a JVM, too."""
    from pyspark.sql.connect.session import SparkSession

    return SparkSession.builder.remote(url).create()
