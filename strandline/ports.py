"""The outside world as Protocols. Adapters implement them, and a simulator can too.

Services and clients read the clock, open files and talk to ZooKeeper only through these Protocols.
"""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from strandline.errors import BrokerNotAvailable, CoordinationError, OutcomeUnknown, StrandlineError
from strandline.security.audit.entry import Source
from strandline.security.principal import ANONYMOUS, Principal


class Clock(Protocol):
    """A clock. `monotonic` never goes back and counts suspended time; `wall_ms` may jump."""

    def monotonic(self) -> float:
        """Seconds since a fixed moment."""
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
    """A compare-and-set failed: another client wrote the znode in between."""


class NotEmpty(CoordinationError):
    """The znode has children."""


class NotPermitted(CoordinationError):
    """ZooKeeper refuses the operation to the identity of this process, or takes no such ACL."""


class ConnectionLost(CoordinationError):
    """The connection broke during the operation, which may or may not have been carried out (E9)."""


class SessionEnded(CoordinationError):
    """The session has ended. Its ephemeral znodes are deleted, and its owner must not act any further."""


class MultiFailed(CoordinationError):
    """A `multi` was refused as a whole. `index` is the operation that failed, `cause` its error."""

    def __init__(self, index: int, cause: CoordinationError) -> None:
        super().__init__(f"operation {index} of the multi failed: {cause}")
        self.index = index
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Znode:
    """The result of a read. `version` is for compare-and-set; `czxid` identifies this incarnation
    of the znode."""

    data: bytes
    version: int
    czxid: int
    mzxid: int
    ephemeral_owner: int
    """Session id of the owner; 0 for a persistent znode."""
    children: int = 0
    """The number of children."""


@dataclass(frozen=True, slots=True)
class Check:
    """Part of a `multi`: the znode must exist at this version (-1: any version)."""

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
    """State of one session. SUSPENDED: the connection is down; the session may still be alive."""

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
        """The znode's facts (its data is empty here), or None if it does not exist."""
        ...

    async def children(self, path: str) -> list[str]:
        """Raises NoNode."""
        ...

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Returns the created path, with its number if sequential. Raises NodeExists, NoNode."""
        ...

    async def ensure_path(self, path: str) -> None:
        """Create a persistent path and its missing parents."""
        ...

    async def set(self, path: str, data: bytes, *, version: int = -1) -> int:
        """Returns the znode's new version. Raises NoNode, BadVersion."""
        ...

    async def delete(self, path: str, *, version: int = -1) -> None:
        """Raises NoNode, BadVersion, NotEmpty."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> list[str | int | None]:
        """Carry out all operations or none. Returns for each one: the created path, the new
        version, or None.

        Raises MultiFailed.
        """
        ...

    async def sync(self, path: str = "/") -> None:
        """Reads after this see everything that was committed before it."""
        ...

    def watch_children(self, path: str, listener: Callable[[list[str]], None]) -> None:
        """Call `listener` on the event loop with the current children, now and after each change.

        It costs one watch. It survives reconnects, coalesces changes, and ends with the session.
        The listener is not called while the path does not exist: create it first.
        """
        ...


# --- files ----------------------------------------------------------------------------------


NO_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)
"""The errno values if a file cannot be opened because this process, or the system, has too many
open files."""


class SyncFailed(OSError):
    """A sync failed: the unsynced data may be lost even if reads still return it (CORRECTNESS E3)."""


class Files(Protocol):
    """The file system operations that services need. Every method raises OSError as the system does.

    Files are append-only: a write always appends. A descriptor is the value that `open` returned.
    Written data survives a crash of the process. It survives a loss of power only after `sync` (for
    bytes) and `sync_directory` (for created, renamed and deleted names).
    """

    def open(self, path: Path, *, create: bool = False) -> int:
        """Returns a descriptor for reads and appends. Raises FileNotFoundError unless `create`."""
        ...

    def close(self, descriptor: int) -> None: ...

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        """Write all parts at the end in one call. Returns the number of bytes written, which may be fewer."""
        ...

    def read(self, descriptor: int, size: int, position: int) -> bytes:
        """Read up to `size` bytes at a position; fewer only at the end of the file."""
        ...

    def truncate(self, descriptor: int, size: int) -> None: ...

    def sync(self, descriptor: int) -> None:
        """Wait until the file's bytes and its size are on the medium. Raises SyncFailed."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Wait until the directory's entries are on the medium. Raises SyncFailed, and OSError if
        it cannot be opened."""
        ...

    def make_directory(self, path: Path) -> bool:
        """Create a directory with its parents; False if it existed. Raises FileExistsError if a file has
        its path. Its parents survive a loss of power then, and its own name after `sync_directory`."""
        ...

    def sizes(self, path: Path) -> dict[str, int]:
        """The names of the files in a directory, with their sizes in bytes."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Replace `target` by `source`, atomically."""
        ...

    def remove(self, path: Path) -> None: ...

    def directories(self, path: Path) -> list[str]:
        """The names of the directories in a directory, in no particular order."""
        ...

    def rename_directory(self, source: Path, target: Path) -> None:
        """Give a directory another path. `target` must not exist."""
        ...

    def remove_directory(self, path: Path) -> None:
        """Remove a directory with everything in it."""
        ...

    def lock(self, path: Path) -> int:
        """Take the lock that a file stands for; the file is created. Returns a descriptor: to close it
        releases the lock, and so does the end of the process. Raises BlockingIOError if the lock is taken."""
        ...

    def boot_id(self, path: Path) -> str:
        """Identifies the time since the machine was started. The system has it in the file `path`."""
        ...

    def volume(self, path: Path) -> str:
        """Identifies the attachment of the disk below a directory: it is another one once the disk was
        detached. "" if that is unknown."""
        ...

    def space(self, path: Path) -> tuple[int, int]:
        """Bytes of the disk below a directory, and those of them that are free for this process."""
        ...


# --- transport ------------------------------------------------------------------------------

Request = TypeVar("Request")
Response = TypeVar("Response")
RequestIn = TypeVar("RequestIn", contravariant=True)
ResponseOut = TypeVar("ResponseOut", covariant=True)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """One RPC: its path, and the functions that encode and decode its messages.

    Request and response are the service's own types, so that protobuf types stay inside its
    codec.
    """

    path: str
    encode: Callable[[Request], bytes]
    decode: Callable[[bytes], Response]


class StreamEnded(OutcomeUnknown):
    """The peer ended the stream in good order, after its last message."""


class StreamOver(BrokerNotAvailable):
    """The peer took no more requests of the stream, as its caller's login has ended, and has answered all
    that it took. The others were not carried out, and may be sent on another stream."""


class Stream(Protocol[RequestIn, ResponseOut]):
    """One open bidirectional call. After an error it can only be closed."""

    async def write(self, request: RequestIn) -> None:
        """Returns once the transport has accepted the request. Raises OutcomeUnknown if the stream
        is broken; that it is over is for `read` to say, after the last answer."""
        ...

    async def read(self) -> ResponseOut:
        """The next response. Raises StreamEnded when the peer ends the stream, StreamOver when it takes no
        more requests, OutcomeUnknown when the stream breaks, and any typed error with which the peer ended
        it."""
        ...

    async def finish(self) -> None:
        """Ends the requests. Returns once the peer has read all of them and ended the stream, or
        the stream broke. Responses can still be read meanwhile."""
        ...

    def close(self) -> None: ...


class Transport(Protocol):
    """Calls to peers by address, `host:port`. Connections are kept, and re-established when broken."""

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        """Send one request and return its response.

        Raises BrokerNotAvailable if there is no connection (nothing was sent), OutcomeUnknown if
        the connection broke or the time ran out, and any typed error that the peer answered with.
        """
        ...

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        """Open a stream. Raises BrokerNotAvailable if there is no connection within the time."""
        ...

    async def close(self) -> None: ...


class BlockingCall(Protocol[ResponseOut]):
    """One call in progress, of a transport that blocks."""

    def result(self) -> ResponseOut:
        """Wait for the answer. Raises the typed error in the answer, or OutcomeUnknown."""
        ...

    def on_done(self, listener: Callable[[], None]) -> None:
        """Call `listener`, in another thread, once `result` would not block."""
        ...

    def cancel(self) -> None:
        """Cancel the call, from any thread: `result` raises at once."""
        ...


class BlockingTransport(Protocol):
    """Calls to peers by address, for code that must reach them while the event loop is blocked. Several
    threads may use it."""

    def begin(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> BlockingCall[Response]:
        """Send a request; `result` of the returned call waits for the answer. Raises InvalidRequest."""
        ...

    def close(self) -> None:
        """Cancel all calls and close the connections."""
        ...


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
