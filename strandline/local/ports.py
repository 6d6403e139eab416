"""TCP ports of the loopback address: free ones, and who of a cluster has which."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
PORT_MIN: Final = 10_000
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_FROM: Final = 32_768
"""Where the kernel's own range begins if it does not say."""

CONTROLLER_OFFSET: Final = 100
ZOOKEEPER_OFFSET: Final = 200
METRICS_OFFSET: Final = 300
"""With a base port: brokers from it on, controllers 100 above, ZooKeeper 200 above; metrics 300 above whoever
serves them."""


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """Of each controller and broker the port of its service, and that of its metrics."""

    zookeeper: int
    controllers: Sequence[tuple[int, int]]
    brokers: Sequence[tuple[int, int]]


def cluster_ports(brokers: int, controllers: int, base_port: int | None) -> ClusterPorts:
    """Ports for so many; free ones without `base_port`."""
    if base_port is None:
        zookeeper, *free = free_ports(1 + 2 * (controllers + brokers))
        pairs = list(zip(free[::2], free[1::2], strict=True))
        return ClusterPorts(zookeeper, pairs[:controllers], pairs[controllers:])

    def pairs_from(first: int, count: int) -> list[tuple[int, int]]:
        return [(port, port + METRICS_OFFSET) for port in range(first, first + count)]

    return ClusterPorts(
        base_port + ZOOKEEPER_OFFSET,
        pairs_from(base_port + CONTROLLER_OFFSET, controllers),
        pairs_from(base_port, brokers),
    )


def free_ports(count: int) -> list[int]:
    """So many different ports that were free a moment ago, drawn from below the kernel's ephemeral range.

    Any connection that this machine opens may be given a port of that range, and keep a server that was
    killed from coming back on it. Worse, a client that knocks at such a port until its server is back
    will one day be given that very port, and talk to itself.
    """
    draw = random.SystemRandom()
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = draw.randrange(PORT_MIN, max(_ephemeral_from(), PORT_MIN + 2 * count))
            each = held.enter_context(socket.socket())
            try:
                each.bind((LOOPBACK, port))
            except OSError:  # taken: draw again
                continue
            ports.append(port)
        return ports


def _ephemeral_from() -> int:
    try:
        return int(_EPHEMERAL.read_text().split()[0])
    except OSError:
        return _EPHEMERAL_FROM
