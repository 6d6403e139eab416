"""TCP ports of the loopback address: chooses them for the members of a cluster, and asks servers there."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strandline.errors import SettingsError

LOOPBACK: Final = "127.0.0.1"
PORT_MIN: Final = 10_000
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_FROM: Final = 32_768
"""The kernel's default start of the range, if it does not report one."""

RESERVED_MAX: Final = 200
"""Ports that a process has drawn lately, and keeps others from drawing."""

CONTROLLER_OFFSET: Final = 100
ZOOKEEPER_OFFSET: Final = 200
METRICS_OFFSET: Final = 300
"""With a base port: brokers start at it, controllers 100 above, ZooKeeper 200 above; the metrics
port of each is 300 above its service port."""


@dataclass(frozen=True, slots=True)
class ClusterPorts:
    """For each controller and broker: its service port, and its metrics port. For each broker: its port for
    Kafka clients, if there are any."""

    zookeeper: int
    controllers: Sequence[tuple[int, int]]
    brokers: Sequence[tuple[int, int]]
    kafka: Sequence[int]


def cluster_ports(
    brokers: int,
    controllers: int,
    base_port: int | None,
    *,
    kafka: bool = False,
    kafka_port: int | None = None,
) -> ClusterPorts:
    """Ports for the given numbers of members; free ones without `base_port`.

    `kafka`: each broker has a port for Kafka clients, from `kafka_port` on, or a free one.
    """
    for_kafka = range(kafka_port or 0, (kafka_port or 0) + brokers) if kafka else range(0)
    free_for_kafka = len(for_kafka) if kafka_port is None else 0
    if base_port is None:
        zookeeper, *free = free_ports(1 + 2 * (controllers + brokers) + free_for_kafka)
        free, kafka_ports = free[free_for_kafka:], free[:free_for_kafka] or for_kafka
        pairs = list(zip(free[::2], free[1::2], strict=True))
        return ClusterPorts(zookeeper, pairs[:controllers], pairs[controllers:], kafka_ports)

    def pairs_from(first: int, count: int) -> list[tuple[int, int]]:
        return [(port, port + METRICS_OFFSET) for port in range(first, first + count)]

    return ClusterPorts(
        base_port + ZOOKEEPER_OFFSET,
        pairs_from(base_port + CONTROLLER_OFFSET, controllers),
        pairs_from(base_port, brokers),
        free_ports(free_for_kafka) or for_kafka,
    )


def check_ports(ports: Sequence[tuple[int, str]]) -> None:
    """Checks that servers can listen on these ports; each comes with its use. Raises SettingsError, which
    names all that are taken."""
    uses: defaultdict[int, list[str]] = defaultdict(list)
    for port, use in ports:
        uses[port].append(use)
    problems = [f"{port} is for {' and '.join(found)}" for port, found in uses.items() if len(found) > 1]
    problems += [f"{port} ({found[0]}) is taken" for port, found in uses.items() if not is_free(port)]
    if problems:
        raise SettingsError(f"nothing was started, choose other ports: {', '.join(problems)}")


def is_free(port: int) -> bool:
    """True if a server can listen on it."""
    with socket.socket() as tried:
        # As servers do: connections that ended a moment ago leave a port usable.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


async def answer_of(port: int, sent: bytes, timeout_s: float, context: ssl.SSLContext | None = None) -> bytes:
    """All that the server on a port answers until it closes the connection; empty without a whole answer."""
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(LOOPBACK, port, ssl=context)
            try:
                writer.write(sent)
                return await reader.read()
            finally:
                writer.close()
    except OSError:  # a TimeoutError is one
        return b""


def free_ports(count: int, among: range | None = None) -> list[int]:
    """Different ports that were free at the check, drawn from `among`: by default, from below the kernel's
    ephemeral range.

    The kernel may assign a port of the ephemeral range to any outgoing connection, and so prevent a
    killed server from binding it again. Worse, a client that retries such a port until its server
    is back may be assigned that very port, and connect to itself.
    """
    draw = random.SystemRandom()
    among = among or range(PORT_MIN, max(_ephemeral_from(), PORT_MIN + 2 * count))
    with ExitStack() as held:  # within one call, the ports themselves
        ports: list[int] = []
        while len(ports) < count:
            port = draw.choice(among)
            each = held.enter_context(socket.socket())
            try:
                each.bind((LOOPBACK, port))
            except OSError:  # taken: draw again
                continue
            if _reserve(port):
                ports.append(port)
        return ports


_reserved: Final = deque[int]()
"""Descriptors of names, which stay open until the process ends."""


def _reserve(port: int) -> bool:
    """False if a process has drawn this port, and its server may not listen yet. Linux alone has such names
    of sockets, which belong to no file and end with their process; elsewhere two clusters that start at once
    may draw the same."""
    if sys.platform != "linux":
        return True
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0strandline-port-{port}")
    except OSError:
        name.close()
        return False
    _reserved.append(name.detach())
    if len(_reserved) > RESERVED_MAX:
        os.close(_reserved.popleft())
    return True


def _ephemeral_from() -> int:
    try:
        return int(_EPHEMERAL.read_text().split()[0])
    except OSError:
        return _EPHEMERAL_FROM
