"""Ports for servers that cannot choose one themselves."""

from __future__ import annotations

import random
import socket

# Above those of Ray's workers, and below those that the kernel gives to outgoing connections: of these
# one that is free now may be somebody's before the server has it.
_PORTS = range(20_000, 32_768)


def free_port() -> int:
    """A port that is free on each interface."""
    chance = random.SystemRandom()  # processes that were forked, or have one seed, choose others
    while True:
        port = chance.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port


def free_ports(number: int) -> list[int]:
    """So many of them, which all differ."""
    ports: set[int] = set()
    while len(ports) < number:
        ports.add(free_port())
    return list(ports)
