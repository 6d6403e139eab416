"""The addresses of the ZooKeeper servers, as their names resolve now or did before.

A resolver that is asked while this machine has no network does not answer for five seconds or longer, even if
the network is back after a moment. A client that waits for it loses its session. So names are resolved on a
thread of their own, and the last addresses count until it answers.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

RESOLVE_S_MAX: Final = 0.25
"""How long an attempt to connect waits for the names when there are earlier addresses."""
RESOLVE_FIRST_S_MAX: Final = 1.0
"""The same when there are none. Then the attempt fails, and the next one waits again."""


Resolve = Callable[[str, int], Sequence[str]]
"""Returns the addresses of a name; the other argument is the port. Raises OSError."""


def resolved(name: str, port: int) -> Sequence[str]:
    """The addresses that the system's resolver has."""
    return [str(answer[4][0]) for answer in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]


class ServerAddress(NamedTuple):
    """One address of a server."""

    name: str
    address: str
    port: int


class ServerAddresses:
    """The addresses of one client's servers. `current` is called on the connection thread only."""

    def __init__(self, servers: Sequence[tuple[str, int]], resolve: Resolve = resolved) -> None:
        """`servers`: names and ports. `resolve` may block."""
        self._resolve = resolve
        self._servers = servers
        self._known: dict[tuple[str, int], Sequence[ServerAddress]] = {}
        """Replaced by the resolving thread. A name that does not resolve keeps its last addresses."""
        self._resolving: threading.Thread | None = None

    def current(self) -> list[ServerAddress]:
        """The addresses in random order; none if no name has ever resolved. Waits a moment for newer ones."""
        if self._resolving is None or not self._resolving.is_alive():
            self._resolving = threading.Thread(target=self._resolve_all, name="zookeeper-names", daemon=True)
            self._resolving.start()
        self._resolving.join(RESOLVE_S_MAX if self._known else RESOLVE_FIRST_S_MAX)
        found = [address for addresses in self._known.values() for address in addresses]
        random.shuffle(found)
        return found

    def _resolve_all(self) -> None:
        known = dict(self._known)
        for name, port in self._servers:
            try:
                found = self._resolve(name, port)
            except OSError:
                continue
            known[name, port] = [ServerAddress(name, address, port) for address in found]
        self._known = known
