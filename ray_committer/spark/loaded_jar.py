"""Whether the jar that a driver's JVM has loaded is that of this package.

It may come from `spark.jars`, from the cluster's image or from an earlier version of this package in
the same JVM: classes that are loaded once stay.
"""

from __future__ import annotations

from typing import Any

from ray_committer.errors import RayCommitterError
from ray_committer.jar import jar_path

JAR_PROTOCOL_VERSION = 6


def require_own_version(jvm: Any) -> None:
    """`RayCommitterError` names the jar that is loaded and what to do, if it speaks another version."""
    version = _version(jvm.io.raycommitter.Bridge)
    if version == JAR_PROTOCOL_VERSION:
        return
    said = "does not say which version it speaks" if version is None else f"speaks version {version}"
    raise RayCommitterError(
        f"{_location(jvm)}: this ray-committer jar is loaded in the driver and {said}, this package "
        f"speaks version {JAR_PROTOCOL_VERSION}; take it out of spark.jars and of Spark's "
        f"jars, or give Spark {jar_path()} instead, and start a new driver"
    )


def _version(bridge: Any) -> int | None:
    """What the jar says; None if it is too old to."""
    from py4j.protocol import Py4JError

    try:
        return int(bridge.protocolVersion())
    except Py4JError:
        return None


def _location(jvm: Any) -> str:
    """Where the jar was loaded from, as far as the JVM tells."""
    loader = jvm.Thread.currentThread().getContextClassLoader()
    source = loader.loadClass("io.raycommitter.Bridge").getProtectionDomain().getCodeSource()
    return str(source.getLocation().getPath()) if source is not None else "io.raycommitter.Bridge"
