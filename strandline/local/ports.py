"""Free TCP ports of the loopback address."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"
PORT_MIN: Final = 10_000
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_EPHEMERAL_FROM: Final = 32_768
"""Where the kernel's own range begins if it does not say."""


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
