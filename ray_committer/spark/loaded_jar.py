"""Check that the jar in a driver's JVM is the jar of this package.

The loaded jar can come from `spark.jars`, from the cluster's image, or from an earlier version of this
package in the same JVM: a JVM keeps the classes that it has loaded.
"""

from __future__ import annotations

from typing import Any

from ray_committer.errors import RayCommitterError
from ray_committer.jar import jar_path

JAR_PROTOCOL_VERSION = 6


def require_own_version(jvm: Any) -> None:
    """Raise `RayCommitterError`, with the loaded jar and what to do, if the jar has another version."""
    version = _version(jvm.io.raycommitter.Bridge)
    if version == JAR_PROTOCOL_VERSION:
        return
    said = "has no protocol version" if version is None else f"has protocol version {version}"
    raise RayCommitterError(
        f"{_location(jvm)}: this ray-committer jar is loaded in the driver and {said}, but this package "
        f"needs version {JAR_PROTOCOL_VERSION}; remove it from spark.jars and from Spark's "
        f"jars, or give Spark {jar_path()} instead, and start a new driver"
    )


def _version(bridge: Any) -> int | None:
    """The protocol version of the jar; None if the jar is too old to have one."""
    from py4j.protocol import Py4JError

    try:
        return int(bridge.protocolVersion())
    except Py4JError:
        return None


def _location(jvm: Any) -> str:
    """The path that the jar was loaded from, or the class name if the JVM does not know the path."""
    loader = jvm.Thread.currentThread().getContextClassLoader()
    source = loader.loadClass("io.raycommitter.Bridge").getProtectionDomain().getCodeSource()
    return str(source.getLocation().getPath()) if source is not None else "io.raycommitter.Bridge"
