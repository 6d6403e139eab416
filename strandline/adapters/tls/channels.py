"""The channels of one transport: one for each address, and a new one once the certificates are replaced.

A channel's credentials are fixed. Calls that a replaced channel has go on; it is closed once they have ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

import grpc

from strandline.adapters.tls.grpc_credentials import Options, open_blocking_channel, open_channel
from strandline.adapters.tls.peers import PemOf
from strandline.adapters.tls.pem import Pem
from strandline.adapters.tls.refused_handshake import why_refused
from strandline.adapters.tls.reloaded import ReloadedPem

ChannelT = TypeVar("ChannelT")
"""A channel of the event loop, or one that blocks."""

CONNECT_S_MAX: Final = 1.0
"""The limit for one attempt to connect. TCP, TLS and HTTP/2 take a round trip each, over a long way or to a
busy machine. A peer that hangs costs its clients this time."""
ANSWERED_LOOK_S_MAX: Final = 1.0
"""How long the first errors of a link wait for their reason if the peer ended the attempt itself. So a reason
is known two seconds after the first attempt began."""
SILENT_LOOK_S_MAX: Final = 0.25
"""The same if the peer was silent: a broker that hangs must not delay its clients. Later errors take the
reason that was found meanwhile."""
KEPT_S_MAX: Final = 2.0
"""How long a reason is kept for a later error."""


class Link(Generic[ChannelT]):
    """A channel, and the number of its calls."""

    def __init__(self, channel: ChannelT, pem: Pem | None) -> None:
        self.channel = channel
        self.pem = pem
        self.calls = 0
        self.look_s_max = SILENT_LOOK_S_MAX
        """How long an error of this link may wait for its reason."""
        self._was_connected = False
        self._connects_since: float | None = None

    def begin(self) -> None:
        self.calls += 1

    def end(self) -> None:
        self.calls -= 1

    def connects(self, now: float) -> None:
        """An attempt is under way; `now` in seconds, as below."""
        if self._connects_since is None:
            self._connects_since = now

    def fails(self, now: float) -> None:
        """The last attempt has failed: without an answer, if it took all its time."""
        if self._connects_since is None:  # another call has seen it
            return
        answered = now - self._connects_since < CONNECT_S_MAX
        self._connects_since = None
        if not self._was_connected:
            self.look_s_max = ANSWERED_LOOK_S_MAX if answered else SILENT_LOOK_S_MAX

    def is_connected(self) -> None:
        """A peer that was reached once refuses no one: errors do not wait from now on."""
        self._connects_since, self._was_connected, self.look_s_max = None, True, 0.0


class _Links(Generic[ChannelT]):
    """The links of all addresses, and those that were replaced."""

    def __init__(self, open_link: Callable[[str, Pem | None, Options], ChannelT], options: Options) -> None:
        self._open = open_link
        self._options = options
        self._links: dict[str, Link[ChannelT]] = {}
        self._replaced: list[Link[ChannelT]] = []

    def link(self, address: str, pem: Pem | None) -> Link[ChannelT]:
        """The link to an address with these certificates."""
        link = self._links.get(address)
        if link is not None and link.pem is pem:
            return link
        if link is not None:
            self._replaced.append(link)
        link = self._links[address] = Link(self._open(address, pem, self._options), pem)
        return link

    def drained(self) -> list[ChannelT]:
        """The replaced channels whose calls have ended. They have to be closed."""
        drained = [link for link in self._replaced if not link.calls]
        for link in drained:
            self._replaced.remove(link)
        return [link.channel for link in drained]

    def leave(self) -> list[ChannelT]:
        """All channels. They have to be closed."""
        links = [*self._links.values(), *self._replaced]
        self._links.clear()
        self._replaced.clear()
        return [link.channel for link in links]


class Channels:
    """Channels of the event loop."""

    def __init__(self, pem_of: PemOf, options: Options) -> None:
        self._pem_of = pem_of
        self._links = _Links(open_channel, options)
        self._looks: dict[str, asyncio.Future[str | None]] = {}

    async def link(self, address: str) -> Link[grpc.aio.Channel]:
        for channel in self._links.drained():
            await channel.close()
        return self._links.link(address, _newest(self._pem_of, address))

    async def why_refused(self, address: str, *, wait_s: float) -> str | None:
        """After a failed attempt: the reason, if the port refuses this client; None: not known, or it does
        not. Waits for `wait_s` seconds; with 0 it may answer an earlier question."""
        look = self._looks.get(address)
        if look is None:
            look = self._looks[address] = _in_thread(why_refused, address, self._pem_of(address))
            look.add_done_callback(partial(self._keep, address))
        await asyncio.wait([look], timeout=wait_s)
        if not look.done():
            return None
        self._forget(address, look)
        return look.result()

    def _keep(self, address: str, look: asyncio.Future[str | None]) -> None:
        asyncio.get_running_loop().call_later(KEPT_S_MAX, self._forget, address, look)

    def _forget(self, address: str, look: asyncio.Future[str | None]) -> None:
        """Several calls may have waited for one look."""
        if self._looks.get(address) is look:
            del self._looks[address]

    async def close(self) -> None:
        for channel in self._links.leave():
            await channel.close()


class BlockingChannels:
    """Channels that several threads share."""

    def __init__(self, pem_of: PemOf, options: Options) -> None:
        self._pem_of = pem_of
        self._links = _Links(open_blocking_channel, options)
        self._changing = threading.Lock()

    def begin(self, address: str) -> Link[grpc.Channel]:
        """The link to an address for one call, whose `end` has to follow."""
        pem = _newest(self._pem_of, address)
        with self._changing:
            drained = self._links.drained()
            link = self._links.link(address, pem)
            link.begin()
        for channel in drained:
            channel.close()
        return link

    def end(self, link: Link[grpc.Channel]) -> None:
        with self._changing:
            link.end()

    def close(self) -> None:
        with self._changing:
            channels = self._links.leave()
        for channel in channels:
            channel.close()


def _newest(pem_of: PemOf, address: str) -> Pem | None:
    pem = pem_of(address)
    return None if pem is None else pem.now()


def _in_thread(
    look: Callable[[str, ReloadedPem | None], str | None], address: str, pem: ReloadedPem | None
) -> asyncio.Future[str | None]:
    """The result of a call that blocks. Its thread is none of the event loop's pool, whose threads sync logs,
    and keeps no process from ending."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[str | None] = loop.create_future()

    def run() -> None:
        why = look(address, pem)
        if not loop.is_closed():
            loop.call_soon_threadsafe(found.set_result, why)

    threading.Thread(target=run, name="handshake", daemon=True).start()
    return found
