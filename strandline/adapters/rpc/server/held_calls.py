"""Bounds the calls that one address has open at a process.

grpcio shows calls and not connections. A call that waits, and a stream, hold memory and a place among the
calls of a listener, so one address must not have all of them.
"""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from urllib.parse import unquote

from strandline.errors import ThrottlingQuotaExceeded
from strandline.room import one_host


def host_of(peer: str) -> str:
    """The address in what gRPC calls a peer, such as `ipv4:10.0.0.1:5000` and `ipv6:%5B::1%5D:5000`, and in
    what our own ports do: `framed:10.0.0.1:5000`, `kafka:10.0.0.1:5000`."""
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6", "framed", "kafka"):
        return peer
    return unquote(rest.rpartition(":")[0]).strip("[]")


class TooManyCalls(ThrottlingQuotaExceeded):
    """An address has as many calls open as it may have."""


class HeldCalls:
    """The open calls of one process, by the host that made them (`one_host`)."""

    def __init__(self, address_max: int) -> None:
        self._address_max = address_max
        self._open: Counter[str] = Counter()

    @property
    def addresses(self) -> int:
        """Those with open calls."""
        return len(self._open)

    def of(self, address: str) -> int:
        """The open calls of this address."""
        return self._open[one_host(address)]

    def one(self, address: str) -> _Held:
        """Counts a call until the end of the `with` block. Raises TooManyCalls, and then counts none."""
        host = one_host(address)
        if self._open[host] >= self._address_max:
            raise TooManyCalls(
                f"{address} has {self._address_max} calls and streams open, the most for one address "
                "(setting client_calls_max): close clients, or try again",
                limit=self._address_max,
            )
        return _Held(self._open, host)


class _Held:
    def __init__(self, open_calls: Counter[str], address: str) -> None:
        self._open = open_calls
        self._address = address

    def __enter__(self) -> None:
        self._open[self._address] += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open[self._address] -= 1
        if not self._open[self._address]:
            del self._open[self._address]
