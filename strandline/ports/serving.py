"""Calls from other processes, as the one that answers them sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic

from strandline.errors import StrandlineError
from strandline.ports.transport import Request, Response
from strandline.security.audit.entry import Source
from strandline.security.principal import ANONYMOUS, Principal


class Listener(Enum):
    """The address by which a call came in."""

    INTERNAL = "internal"
    """The one that the members of a cluster use among themselves."""
    EXTERNAL = "external"
    """The one for clients in another network: answers to them name external addresses."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Where a call came from, and what it proves."""

    connection: str
    """Names the connection, in the transport's words: bounds for one client are counted by it."""
    host: str
    """The client's address, without a port."""
    listener: Listener = Listener.INTERNAL
    member_key: bytes | None = None
    """The key of the cluster's members that the call shows; None: it shows none, as clients do."""
    principal: Principal = ANONYMOUS
    """Who makes the call."""
    mechanism: str = ""
    """What proved the principal: "SSL" or a SASL mechanism; "": nothing did, and it is anonymous."""
    expires_at: float | None = None
    """When its session ends, monotonic seconds; None: it has none, or it ends with its connection."""
    call: str = ""
    """The call, as the audit log names it: `Admin.CreateTopics`, `Kafka CreateTopics`; "": not told."""
    request_id: int | None = None
    """The number that the client gave its request; None: it gave none."""
    asks_for: Source | None = None
    """The caller for whom the call is made, as it says: to be believed of members of the cluster only."""
    client_id: str = ""
    """What the client calls itself; "": nothing. A Kafka client says it in each request."""

    @property
    def reached(self) -> str:
        """The listener's name."""
        return self.listener.value


@dataclass(frozen=True, slots=True)
class Rpc(Generic[Request, Response]):
    """One RPC as its server sees it: its path, and how bytes become messages and back.

    Request and response are the service's own types, as with `Method`.
    """

    path: str
    """`/package.Service/Call`"""
    decode: Callable[[bytes], Request]
    """Raises InvalidRequest."""
    encode: Callable[[Response, Listener], bytes]
    """An answer to a call that came in at this kind of address: it names addresses of that kind."""
    refuse: Callable[[StrandlineError, Listener], bytes] | None = None
    """The same for an answer that carries an error; None: an error ends the call instead."""
    refuses_malformed: bool = False
    """True if bytes that are no request get such an answer too; False: they end the call."""


Reply = Callable[[Response], Awaitable[None]]
"""Sends one answer of a stream. Does not return if the peer hung up."""


@dataclass(frozen=True, slots=True)
class ServedCall(Generic[Request, Response]):
    """One request, one answer. `handle` raises StrandlineError to refuse the request."""

    rpc: Rpc[Request, Response]
    handle: Callable[[Request, Caller], Awaitable[Response]]
    around: Callable[[Caller, Callable[[], Coroutine[Any, Any, bytes]]], Awaitable[bytes]] | None = None
    """Does the whole work of a call, from the bytes of its request to those of its answer, and charges the
    caller for it. None: a call is for nothing."""


@dataclass(frozen=True, slots=True)
class ServedStream(Generic[Request, Response]):
    """Any number of requests and answers.

    `handle` raises StrandlineError, alone or in a group, to end the stream. It is cancelled when the peer
    hangs up. Its requests raise InvalidRequest.
    """

    rpc: Rpc[Request, Response]
    handle: Callable[[AsyncIterator[Request], Reply[Response], Caller], Awaitable[None]]
    pushes: bool = False
    """True if answers come without requests: none leaves after the end of the caller's session. Otherwise no
    request is taken then, and those taken before are answered."""


Served = ServedCall[Any, Any] | ServedStream[Any, Any]
"""What a service gives to each listener that serves it."""
