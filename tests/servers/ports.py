"""Ports for servers that cannot choose one themselves."""

from __future__ import annotations

import random
import socket

# Above those of Ray's workers, and below those that the kernel gives to outgoing connections: of these
# one that is free now may be somebody's before the server has it.
_PORTS = range(20_000, 32_768)
_claims: list[socket.socket] = []
"""Of each port that was given away, until the process ends: no other process of the tests is given it,
even before its server listens."""


def free_port() -> int:
    """A port that is free on each interface, and that no other caller on this machine is given."""
    chance = random.SystemRandom()  # processes that were forked, or have one seed, choose others
    while True:
        port = chance.choice(_PORTS)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0ray-committer-test-port-{port}")
            with socket.socket() as probe:
                probe.bind(("", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port


def free_ports(number: int) -> list[int]:
    """So many of them."""
    return [free_port() for _ in range(number)]
