"""How a service shares out its file descriptors: some are for files only, the rest for connections too."""

from __future__ import annotations

import resource
from typing import Final

DESCRIPTORS_RESERVED: Final = 64
"""Held back for files: what is written and read is never refused because of connections."""

CONNECTIONS_SHARE_MAX: Final = 0.5
"""Part of what is left that incoming connections may take, those of all listeners together."""

CONNECTIONS_MIN: Final = 16
"""Of a listener, however few descriptors there are."""

_INT32_MAX: Final = 2**31 - 1


def take_all() -> None:
    """Raise this process's limit to what the system grants: each log in use holds a descriptor."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_max(listeners: int) -> int:
    """How many connections each of these listeners may have open, by this process's limit (RLIMIT_NOFILE)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return _INT32_MAX
    share = int((limit - DESCRIPTORS_RESERVED) * CONNECTIONS_SHARE_MAX) // listeners
    return min(max(share, CONNECTIONS_MIN), _INT32_MAX)


def connection_options(listeners: int) -> tuple[tuple[str, int], ...]:
    """The options by which gRPC keeps to it: one connection more is closed at once, and logged by nobody."""
    return (("grpc.max_allowed_incoming_connections", connections_max(listeners)),)
