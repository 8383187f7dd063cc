"""Ports for servers that cannot choose one themselves."""

from __future__ import annotations

import socket


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))  # free on each interface
        return probe.getsockname()[1]
