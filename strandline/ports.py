"""The outside world as Protocols. Adapters implement them; a simulator may do so too.

Nothing below layer 3 reads a clock, opens a file or talks to ZooKeeper except through these.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from strandline.errors import CoordinationError, OutcomeUnknown, StrandlineError


class Clock(Protocol):
    """Time. `monotonic` never goes back and counts suspended time; `wall_ms` may jump."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    async def sleep(self, seconds: float) -> None: ...


# --- coordination (ZooKeeper) ---------------------------------------------------------------


class NoNode(CoordinationError):
    """The znode does not exist."""


class NodeExists(CoordinationError):
    """The znode exists already."""


class BadVersion(CoordinationError):
    """A compare-and-set lost: somebody wrote the znode in between."""


class NotEmpty(CoordinationError):
    """The znode has children."""


class ConnectionLost(CoordinationError):
    """The connection broke under the operation: it may or may not have been carried out (E9)."""


class SessionEnded(CoordinationError):
    """The session is over. Its ephemeral znodes are gone; nothing may be done in its name."""


class MultiFailed(CoordinationError):
    """A `multi` was refused as a whole. `index` names the operation that failed, `cause` how."""

    def __init__(self, index: int, cause: CoordinationError) -> None:
        super().__init__(f"operation {index} of the multi failed: {cause}")
        self.index = index
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Znode:
    """What a read returned. `version` is for compare-and-set; `czxid` names this incarnation."""

    data: bytes
    version: int
    czxid: int
    mzxid: int
    ephemeral_owner: int
    """Session id of the owner; 0 for a persistent znode."""
    children: int = 0
    """How many it had."""


@dataclass(frozen=True, slots=True)
class Check:
    """Part of a `multi`: the znode must exist at this version (-1: at any)."""

    path: str
    version: int = -1


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = -1


Operation = Check | Create | SetData | Delete


class LinkState(Enum):
    """State of one session. SUSPENDED: the connection is down, the session may yet live."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    ENDED = "ended"


class Coordination(Protocol):
    """One ZooKeeper session, from its start to its end. A new session is a new object.

    Every operation raises `ConnectionLost` when its outcome is unknown and `SessionEnded` once the
    session is over. Operations may be issued concurrently and are pipelined.
    """

    @property
    def session_id(self) -> int: ...

    @property
    def session_timeout_s(self) -> float:
        """The timeout that the server granted, seconds."""
        ...

    @property
    def state(self) -> LinkState: ...

    def on_state(self, listener: Callable[[LinkState], None]) -> None:
        """Call `listener` on the event loop at each change of state."""
        ...

    async def wait_ended(self) -> None:
        """Return once the session has ended."""
        ...

    async def get(self, path: str) -> Znode:
        """Raises NoNode."""
        ...

    async def exists(self, path: str) -> Znode | None:
        """The znode's facts (its data is empty here), or None."""
        ...

    async def children(self, path: str) -> list[str]:
        """Raises NoNode."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """The path created, with its number if sequential. Raises NodeExists, NoNode."""
        ...

    async def ensure_path(self, path: str) -> None:
        """Create a persistent path with all its parents where they are missing."""
        ...

    async def set(self, path: str, data: bytes, *, version: int = -1) -> int:
        """The znode's new version. Raises NoNode, BadVersion."""
        ...

    async def delete(self, path: str, *, version: int = -1) -> None:
        """Raises NoNode, BadVersion, NotEmpty."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """All or nothing. For each operation: the path created, the new version, or None.

        Raises MultiFailed.
        """
        ...

    async def sync(self, path: str = "/") -> None:
        """Reads after this see all that was committed before it."""
        ...

    def watch_children(self, path: str, listener: Callable[[list[str]], None]) -> None:
        """Call `listener` on the event loop with the current children, now and after each change.

        Costs one watch. It survives reconnects, coalesces changes, and ends with the session. An
        absent path counts as having no children only once it exists: create it first.
        """
        ...


# --- files ----------------------------------------------------------------------------------


NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
"""A file could not be opened because this process, or the system, has too many open."""


class SyncFailed(OSError):
    """A sync failed: what was to be synced may be lost though it is still read (CORRECTNESS E3)."""


class Files(Protocol):
    """What a log needs of a file system. Everything raises OSError as the system does.

    Files are append-only: a write always lands at the end. A descriptor is whatever `open` returns.
    What was written survives a crash of the process; it survives a loss of power only after `sync`
    (for bytes) and `sync_directory` (for names that appeared, changed or went).
    """

    def open(self, path: Path, *, create: bool = False) -> int:
        """A descriptor for reads and appends. Raises FileNotFoundError unless `create`."""
        ...

    def close(self, descriptor: int) -> None: ...

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        """Write all parts at the end, in one call; the bytes written, which may be fewer."""
        ...

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        """Up to `size` bytes at a position; fewer only at the end of the file."""
        ...

    def truncate(self, descriptor: int, size: int) -> None: ...

    def sync(self, descriptor: int) -> None:
        """Wait until the file's bytes and its size are on the medium. Raises SyncFailed."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Raises SyncFailed, and OSError if the directory cannot be opened."""
        ...

    def make_directory(self, path: Path) -> bool:
        """With its parents; False if it was there."""
        ...

    def sizes(self, path: Path) -> dict[str, int]:
        """The names of a directory's files, and their sizes in bytes."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Put `source` in the place of `target`, atomically."""
        ...

    def remove(self, path: Path) -> None: ...


# --- transport ------------------------------------------------------------------------------

Request = TypeVar("Request")
Response = TypeVar("Response")
RequestIn = TypeVar("RequestIn", contravariant=True)
ResponseOut = TypeVar("ResponseOut", covariant=True)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """One RPC: its path, and how its messages become bytes and back.

    Request and response are a service's own types, so that no protobuf leaves its `wire.py`.
    """

    path: str
    encode: Callable[[Request], bytes]
    decode: Callable[[bytes], Response]


class StreamEnded(OutcomeUnknown):
    """The peer ended the stream by itself, in good order: what it had to say has been said."""


class Stream(Protocol[RequestIn, ResponseOut]):
    """One open bidirectional call. After an error it is of no more use than to be closed."""

    async def write(self, request: RequestIn) -> None:
        """Returns once the transport has taken it. Raises OutcomeUnknown if the stream is broken."""
        ...

    async def read(self) -> ResponseOut:
        """The next response. Raises StreamEnded when the peer ends the stream, OutcomeUnknown when it
        breaks, and whatever typed error the peer ended it with."""
        ...

    async def finish(self) -> None:
        """No more is written. Returns once the peer has read all of it and ended the stream, or the
        stream broke; responses go on being read meanwhile."""
        ...

    def close(self) -> None: ...


class Transport(Protocol):
    """Calls to peers by their address, `host:port`. Connections are kept, and made again when broken."""

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        """One request, one response.

        Raises BrokerNotAvailable if there is no connection (nothing was sent), OutcomeUnknown if it
        broke or the time was up, and whatever typed error the peer answered with.
        """
        ...

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        """Open a stream. Raises BrokerNotAvailable if there is no connection within the time."""
        ...

    async def close(self) -> None: ...


# --- serving --------------------------------------------------------------------------------


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


@dataclass(frozen=True, slots=True)
class Rpc(Generic[Request, Response]):
    """One RPC as its server sees it: its path, and how bytes become messages and back.

    Request and response are the service's own types, as with `Method`.
    """

    path: str
    """`/package.Service/Call`"""
    decode: Callable[[bytes], Request]
    """Raises InvalidRequest."""
    encode: Callable[[Response], bytes]
    refuse: Callable[[StrandlineError], bytes] | None = None
    """An answer that carries an error; None: an error ends the call instead."""
    refuses_malformed: bool = False
    """True if bytes that are no request get such an answer too; False: they end the call."""


Reply = Callable[[Response], Awaitable[None]]
"""Sends one answer of a stream. Does not return if the peer hung up."""


@dataclass(frozen=True, slots=True)
class ServedCall(Generic[Request, Response]):
    """One request, one answer. `handle` raises StrandlineError to refuse the request."""

    rpc: Rpc[Request, Response]
    handle: Callable[[Request, Caller], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class ServedStream(Generic[Request, Response]):
    """Any number of requests and answers.

    `handle` raises StrandlineError, alone or in a group, to end the stream. It is cancelled when the peer
    hangs up. Its requests raise InvalidRequest.
    """

    rpc: Rpc[Request, Response]
    handle: Callable[[AsyncIterator[Request], Reply[Response], Caller], Awaitable[None]]


Served = ServedCall[Any, Any] | ServedStream[Any, Any]
"""What a service gives to each listener that serves it."""
