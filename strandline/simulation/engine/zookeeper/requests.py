"""What a client asks of a server, and how it hears the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from strandline.errors import CoordinationError
from strandline.ports import Operation
from strandline.simulation.engine.zookeeper.znode_tree import ZnodeTree


@dataclass(slots=True, eq=False)
class Request:
    """One operation of a session."""

    operations: Sequence[Operation] = ()
    """What it writes; nothing for `sync`."""
    multi: bool = False
    read: Callable[[ZnodeTree], object] | None = None
    """What it reads; None: it goes to the leader."""
    watch: str | None = None
    """The path whose children are to be watched once the read is answered."""
    ends_session: bool = False
    done: bool = False
    answer: object = None
    error: CoordinationError | None = None


class Client(Protocol):
    """The client's end of a connection to a server. Its methods run in the client's process."""

    heard_ns: int
    """When anything of a server came here last."""

    def knocked(self) -> None: ...

    def welcomed(self, session: int, password: bytes, timeout_s: float) -> None: ...

    def expired(self) -> None: ...

    def answered(self, request: Request, zxid: int) -> None: ...

    def event(self, path: str) -> None:
        """The children of a watched path changed, or it was deleted."""
        ...

    def pong(self) -> None: ...
