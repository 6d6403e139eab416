"""One session with ZooKeeper: its znodes, operations and errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from strandline.errors import CoordinationError


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
    children_zxid: int = 0
    """The transaction that last created or deleted a child; 0 if it is not known."""


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

    @property
    def zxid(self) -> int:
        """The number of the newest transaction that this session has seen; 0: of none."""
        ...

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
