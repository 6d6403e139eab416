"""Divides a service's file descriptors: some are reserved for files, connections share the rest."""

from __future__ import annotations

import resource
from typing import Final

DESCRIPTORS_RESERVED: Final = 64
"""Reserved for files, so that reads and writes never fail because of too many connections."""

CONNECTIONS_SHARE_MAX: Final = 0.5
"""The part of the remaining descriptors for incoming connections, over all listeners."""

CONNECTIONS_MIN: Final = 16
"""The least number of connections for a listener, however few descriptors there are."""

_INT32_MAX: Final = 2**31 - 1


def take_all() -> None:
    """Raise this process's limit to the system's maximum: logs and stores in use hold descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_max(listeners: int) -> int:
    """How many connections each listener may have open under this process's limit (RLIMIT_NOFILE)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return _INT32_MAX
    share = int((limit - DESCRIPTORS_RESERVED) * CONNECTIONS_SHARE_MAX) // listeners
    return min(max(share, CONNECTIONS_MIN), _INT32_MAX)


def connection_options(listeners: int) -> tuple[tuple[str, int], ...]:
    """The gRPC options for this limit. A connection beyond it is closed at once, and is not logged."""
    return (("grpc.max_allowed_incoming_connections", connections_max(listeners)),)
